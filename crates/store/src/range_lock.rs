//! Locks on ranges of a subfile, between the server and those whom it has lent the subfile to.
//!
//! The kernel keeps them, so that they end with whoever has them. They belong to an opening, so two
//! threads that share one must not lock overlapping ranges.
//!
//! Whoever writes and cannot lock each range, because the kernel writes in their place, announces that: they
//! have a byte of their own behind the end of all files locked meanwhile.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Where those bytes begin, and how many there are. No subfile reaches here.
const ANNOUNCED: u64 = 1 << 62;
const ANNOUNCERS: u64 = 1 << 61;

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

/// A range that nobody else writes, and nobody has announced to write anything: who has it may read it, change it
/// and write it back.
#[derive(Debug)]
pub struct Alone<'a> {
    _range: RangeLock<'a>,
    _announced: RangeLock<'a>,
}

/// Locks a range against all who write in any way; `None` when somebody may.
pub fn try_lock_alone<F: AsFd>(file: &F, start: u64, length: u64) -> Option<Alone<'_>> {
    let range = try_lock(file, start, length)?;
    Some(Alone {
        _range: range,
        _announced: try_lock(file, ANNOUNCED, ANNOUNCERS)?,
    })
}

/// Its owner writes without locking what is written; until it is dropped.
#[derive(Debug)]
pub struct Announcement {
    file: OwnedFd,
    start: u64,
}

/// Announces writes through a file, which is open for writing, under a number that should be nobody else's; gives it
/// back when it is, or when somebody is just changing a part of it alone.
pub fn announce(file: OwnedFd, number: u64) -> Result<Announcement, OwnedFd> {
    let start = ANNOUNCED + number % ANNOUNCERS;
    if set(file.as_fd(), libc::F_WRLCK, start, 1) {
        Ok(Announcement { file, start })
    } else {
        Err(file)
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        set(self.file.as_fd(), libc::F_UNLCK, self.start, 1);
    }
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
