//! Room that is kept for removing: I/O servers may fill the disk that the metadata lies on to its last block,
//! and then only what is removed makes room again, which has to be written down first.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::FallocateFlags;

/// What is kept on a disk that has plenty.
const WHOLE: u64 = 64 << 20;
/// What is given at a time: writers who find the disk full may take it at once.
const STEP: u64 = 8 << 20;
/// The part of the free room that is kept on a small disk.
const SHARE: u64 = 8;

/// A file without any use but the room it takes.
#[derive(Debug)]
pub struct Ballast {
    file: File,
    held: Mutex<u64>,
}

impl Ballast {
    /// Keeps room by means of the file at `path`, which is made where it is missing.
    pub fn keep(path: &Path) -> io::Result<Ballast> {
        let mut options = File::options();
        let file = options
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        let data = file.metadata()?;
        let held = data.len().min(data.blocks() * 512);
        Ok(Ballast {
            file,
            held: Mutex::new(held),
        })
    }

    fn held(&self) -> MutexGuard<'_, u64> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives some of it to the disk; false when nothing is left.
    pub fn give(&self) -> bool {
        let mut held = self.held();
        let less = held.saturating_sub(STEP);
        if *held == 0 || self.file.set_len(less).is_err() {
            return false;
        }
        *held = less;
        tracing::warn!("the disk is full; {less} bytes are left to remove files with");
        // Some file systems let others have the room only then.
        let _ = self.file.sync_all();
        true
    }

    /// Takes back what the disk can spare, of which `free` bytes are free.
    pub fn restore(&self, free: u64) {
        let mut held = self.held();
        let wanted = WHOLE.min((free + *held) / SHARE / STEP * STEP);
        if wanted > *held {
            // Not to be had on every file system; then there is none.
            let kept = rustix::fs::fallocate(&self.file, FallocateFlags::empty(), 0, wanted);
            if kept.is_ok() {
                *held = wanted;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_where_there_is_plenty_and_given_step_by_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ballast");
        let ballast = Ballast::keep(&path).unwrap();
        assert!(!ballast.give(), "nothing is held yet");
        ballast.restore(SHARE * STEP - 1);
        assert!(!ballast.give(), "too little is free");
        ballast.restore(u64::MAX / 2);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), WHOLE);
        assert!(ballast.give());
        drop(ballast);
        let ballast = Ballast::keep(&path).unwrap();
        for left in (0..WHOLE / STEP - 1).rev() {
            assert!(ballast.give());
            let size = std::fs::metadata(&path).unwrap().len();
            assert_eq!(size, left * STEP);
        }
        assert!(!ballast.give());
        // What it holds itself counts: it neither grows nor shrinks by being looked at again.
        ballast.restore(3 * SHARE * STEP);
        ballast.restore(3 * SHARE * STEP - 3 * STEP);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 * STEP);
    }
}
