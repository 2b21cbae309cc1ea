//! How bytes move between memory and a subfile: system calls or an io_uring, through the page cache
//! or past it.
//!
//! All ways give the same bytes; `tests/engines.rs` holds them to one model. Past the page cache
//! (`O_DIRECT`) only whole blocks can go: the ends of a request that are none, and whatever the file
//! system refuses, take the page cache's way, and memory that is not aligned is copied once.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::uring;

/// What carries requests to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Engine {
    /// `preadv` and `pwritev`, one request at a time per connection.
    #[default]
    Pread,
    /// An io_uring per connection: a large request is several at once.
    Uring,
}

/// Addresses, lengths and offsets of direct requests are multiples of this: what all devices take.
pub(crate) const BLOCK: usize = 4096;

/// Memory for bytes whose own place is not aligned, per thread.
const BOUNCE: usize = 256 << 10;

/// One run of memory.
pub(crate) type Run = (*mut u8, usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// An open file and how its bytes move.
#[derive(Debug)]
pub(crate) struct Handle {
    pub file: File,
    direct: Option<File>,
    engine: Engine,
}

impl Handle {
    /// `direct`: open it a second time, past the page cache.
    pub fn new(file: File, path: &Path, engine: Engine, direct: bool) -> io::Result<Handle> {
        let direct = direct.then(|| open_direct(path)).transpose()?;
        Ok(Handle {
            file,
            direct,
            engine,
        })
    }

    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    /// Moves all runs, one after the other in the file; a read ends where the file does. Gives the
    /// number of bytes.
    ///
    /// # Safety
    /// Each address must be mapped for its length, and for reads writable and nobody's slice, while
    /// this runs.
    pub unsafe fn run(&self, way: Way, runs: &[Run], offset: u64) -> io::Result<usize> {
        let total: usize = runs.iter().map(|run| run.1).sum();
        let Some(direct) = &self.direct else {
            // SAFETY: the caller's promise.
            return unsafe { self.go(way, &self.file, runs, 0, total, offset) };
        };
        let head = ((BLOCK - offset as usize % BLOCK) % BLOCK).min(total);
        let middle = (total - head) / BLOCK * BLOCK;
        let mut done = 0;
        for (file, length) in [
            (&self.file, head),
            (direct, middle),
            (&self.file, total - head - middle),
        ] {
            if length == 0 {
                continue;
            }
            let (from, at) = (done, offset + done as u64);
            // SAFETY: the caller's promise.
            let moved = unsafe {
                if std::ptr::eq(file, direct) && !aligned(runs, from, length) {
                    self.bounce(way, direct, runs, from, length, at)?
                } else {
                    self.go(way, file, runs, from, length, at)?
                }
            };
            done += moved;
            if moved < length {
                break;
            }
        }
        Ok(done)
    }

    /// Bytes `from..from + length` of the runs, as they are.
    unsafe fn go(
        &self,
        way: Way,
        file: &File,
        runs: &[Run],
        from: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        let mut slices = cut(runs, from, length);
        let fd = file.as_raw_fd();
        // SAFETY: the caller's promise.
        unsafe {
            match self.engine {
                Engine::Pread => plain(way, fd, &mut slices, offset),
                Engine::Uring => uring::run(way, fd, &mut slices, offset),
            }
        }
    }

    /// The same through aligned memory.
    unsafe fn bounce(
        &self,
        way: Way,
        file: &File,
        runs: &[Run],
        from: usize,
        length: usize,
        offset: u64,
    ) -> io::Result<usize> {
        thread_local! {
            static MEMORY: std::cell::RefCell<Aligned> = const { std::cell::RefCell::new(Aligned::empty()) };
        }
        MEMORY.with_borrow_mut(|memory| {
            let memory = memory.get(BOUNCE);
            let mut done = 0;
            while done < length {
                let part = (length - done).min(BOUNCE);
                let place = cut(runs, from + done, part);
                if way == Way::Write {
                    // SAFETY: the caller's promise; `memory` is ours and long enough.
                    unsafe { copy(&place, memory.as_mut_ptr(), part, way) };
                }
                let run = [(memory.as_mut_ptr(), part)];
                // SAFETY: `memory` outlives the call.
                let moved = unsafe { self.go(way, file, &run, 0, part, offset + done as u64) }?;
                if way == Way::Read {
                    // SAFETY: as above.
                    unsafe { copy(&place, memory.as_mut_ptr(), moved, way) };
                }
                done += moved;
                if moved < part {
                    break;
                }
            }
            Ok(done)
        })
    }
}

fn open_direct(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)
}

