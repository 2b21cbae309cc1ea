//! The io_uring engine: one ring per thread; a large request is cut and up to [`DEPTH`] cuts are in
//! the kernel's hands at once.

use std::cell::RefCell;
use std::io;
use std::os::fd::RawFd;

use io_uring::{IoUring, opcode, types};

use crate::engine::{Way, advance, plain};

/// Requests in flight per thread: enough to keep a fast device busy from one connection.
const DEPTH: usize = 8;

/// Failed calls in a row, a millisecond apart, after which the kernel is given up.
const PATIENCE: u32 = 10_000;

/// Cuts lie at multiples of this in the file, so that an aligned stripe unit of up to this size is one
/// write, whole against other writers.
const CUT: usize = 256 << 10;

thread_local! {
    static RING: RefCell<Option<IoUring>> = const { RefCell::new(None) };
}

/// Whether this kernel, and whoever confines this process, allow a ring.
pub(crate) fn available() -> io::Result<()> {
    IoUring::new(DEPTH as u32).map(|_| ())
}

struct Cut {
    slices: Vec<libc::iovec>,
    offset: u64,
    length: usize,
    /// What the kernel said: bytes, or a negative error number.
    result: Option<i32>,
}

/// Moves all slices, or until the file ends.
///
/// # Safety
/// As for [`plain`].
pub(crate) unsafe fn run(
    way: Way,
    fd: RawFd,
    slices: &mut [libc::iovec],
    offset: u64,
) -> io::Result<usize> {
    let mut cuts = cut(slices, offset);
    RING.with_borrow_mut(|ring| {
        let ring = match ring {
            Some(ring) => ring,
            None => ring.insert(IoUring::new(DEPTH as u32)?),
        };
        // SAFETY: the caller's promise, and `exchange` gives back only what the kernel is done with.
        unsafe { exchange(ring, way, fd, &mut cuts) };
        Ok::<(), io::Error>(())
    })?;
    let mut done = 0;
    for mut one in cuts {
        let moved = match one.result.unwrap_or(-libc::EIO) {
            moved @ 0.. => moved as usize,
            // Not this way then.
            error if [libc::EINTR, libc::EAGAIN, libc::EOPNOTSUPP].contains(&-error) => 0,
            error => return Err(io::Error::from_raw_os_error(-error)),
        };
        done += moved;
        if moved < one.length {
            // Cut short: the rest in the plain way, which knows the end of the file.
            let rest = advance(&mut one.slices, moved);
            // SAFETY: the caller's promise.
            let more = unsafe { plain(way, fd, rest, one.offset + moved as u64) }?;
            done += more;
            if moved + more < one.length {
                break;
            }
        }
    }
    Ok(done)
}

/// Cuts a request at multiples of [`CUT`] in the file.
fn cut(slices: &[libc::iovec], offset: u64) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    let mut at = offset;
    for slice in slices {
        let mut taken = 0;
        while taken < slice.iov_len {
            let fresh = match cuts.last() {
                None => true,
                Some(last) => {
                    at.is_multiple_of(CUT as u64) || last.slices.len() == libc::UIO_MAXIOV as usize
                }
            };
            if fresh {
                cuts.push(Cut {
                    slices: Vec::new(),
                    offset: at,
                    length: 0,
                    result: None,
                });
            }
            let room = CUT - (at % CUT as u64) as usize;
            let part = room.min(slice.iov_len - taken);
            let last = cuts.last_mut().expect("just pushed");
            last.slices.push(libc::iovec {
                iov_base: slice.iov_base.wrapping_byte_add(taken),
                iov_len: part,
            });
            last.length += part;
            taken += part;
            at += part as u64;
        }
    }
    cuts
}

/// Hands all cuts to the kernel and waits until it is done with every one of them, whatever happens.
unsafe fn exchange(ring: &mut IoUring, way: Way, fd: RawFd, cuts: &mut [Cut]) {
    let (mut next, mut open) = (0, 0);
    let mut refused = 0;
    while open > 0 || next < cuts.len() {
        while next < cuts.len() && open < DEPTH {
            let one = &cuts[next];
            let (slices, count) = (one.slices.as_ptr(), one.slices.len() as u32);
            let entry = match way {
                Way::Read => opcode::Readv::new(types::Fd(fd), slices, count)
                    .offset(one.offset)
                    .build(),
                Way::Write => opcode::Writev::new(types::Fd(fd), slices, count)
                    .offset(one.offset)
                    .build(),
            };
            // SAFETY: descriptor, slices and memory live until the completion is seen below.
            if unsafe { ring.submission().push(&entry.user_data(next as u64)) }.is_err() {
                break;
            }
            next += 1;
            open += 1;
        }
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => {
                // Out of memory, mostly. What the kernel has taken may still write to our memory, so
                // there is no way back: try on, and rather end the process than leave it to chance.
                refused += 1;
                if refused == PATIENCE {
                    tracing::error!("io_uring takes and gives nothing any more: {error}");
                    std::process::abort();
                }
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        }
        for done in ring.completion() {
            cuts[done.user_data() as usize].result = Some(done.result());
            open -= 1;
        }
    }
}
