//! Open files and directories of a mount, by the numbers that the kernel names them with.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

use trireme::{Announcement, File};
use trireme_proto::message::meta::DirEntry;

use super::behind::{Behind, Heard};
use super::reader::Reading;
use super::{Outcome, library_errno};

/// An open file.
#[derive(Debug)]
pub(super) struct Handle {
    pub inode: u64,
    pub file: File,
    /// Who opened it.
    pub uid: u32,
    pub read: bool,
    pub write: bool,
    /// It can be mapped and written through the mapping, of which nobody is told at once.
    pub maps: bool,
    /// Its bytes do not go through the page cache.
    pub direct: bool,
    /// The kernel may have pages of it through this opening.
    pub pages: bool,
    /// The kernel reads it by itself, and maps what it reads.
    pub passed: bool,
    /// The kernel may write to it by itself, too, if only by a map.
    pub announced: Option<Announcement>,
    /// How it is read.
    pub reading: Reading,
    /// Reading leaves the access time alone.
    pub no_atime: bool,
    /// Writes are done when they are answered.
    pub prompt: bool,
    /// The file's writes that are under way, and what of their failures was told through this opening.
    pub behind: Arc<Behind>,
    pub heard: Heard,
    /// A lock was taken through it.
    pub locked: AtomicBool,
    /// When a descriptor of it was last closed.
    pub lost_one: Mutex<Option<Instant>>,
    /// True while the manager takes it as closed for writing: whoever writes wakes it first.
    pub resting: RwLock<bool>,
    /// Writes that go on though nobody holds that.
    pub later: AtomicUsize,
}

impl Handle {
    /// Waits for the writes that are under way, and says what failed since it last said so.
    pub fn catch_up(&self) -> Outcome<()> {
        self.behind.drain();
        if self.write {
            self.behind.news(&self.heard)?;
        }
        Ok(())
    }

    /// Whether the file may be written to by a map of which the kernel tells nobody, also when this has ended.
    pub fn may_be_mapped(&self) -> bool {
        self.announced.is_some() && self.read
    }

    /// A descriptor of it is closed; maybe its last one.
    pub fn loses_one(&self) {
        let mut last = self.lost_one.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
    }

    /// When that was last so.
    pub fn lost_one(&self) -> Option<Instant> {
        *self.lost_one.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps it awake for writing while the guard lives.
    pub fn awake(&self) -> Outcome<RwLockReadGuard<'_, bool>> {
        loop {
            let guard = self.resting.read().unwrap_or_else(PoisonError::into_inner);
            if !*guard {
                return Ok(guard);
            }
            drop(guard);
            let mut resting = self.resting.write().unwrap_or_else(PoisonError::into_inner);
            if *resting {
                let resumed = self.file.resume();
                resumed.map_err(|error| library_errno(&error))?;
                *resting = false;
            }
        }
    }
}

/// An open directory: what was fetched and not given out yet.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub position: u64,
    pub entries: std::collections::VecDeque<DirEntry>,
    pub end: bool,
    pub parent: u64,
}

/// Its inode, and how far it was read.
type OpenDirectory = (u64, Arc<Mutex<Listing>>);

#[derive(Debug, Default)]
pub(super) struct Handles {
    next: AtomicU64,
    files: RwLock<HashMap<u64, Arc<Handle>>>,
    directories: RwLock<HashMap<u64, OpenDirectory>>,
}

impl Handles {
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn add(&self, handle: Handle) -> u64 {
        let number = self.number();
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.insert(number, Arc::new(handle));
        number
    }

    pub fn file(&self, number: u64) -> Outcome<Arc<Handle>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&number).cloned().ok_or(libc::EBADF)
    }

    pub fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
        files.remove(&number)
    }

    /// All openings of an inode for writing.
    pub fn writers(&self, inode: u64) -> Vec<Arc<Handle>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files
            .values()
            .filter(|handle| handle.inode == inode && handle.write)
            .cloned()
            .collect()
    }

    /// Whether all openings of an inode have lost a descriptor within this time: it may have been the last one.
    pub fn all_leave(&self, inode: u64, time: Duration) -> bool {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let leaves = |handle: &Handle| handle.lost_one().is_some_and(|when| when.elapsed() < time);
        let mut all = files.values().filter(|handle| handle.inode == inode);
        all.all(|handle| leaves(handle))
    }

    /// Some opening of an inode for reading.
    pub fn reader(&self, inode: u64) -> Option<Arc<Handle>> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let mut all = files.values();
        all.find(|handle| handle.inode == inode && handle.read)
            .cloned()
    }

    /// The inodes of all open files, in order.
    pub fn open_files(&self) -> Vec<u64> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        let inodes: BTreeSet<u64> = files.values().map(|handle| handle.inode).collect();
        inodes.into_iter().collect()
    }

    pub fn add_directory(&self, inode: u64) -> u64 {
        let number = self.number();
        self.directories
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(number, (inode, Arc::default()));
        number
    }

    pub fn directory(&self, number: u64) -> Outcome<Arc<Mutex<Listing>>> {
        let directories = self
            .directories
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let found = directories.get(&number);
        found.map(|(_, listing)| listing.clone()).ok_or(libc::EBADF)
    }

    /// The inodes of all open directories.
    pub fn open_directories(&self) -> Vec<u64> {
        let directories = self.directories.read();
        let directories = directories.unwrap_or_else(PoisonError::into_inner);
        directories.values().map(|(inode, _)| *inode).collect()
    }

    pub fn remove_directory(&self, number: u64) {
        self.directories
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&number);
    }
}
