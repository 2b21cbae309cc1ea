//! Openings that have ended for the kernel, but maybe not for maps: who has mapped a file that is passed on has the
//! local file, and may go on writing to it when all descriptors are closed. Such an opening is kept until nobody on
//! this host has the file mapped, so that what is written is told to the manager. Until then others hear of it from the file's
//! server.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::Inner;

/// How soon to look who has a file mapped, and how often at most if somebody has.
const SOON: Duration = Duration::from_millis(50);
const SELDOM: Duration = Duration::from_secs(5);

/// When the mount ends, what is to be told by then is told within this time.
const LAST: Duration = Duration::from_secs(2);

/// Looking takes no more than one part in so many of the time.
const SHARE: u32 = 20;

/// A file as the kernel names it where it shows maps: its file system's device, and its inode number.
pub(super) type Name = (u64, u64);

/// Openings that wait for maps to go.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// The mount's.
    device: OnceLock<u64>,
    state: Mutex<Vec<Leaver>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Leaver {
    fh: u64,
    names: [Name; 2],
    /// Maps that it answers for are there since then, at the latest.
    since: Instant,
    next: Instant,
    pause: Duration,
}

impl Leaving {
    fn state(&self) -> MutexGuard<'_, Vec<Leaver>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the kernel shows of files of this mount.
    pub fn knows_device(&self, device: u64) {
        let _ = self.device.set(device);
    }
}

/// Starts to look.
pub(super) fn start(inner: &Arc<Inner>) {
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-leaving".into())
        .spawn(move || {
            while !inner.over.load(Ordering::SeqCst) {
                inner.see_off();
            }
        });
    if let Err(error) = thread {
        tracing::warn!("what is written to closed files by maps is not noticed: {error}");
    }
}

impl Inner {
    /// An opening has ended, but its file may be mapped.
    pub(super) fn leave(&self, fh: u64) {
        let Ok(handle) = self.handles.file(fh) else {
            return;
        };
        let local = self.nodes.with(handle.inode, |node| {
            node.passed.as_ref().and_then(|passed| passed.local_name())
        });
        let (Some(Some(local)), Some(device)) = (local, self.leaving.device.get()) else {
            self.close(fh);
            return;
        };
        self.hear_of_passed(handle.inode);
        self.settle_or_warn(&handle);
        if handle.locked.load(Ordering::SeqCst) {
            self.unlock_opening(fh);
        }
        let names = [local, (*device, handle.inode)];
        let now = Instant::now();
        let mut state = self.leaving.state();
        // One for all is enough; one that is still open comes here later.
        let mut others = self.handles.writers(handle.inode).into_iter();
        if others.any(|other| other.may_be_mapped() && !Arc::ptr_eq(&other, &handle)) {
            let same = state.iter_mut().filter(|one| one.names == names);
            same.for_each(|one| one.since = now);
            let left = self.handles.remove(fh);
            drop((state, handle));
            self.finish(fh, left);
            return;
        }
        state.push(Leaver {
            fh,
            names,
            since: now,
            next: now + SOON,
            pause: SOON,
        });
        self.leaving.changed.notify_all();
    }

    /// The mount ends, so nothing is mapped any more: whoever unmaps and unmounts at once is heard, too. A manager
    /// that is away is not waited for.
    pub(super) fn end_leaving(&self) {
        let left = std::mem::take(&mut *self.leaving.state());
        self.leaving.changed.notify_all();
        let begin = Instant::now();
        for one in left {
            if begin.elapsed() >= LAST {
                break;
            }
            self.hear_of_passed(one.names[1].1);
            // Closed by dropping, which is soon over.
            self.handles.remove(one.fh);
        }
    }

