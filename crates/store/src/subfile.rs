//! One subfile: exact reads and writes at offsets, size, durability.

mod sparse;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, RwLock};

use crate::engine::{Handle, Way};
use crate::{Event, Options, StoreError, range_lock};
pub use sparse::Allocation;

/// Writers of at least this much take turns in our hands rather than spin in the kernel's.
const LARGE: usize = 128 << 10;

/// What is known of a subfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes, holes included.
    pub size: u64,
    /// Bytes on disk.
    pub stored: u64,
    /// Last change, nanoseconds since 1970.
    pub modified_ns: i64,
}

/// An open subfile.
#[derive(Debug)]
pub struct Subfile {
    handle: Handle,
    path: PathBuf,
    options: Options,
    /// Its directory entry is known to be durable.
    named: AtomicBool,
    removed: AtomicBool,
    /// Whether its disk has an arm, once somebody wanted to know.
    pub(crate) arm: OnceLock<bool>,
    /// Writers share it; who reads, changes and writes back has it alone, so that nobody's bytes are
    /// put back over newer ones.
    change: RwLock<()>,
    /// Large writers take turns by it: the kernel keeps writers of one file apart in any case, but
    /// those that wait for it spin on a core that another subfile's writer could use.
    turn: Mutex<()>,
}

impl Subfile {
    pub(crate) fn new(file: File, path: PathBuf, options: &Options) -> io::Result<Subfile> {
        Ok(Subfile {
            handle: Handle::new(file, &path, options.engine, options.direct)?,
            path,
            options: options.clone(),
            named: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            arm: OnceLock::new(),
            change: RwLock::new(()),
            turn: Mutex::new(()),
        })
    }

