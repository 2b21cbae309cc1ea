//! Locks on ranges of a subfile, between the server and those whom it has lent the subfile to.
//!
//! The kernel keeps them, so that they end with whoever has them. They belong to an opening, so two
//! threads that share one must not lock overlapping ranges.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// A range that nobody else writes; until it is dropped.
#[derive(Debug)]
pub struct RangeLock<'a> {
    file: BorrowedFd<'a>,
    start: u64,
    length: u64,
}

/// Locks a range of a file that is open for writing; `None` when somebody else has part of it.
pub fn try_lock<F: AsFd>(file: &F, start: u64, length: u64) -> Option<RangeLock<'_>> {
    let file = file.as_fd();
    set(file, libc::F_WRLCK, start, length).then(|| RangeLock {
        file,
        start,
        length,
    })
}

impl Drop for RangeLock<'_> {
    fn drop(&mut self) {
        set(self.file, libc::F_UNLCK, self.start, self.length);
    }
}

fn set(file: BorrowedFd<'_>, kind: i32, start: u64, length: u64) -> bool {
    // SAFETY: plain numbers; zero is valid for all of them.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    lock.l_start = start as i64;
    lock.l_len = length as i64;
    // SAFETY: an open descriptor, and a structure that the kernel only reads.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
}
