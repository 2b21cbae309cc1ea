//! Stands between this process and the C library and writes down what is asked of files below a folder.
//!
//! Bytes and syncs are seen by taking the place of the C library's functions. Names change in ways that
//! cannot all be seen so; they are found by listing the folder before each call. [`compare`] says whether
//! anything was missed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_char, c_int, c_long, c_void, iovec, mode_t, off64_t, size_t, ssize_t};

use crate::chance::disk::{Model, Step, elsewhere};

/// Something that happened, in order.
#[derive(Debug)]
pub enum Seen {
    Disk(Step),
    /// So many operations had returned.
    Returned(usize),
}

#[derive(Debug)]
struct Record {
    root: PathBuf,
    /// Inode numbers by name.
    files: BTreeMap<PathBuf, u64>,
    folders: BTreeMap<PathBuf, u64>,
    seen: Vec<Seen>,
}

static RECORD: Mutex<Option<Record>> = Mutex::new(None);

thread_local! {
    /// What the witness itself does is not of interest.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn record() -> MutexGuard<'static, Option<Record>> {
    RECORD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to write down.
pub fn watch(root: &Path) {
    *record() = Some(Record {
        root: root.into(),
        files: BTreeMap::new(),
        folders: BTreeMap::new(),
        seen: Vec::new(),
    });
}

/// So many operations have returned.
pub fn note(operations: usize) {
    inside(|record| record.seen.push(Seen::Returned(operations)));
}

/// Everything that was seen; nothing more is written down.
pub fn end() -> Vec<Seen> {
    inside(|_| ());
    record().take().expect("it was begun").seen
}

/// Panics when the disk is not what was written down.
pub fn compare(root: &Path, disk: &Model) {
    let mut real = BTreeMap::new();
    list(root, &mut real, &mut BTreeMap::new());
    let files = disk.files();
    assert!(
        files.keys().eq(real.keys()),
        "{:?} instead of {:?}",
        files.keys(),
        real.keys()
    );
    for (path, bytes) in files {
        let same = std::fs::read(&path).unwrap() == bytes.to_vec();
        assert!(
            same,
            "not everything written to {} was seen",
            path.display()
        );
    }
}

fn list(folder: &Path, files: &mut BTreeMap<PathBuf, u64>, folders: &mut BTreeMap<PathBuf, u64>) {
    // What goes while it is listed is found gone the next time.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            list(&entry.path(), files, folders);
            folders.insert(entry.path(), metadata.ino());
        } else {
            files.insert(entry.path(), metadata.ino());
        }
    }
}

impl Record {
    fn step(&mut self, step: Step) {
        self.seen.push(Seen::Disk(step));
    }

    /// Notes names that came, went or moved since the last look.
    fn look(&mut self) {
        let (mut files, mut folders) = (BTreeMap::new(), BTreeMap::new());
        list(&self.root, &mut files, &mut folders);
        // Above comes before below: what is in a folder moves with it.
        for (folder, inode) in &folders {
            if self.folders.contains_key(folder) {
                continue;
            }
            let from = self
                .folders
                .iter()
                .find(|(old, old_inode)| *old_inode == inode && !folders.contains_key(*old));
            match from.map(|(old, _)| old.clone()) {
                Some(old) => {
                    self.move_all(&old, folder);
                    self.step(Step::Move(old, folder.clone()));
                }
                None => self.step(Step::MakeFolder(folder.clone())),
            }
        }
        self.folders = folders;
        for (path, inode) in &files {
            if self.files.get(path) == Some(inode) {
                continue;
            }
            let from = self
                .files
                .iter()
                .find(|(old, old_inode)| *old_inode == inode && files.get(*old) != Some(inode));
            if let Some(old) = from.map(|(old, _)| old.clone()) {
                self.files.remove(&old);
                self.step(Step::Rename(old, path.clone()));
            } else {
                if self.files.contains_key(path) {
                    self.step(Step::Remove(path.clone()));
                }
                self.step(Step::Make(path.clone()));
            }
            self.files.insert(path.clone(), *inode);
        }
        let gone: Vec<_> = self
            .files
            .keys()
            .filter(|path| !files.contains_key(*path))
            .cloned()
            .collect();
        for path in gone {
            self.step(Step::Remove(path));
        }
        self.files = files;
    }