/// Whether the file system of this directory takes direct requests.
pub(crate) fn probe_direct(dir: &Path) -> io::Result<()> {
    let path = dir.join("direct-probe");
    File::create(&path)?;
    let result = open_direct(&path).and_then(|file| {
        let handle = Handle {
            file: file.try_clone()?,
            direct: Some(file),
            engine: Engine::Pread,
        };
        let mut memory = Aligned::empty();
        let run = [(memory.get(BLOCK).as_mut_ptr(), BLOCK)];
        // SAFETY: `memory` outlives the call.
        unsafe { handle.run(Way::Write, &run, 0) }.map(|_| ())
    });
    let _ = std::fs::remove_file(&path);
    result
}

fn aligned(runs: &[Run], from: usize, length: usize) -> bool {
    cut(runs, from, length)
        .iter()
        .all(|slice| (slice.iov_base as usize | slice.iov_len).is_multiple_of(BLOCK))
}

/// Bytes `from..from + length` of the runs.
fn cut(runs: &[Run], mut from: usize, mut length: usize) -> Vec<libc::iovec> {
    let mut slices = Vec::with_capacity(runs.len());
    for &(address, size) in runs {
        let skip = from.min(size);
        from -= skip;
        let take = (size - skip).min(length);
        length -= take;
        if take > 0 {
            slices.push(libc::iovec {
                iov_base: address.wrapping_add(skip).cast(),
                iov_len: take,
            });
        }
    }
    slices
}

/// Copies `length` bytes between scattered slices and one place.
unsafe fn copy(slices: &[libc::iovec], place: *mut u8, mut length: usize, way: Way) {
    let mut place = place;
    for slice in slices {
        let part = slice.iov_len.min(length);
        // SAFETY: the caller's promise; the two never overlap.
        unsafe {
            match way {
                Way::Write => place.copy_from_nonoverlapping(slice.iov_base.cast(), part),
                Way::Read => place.copy_to_nonoverlapping(slice.iov_base.cast(), part),
            }
        }
        place = place.wrapping_add(part);
        length -= part;
    }
}

/// What is left after `count` bytes.
pub(crate) fn advance(mut slices: &mut [libc::iovec], mut count: usize) -> &mut [libc::iovec] {
    while let Some(first) = slices.first_mut() {
        let step = count.min(first.iov_len);
        first.iov_base = first.iov_base.wrapping_byte_add(step);
        first.iov_len -= step;
        count -= step;
        if first.iov_len > 0 {
            break;
        }
        slices = &mut slices[1..];
    }
    slices
}

/// System calls until all is moved or the file ends.
pub(crate) unsafe fn plain(
    way: Way,
    fd: RawFd,
    slices: &mut [libc::iovec],
    offset: u64,
) -> io::Result<usize> {
    let mut done = 0;
    let mut slices = advance(slices, 0);
    while !slices.is_empty() {
        let count = slices.len().min(libc::UIO_MAXIOV as usize) as libc::c_int;
        let at = (offset + done as u64) as libc::off_t;
        // SAFETY: the caller's promise; the kernel copies and checks every access itself.
        let moved = unsafe {
            match way {
                Way::Read => libc::preadv(fd, slices.as_ptr(), count, at),
                Way::Write => libc::pwritev(fd, slices.as_ptr(), count, at),
            }
        };
        match moved {
            0 if way == Way::Read => break,
            0 => return Err(io::ErrorKind::WriteZero.into()),
            1.. => {
                done += moved as usize;
                slices = advance(slices, moved as usize);
            }
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(done)
}

/// Memory at a known place in its page.
///
/// Processors copy several times slower when the destination lies a few bytes further into its page than
/// the source. The page cache begins with a page, and what an allocator gives a few bytes behind.
#[derive(Debug)]
pub struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    into_page: usize,
}

impl Aligned {
    /// At a page's start, which direct requests need. Takes memory only once it is used.
    pub const fn empty() -> Aligned {
        Aligned {
            bytes: Vec::new(),
            start: 0,
            into_page: 0,
        }
    }

    /// In the middle of a page: for bytes that are copied from the page cache and then to a program's
    /// memory.
    pub const fn amid() -> Aligned {
        Aligned {
            bytes: Vec::new(),
            start: 0,
            into_page: BLOCK / 2,
        }
    }

    /// The first `length` bytes, zero at first.
    pub fn get(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + 2 * BLOCK {
            self.bytes = vec![0; length + 2 * BLOCK];
            self.start = self.bytes.as_ptr().align_offset(BLOCK) + self.into_page;
        }
        &mut self.bytes[self.start..self.start + length]
    }
}

impl Default for Aligned {
    fn default() -> Aligned {
        Aligned::empty()
    }
}