    /// Reads up to the end of the subfile; gives the number of bytes read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let run = [(buffer.as_mut_ptr(), buffer.len())];
        // SAFETY: `buffer` is ours alone while this runs.
        unsafe { self.handle.run(Way::Read, &run, offset) }
            .map_err(StoreError::io("read", &self.path))
    }

    /// Writes all bytes.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), StoreError> {
        // SAFETY: `buffer` stays while this runs.
        unsafe { self.write_raw_at(&[(buffer.as_ptr(), buffer.len())], offset) }
    }

    /// Writes runs of bytes, one after the other, from memory that others may change meanwhile: one
    /// system call, so that other writers of the subfile wait once and not once per run.
    ///
    /// # Safety
    /// Each address must be mapped and readable for its length while this runs.
    pub unsafe fn write_raw_at(
        &self,
        runs: &[(*const u8, usize)],
        offset: u64,
    ) -> Result<(), StoreError> {
        let total: usize = runs.iter().map(|run| run.1).sum();
        let _turn = (total >= LARGE && !self.handle.is_direct())
            .then(|| self.turn.lock().expect("no panic under this lock"));
        let _with_others = self.change.read().expect("no panic under this lock");
        let runs: Vec<_> = runs
            .iter()
            .map(|&(address, length)| (address.cast_mut(), length))
            .collect();
        // SAFETY: the caller's promise.
        unsafe { self.write_runs(&runs, offset) }.map_err(StoreError::io("write", &self.path))
    }

    unsafe fn write_runs(&self, runs: &[(*mut u8, usize)], offset: u64) -> io::Result<()> {
        if let Some(probe) = &self.options.probe {
            let mut at = offset;
            for &(address, length) in runs {
                // SAFETY: the caller's promise; tests do not change bytes while they are written.
                let bytes = unsafe { std::slice::from_raw_parts(address, length) };
                probe.saw(Event::Write {
                    path: &self.path,
                    offset: at,
                    bytes,
                })?;
                at += length as u64;
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.handle.run(Way::Write, runs, offset) }.map(|_| ())
    }

    /// Fills runs of memory, one after the other, from `offset` on; zeros where the subfile ends. One
    /// system call when it can.
    ///
    /// # Safety
    /// Each address must be mapped and writable for its length while this runs, and nobody may hold
    /// a slice of it.
    pub unsafe fn read_raw_at(
        &self,
        runs: &[(*mut u8, usize)],
        offset: u64,
    ) -> Result<(), StoreError> {
        // SAFETY: the caller's promise.
        let mut got = unsafe { self.handle.run(Way::Read, runs, offset) }
            .map_err(StoreError::io("read", &self.path))?;
        for &(address, length) in runs {
            let there = got.min(length);
            got -= there;
            // SAFETY: the caller's promise.
            unsafe { address.add(there).write_bytes(0, length - there) };
        }
        Ok(())
    }

    pub(crate) fn file(&self) -> &File {
        &self.handle.file
    }

    /// Whether the subfile still has its name; a removed one takes no more bytes for anybody.
    pub fn is_linked(&self) -> bool {
        !self.removed.load(Ordering::Acquire)
    }

    pub(crate) fn mark_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Reads `window` from `offset`, lets `change` put its bytes in, and writes it back, with no other
    /// writer in between. Bytes beyond the subfile's end are zero before.
    ///
    /// False, with nothing done, while somebody writes there whom the subfile is [lent](Subfile::lend)
    /// to, or may: then the bytes must be written one run after the other.
    pub fn change_at(
        &self,
        window: &mut [u8],
        offset: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<bool, StoreError> {
        let _alone = self.change.write().expect("no panic under this lock");
        let length = window.len() as u64;
        let Some(_nobody_else) = range_lock::try_lock_alone(self.file(), offset, length) else {
            return Ok(false);
        };
        let got = self.read_at(window, offset)?;
        window[got..].fill(0);
        change(window);
        // SAFETY: `window` is ours alone while this runs.
        unsafe { self.write_runs(&[(window.as_mut_ptr(), window.len())], offset) }
            .map_err(StoreError::io("write", &self.path))?;
        Ok(true)
    }

    /// Sets the size; new bytes are zero.
    pub fn truncate(&self, size: u64) -> Result<(), StoreError> {
        let _with_others = self.change.read().expect("no panic under this lock");
        self.options
            .saw(Event::Truncate {
                path: &self.path,
                size,
            })
            .and_then(|()| self.file().set_len(size))
            .map_err(StoreError::io("truncate", &self.path))
    }

    /// Size and times.
    pub fn stat(&self) -> Result<Stat, StoreError> {
        let data = self
            .file()
            .metadata()
            .map_err(StoreError::io("stat", &self.path))?;
        Ok(Stat {
            size: data.size(),
            stored: data.blocks() * 512,
            modified_ns: data.mtime() * 1_000_000_000 + data.mtime_nsec(),
        })
    }

    /// Bytes and size to the disk, and the first time also the name.
    pub(crate) fn sync(
        &self,
        sync_folder: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.options
            .saw(Event::Sync(&self.path))
            .and_then(|()| self.file().sync_data())
            .map_err(StoreError::io("sync", &self.path))?;
        if !self.named.load(Ordering::Acquire) {
            sync_folder().map_err(StoreError::io("sync the folder of", &self.path))?;
            self.named.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl Subfile {
    /// The file, for those who let the kernel move its bytes from the page cache; `None` where bytes go
    /// past it.
    pub fn in_page_cache(&self) -> Option<BorrowedFd<'_>> {
        (!self.handle.is_direct()).then(|| self.file().as_fd())
    }

    /// The subfile opened once more, for somebody else to read it or to write it; `None` where the page
    /// cache is not used, or where somebody wants to hear of every write.
    ///
    /// A writer locks what it writes, or announces that it writes ([`range_lock`](crate::range_lock)), and need not
    /// wait for anything.
    pub fn lend(&self, write: bool) -> Result<Option<File>, StoreError> {
        if self.handle.is_direct() || (write && self.options.probe.is_some()) {
            return Ok(None);
        }
        let mut how = OpenOptions::new();
        let file = how.read(!write).write(write).open(&self.path);
        file.map(Some).map_err(StoreError::io("open", &self.path))
    }
}

impl AsFd for Subfile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file().as_fd()
    }
}