    fn move_all(&mut self, from: &Path, to: &Path) {
        for names in [&mut self.files, &mut self.folders] {
            *names = std::mem::take(names)
                .into_iter()
                .map(|(path, inode)| (elsewhere(&path, from, to), inode))
                .collect();
        }
    }

    fn path_of(&self, fd: c_int) -> Option<PathBuf> {
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
        // A file without a name cannot be found after a cut.
        (self.files.contains_key(&path) || self.folders.contains_key(&path) || path == self.root)
            .then_some(path)
    }
}

/// Looks for changed names, then does something, alone.
fn inside<T>(what: impl FnOnce(&mut Record) -> T) -> Option<T> {
    if INSIDE.get() {
        return None;
    }
    INSIDE.set(true);
    let result = record().as_mut().map(|record| {
        record.look();
        what(record)
    });
    INSIDE.set(false);
    result
}

/// Makes a call, and writes down what it did to the file behind `fd`.
fn seen(fd: c_int, call: impl Fn() -> c_long, step: impl Fn(PathBuf, c_long) -> Step) -> c_long {
    let done = inside(|record| {
        let path = record.path_of(fd);
        let result = call();
        if let Some(path) = path
            && result >= 0
        {
            record.step(step(path, result));
        }
        result
    });
    done.unwrap_or_else(call)
}

/// The bytes that a call has written.
fn bytes(from: *const c_void, length: c_long) -> Vec<u8> {
    // SAFETY: the kernel has just read as many bytes there.
    unsafe { std::slice::from_raw_parts(from.cast(), length as usize) }.to_vec()
}

/// Where a write of so many bytes began.
fn began(fd: c_int, length: c_long) -> u64 {
    // SAFETY: asks for a number.
    let now = unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) };
    (now - length) as u64
}

#[unsafe(no_mangle)]
extern "C" fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_write, fd, from, length) };
    let step = |path, length| Step::Write(path, began(fd, length), bytes(from, length));
    seen(fd, call, step) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn writev(fd: c_int, slices: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_writev, fd, slices, count) };
    let step = |path, length: c_long| {
        let mut all = Vec::new();
        for slice in 0..count as usize {
            // SAFETY: the kernel has just used them.
            let slice = unsafe { &*slices.add(slice) };
            let left = length - all.len() as c_long;
            all.extend(bytes(slice.iov_base, left.min(slice.iov_len as c_long)));
        }
        Step::Write(path, began(fd, length), all)
    };
    seen(fd, call, step) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn pwrite64(fd: c_int, from: *const c_void, length: size_t, at: off64_t) -> ssize_t {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_pwrite64, fd, from, length, at) };
    let step = |path, length| Step::Write(path, at as u64, bytes(from, length));
    seen(fd, call, step) as ssize_t
}

#[unsafe(no_mangle)]
extern "C" fn ftruncate64(fd: c_int, size: off64_t) -> c_int {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, size) };
    seen(fd, call, |path, _| Step::Truncate(path, size as u64)) as c_int
}

fn synced(path: PathBuf, _: c_long) -> Step {
    if path.is_dir() {
        Step::SyncFolder(path)
    } else {
        Step::Sync(path)
    }
}

#[unsafe(no_mangle)]
extern "C" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_fsync, fd) };
    seen(fd, call, synced) as c_int
}

#[unsafe(no_mangle)]
extern "C" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_fdatasync, fd) };
    seen(fd, call, synced) as c_int
}

/// Looks at the names before and after: a number may come back as another file's.
#[unsafe(no_mangle)]
extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments, as they are.
    let call = || unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags, mode) };
    let done = inside(|record| {
        let result = call();
        record.look();
        if flags & libc::O_TRUNC != 0
            && let Some(path) = record.path_of(result as c_int)
        {
            record.step(Step::Truncate(path, 0));
        }
        result
    });
    done.unwrap_or_else(call) as c_int
}