    /// Waits until it is time to look again, and closes what is mapped no more.
    fn see_off(&self) {
        let leaving = &self.leaving;
        let state = leaving.state();
        let next = state.iter().map(|one| one.next).min();
        let wait = next.map_or(SELDOM, |next| {
            next.saturating_duration_since(Instant::now())
        });
        if !wait.is_zero() {
            // Whoever comes meanwhile is to be looked at a moment later in any case.
            let waited = leaving.changed.wait_timeout(state, wait);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
            return;
        }
        drop(state);
        let begin = Instant::now();
        let mapped = shared_maps().unwrap_or_else(|error| {
            tracing::debug!("nobody knows which files are mapped: {error}");
            HashSet::new()
        });
        let took = begin.elapsed();
        // While they can be found as who wrote, and before anybody waits for the list: the manager may be asked.
        let inodes: Vec<u64> = leaving.state().iter().map(|one| one.names[1].1).collect();
        for inode in inodes {
            self.hear_of_passed(inode);
        }
        let now = Instant::now();
        let mut state = leaving.state();
        let mut gone = Vec::new();
        state.retain_mut(|one| {
            // Else its maps may have come to a place that was looked at before.
            let looked_at = one.since < begin;
            if looked_at && !one.names.iter().any(|name| mapped.contains(name)) {
                gone.push((one.fh, self.handles.remove(one.fh)));
                return false;
            }
            one.pause = (one.pause * 2).min(SELDOM);
            one.next = now + one.pause;
            true
        });
        drop(state);
        for (fh, handle) in gone {
            self.finish(fh, handle);
        }
        std::thread::sleep(took * SHARE);
    }
}

/// All files that processes of this host have mapped so that what they write there goes to the file.
fn shared_maps() -> io::Result<HashSet<Name>> {
    let mut found = HashSet::new();
    let mut seen = HashSet::new();
    loop {
        // Who was born meanwhile may have got a map from who died meanwhile.
        let before = seen.len();
        for entry in std::fs::read_dir("/proc")? {
            let entry = entry?;
            let name = entry.file_name();
            let process = name.to_str().and_then(|name| name.parse::<u32>().ok());
            let Some(process) = process.filter(|process| seen.insert(*process)) else {
                continue;
            };
            // Those that have ended have none.
            if let Ok(maps) = std::fs::read(format!("/proc/{process}/maps")) {
                found.extend(maps.split(|byte| *byte == b'\n').filter_map(shared_map));
            }
        }
        if seen.len() == before {
            return Ok(found);
        }
    }
}

/// Reads a line of `/proc/PID/maps`: addresses, rights, place, device, inode, path.
fn shared_map(line: &[u8]) -> Option<Name> {
    let mut words = line.split(|byte| *byte == b' ');
    let rights = words.nth(1)?;
    if rights.get(3) != Some(&b's') {
        return None;
    }
    let device = std::str::from_utf8(words.nth(1)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let major = u32::from_str_radix(major, 16).ok()?;
    let minor = u32::from_str_radix(minor, 16).ok()?;
    let inode = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    Some((libc::makedev(major, minor), inode))
}

/// How the kernel names a local file where it shows maps.
pub(super) fn name_of(file: &std::fs::File) -> Option<Name> {
    let data = file.metadata().ok()?;
    Some((data.dev(), data.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_shared_maps_are_read_and_others_are_not() {
        let cases: [(&[u8], Option<Name>); 5] = [
            (
                b"7f7579691000-7f7579693000 rw-s 00000000 00:2e 2                          /m/x y",
                Some((libc::makedev(0, 0x2e), 2)),
            ),
            (
                b"7f75-7f76 r--s 00001000 fe:00 10143541 /tmp/f",
                Some((libc::makedev(0xfe, 0), 10_143_541)),
            ),
            (b"7f75-7f76 r--p 00001000 fe:00 10143541 /tmp/f", None),
            (b"7f75-7f76 rw-s", None),
            (b"", None),
        ];
        for (line, name) in cases {
            assert_eq!(shared_map(line), name, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn what_this_process_has_mapped_is_found() {
        use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        let name = name_of(&file).unwrap();
        assert!(!shared_maps().unwrap().contains(&name));
        let (none, rights) = (std::ptr::null_mut(), ProtFlags::READ);
        // SAFETY: a fresh mapping, of which nobody has a reference when it goes.
        let map = unsafe { mmap(none, 4096, rights, MapFlags::SHARED, &file, 0) }.unwrap();
        assert!(shared_maps().unwrap().contains(&name));
        // SAFETY: as above.
        unsafe { munmap(map, 4096) }.unwrap();
        assert!(!shared_maps().unwrap().contains(&name));
    }
}
