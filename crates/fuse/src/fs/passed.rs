//! Files that the kernel reads and writes by itself: those that are whole on one server of this host, long ones
//! for who only reads them. It is given the local file that they are in (passthrough), and from then on no read, no
//! write, no map and no `sendfile` of theirs comes to this process: they are what they are locally.
//!
//! The kernel has it one way or the other for all openings of a file at a time. Who appends, or wants each write to
//! be durable or past all caches, writes by this process also while the file is passed on, and maps the local file.
//!
//! What is read and written so is seen by the local file's times and size alone.

use std::fs::File as LocalFile;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, Timespec, Timestamps, UTIME_OMIT};
use trireme::{Announcement, File};
use trireme_proto::message::meta::{Attr, Time};

use super::open::access;
use super::{Inner, Outcome, leaving, now};
use crate::kernel::{Backing, Notifier, times_tell_all, waiting_for_kernel};

/// Less is read in no time, and asking for the local file takes some.
const LEAST: u64 = 1 << 20;

/// What files take of disks is counted in these.
const BLOCK: u64 = 4096;

/// How long not to ask servers that did not answer.
const ASK_AGAIN: Duration = Duration::from_mins(1);

/// How long to wait for the news that who closed the file a moment ago has closed it, and how often to look.
const LEAVING: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_micros(50);

/// Whether files are passed on at all, found out when it matters first.
#[derive(Debug)]
pub(super) struct Passing {
    striped: bool,
    takes: OnceLock<bool>,
    /// The disks are of a kind that it does not take.
    refused: AtomicBool,
    writes: OnceLock<bool>,
    whole: OnceLock<bool>,
    /// When the servers were last asked where they are, of whom not all have answered.
    asked: Mutex<Option<Instant>>,
}

impl Passing {
    /// New files are to be spread over all servers if they are to be `striped`.
    pub fn new(striped: bool) -> Passing {
        Passing {
            striped,
            takes: OnceLock::new(),
            refused: AtomicBool::new(false),
            writes: OnceLock::new(),
            whole: OnceLock::new(),
            asked: Mutex::new(None),
        }
    }
}

/// A file that is passed on.
#[derive(Debug)]
pub(super) struct Passed {
    backing: Backing,
    local: LocalFile,
    /// What its times were when somebody last looked.
    seen: Mutex<Seen>,
    /// When it had last been written at the beginning.
    written_before: Time,
    /// Its disk keeps access times.
    tells_reads: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    read: Time,
    written: Time,
    size: u64,
    /// There is less of it on the disk than that.
    sparse: bool,
    stored: u64,
}

impl Seen {
    fn of(local: &LocalFile) -> std::io::Result<Seen> {
        let data = local.metadata()?;
        let time = |seconds, nanos| Time {
            seconds,
            nanos: nanos as u32,
        };
        let (size, stored) = (data.size(), data.blocks() * 512);
        Ok(Seen {
            read: time(data.atime(), data.atime_nsec()),
            written: time(data.mtime(), data.mtime_nsec()),
            size,
            // Some disks keep what is this short elsewhere than in blocks.
            sparse: size > BLOCK && stored + BLOCK <= size.next_multiple_of(BLOCK),
            stored,
        })
    }
}

impl Passed {
    /// The kernel's number for it.
    pub fn number(&self) -> i32 {
        self.backing.number
    }

    /// How the kernel names the local file where it shows maps.
    pub fn local_name(&self) -> Option<leaving::Name> {
        leaving::name_of(&self.local)
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the next read show, though the disk may think that it has been read recently enough: it does not know
    /// of changes of mode or owner, and both go by the same rule (`relatime`).
    fn forget_reads(&self) {
        let never = Timestamps {
            last_access: Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            last_modification: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
        };
        if let Err(error) = rustix::fs::futimens(&self.local, &never) {
            tracing::debug!("access times of a file that is passed on: {error}");
        }
        let mut seen = self.seen();
        if let Ok(now) = Seen::of(&self.local) {
            seen.read = now.read;
        }
    }
}

/// For an opening of a file that is passed on: what tells the servers that the kernel may write to it, by
/// `write` or by a map. `None` if it only reads, or if its writes all come here.
pub(super) fn announce(file: &File, flags: u32) -> Outcome<Option<Announcement>> {
    let access = access(flags);
    if !access.write {
        return Ok(None);
    }
    match file.announce() {
        // It may be mapped, of which nobody is asked.
        None if access.read => Err(libc::EIO),
        announcement => Ok(announcement),
    }
}

/// Whether an opening writes, and there is nothing to it that has to come here.
fn writes_plainly(flags: u32) -> bool {
    const OTHERWISE: i32 = libc::O_APPEND | libc::O_DIRECT | libc::O_SYNC | libc::O_DSYNC;
    access(flags).write && flags as i32 & OTHERWISE == 0
}

impl Inner {
    /// Whether the kernel takes files of this host.
    fn passes(&self) -> bool {
        let takes = || self.notifier.get().is_some_and(Notifier::takes_files);
        *self.passing.takes.get_or_init(takes) && !self.passing.refused.load(Ordering::Relaxed)
    }

    /// Whether new files are to be such as the kernel takes: where spreading them would add no disk.
    pub(super) fn keeps_whole(&self) -> bool {
        let passing = &self.passing;
        if passing.striped || !self.passes() {
            return false;
        }
        if let Some(known) = passing.whole.get() {
            return *known;
        }
        let asked = passing.asked.lock();
        let mut asked = asked.unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = passing.whole.get() {
            return *known;
        }
        if asked.is_some_and(|when| when.elapsed() < ASK_AGAIN) {
            return false;
        }
        let found = self.cluster.is_on_one_disk_here();
        *asked = Some(Instant::now());
        found.is_some_and(|found| *passing.whole.get_or_init(|| found))
    }

    /// Whether the kernel might read a file by itself.
    pub(super) fn might_pass(&self, file: &File) -> bool {
        file.is_whole() && self.passes()
    }

    /// Whether the kernel may write to a file by itself, through an opening like this.
    pub(super) fn passes_writes(&self, flags: u32) -> bool {
        writes_plainly(flags) && *self.passing.writes.get_or_init(times_tell_all)
    }

    /// For an opening: what the kernel may read and write in its place, if the others agree.
    pub(super) fn pass(&self, inode: u64, file: &File, flags: u32) -> Option<Arc<Passed>> {
        let writes = self.passes_writes(flags);
        let reads = !access(flags).write && flags as i32 & libc::O_DIRECT == 0;
        if !(writes || reads) || !self.might_pass(file) {
            return None;
        }
        let (already, wanted, size) = self.nodes.with(inode, |node| {
            let long = writes || node.attr.size >= LEAST;
            let size = node.attr.settled.then_some(node.attr.size);
            (node.passed.clone(), long && !node.capability, size)
        })?;
        // Those who have it open may be closing it right now.
        if already.is_some() {
            return already;
        }
        if !wanted || !self.is_left_alone(inode) {
            return None;
        }
        let passed = self.back(file, writes)?;
        // What lies behind its end are zeros, of which the local file knows nothing. That of a file that somebody
        // may be writing to is what its server says.
        if size.is_some_and(|size| size != passed.seen().size) {
            return None;
        }
        Some(Arc::new(passed))
    }

    /// Reads through an opening must be seen, if they are to be told of.
    pub(super) fn expect_reads(&self, inode: u64, passed: &Passed, flags: u32) {
        if self.no_atime || !access(flags).read || flags as i32 & libc::O_NOATIME != 0 {
            return;
        }
        if !passed.tells_reads {
            // The best that can be told.
            self.note_read(inode);
        } else if self.nodes.is_access_due(inode, now()) {
            passed.forget_reads();
        }
    }

    /// The same for a file that was made just now.
    pub(super) fn pass_new(&self, file: &File, flags: u32) -> Option<Arc<Passed>> {
        let wanted = self.passes_writes(flags) && self.might_pass(file);
        wanted.then(|| self.back(file, true))?.map(Arc::new)
    }

    fn back(&self, file: &File, writes: bool) -> Option<Passed> {
        let local = LocalFile::from(file.whole_here(writes)?);
        let disk = rustix::fs::fstatvfs(&local).ok()?;
        let notifier = self.notifier.get()?;
        let backing = notifier.back(local.as_fd());
        let refused = |error: &std::io::Error| {
            tracing::debug!("file {} is not passed on: {error}", file.inode());
            // A file system over another one, as containers have it, for all files.
            if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::EOPNOTSUPP)) {
                self.passing.refused.store(true, Ordering::Relaxed);
            }
        };
        let backing = backing.inspect_err(refused).ok()?;
        let seen = Seen::of(&local).ok()?;
        Some(Passed {
            backing,
            seen: Mutex::new(seen),
            written_before: seen.written,
            local,
            tells_reads: !disk.f_flag.contains(StatVfsMountFlags::NOATIME),
        })
    }

    /// Whether nobody here has a file open; those who have just closed it get the time to be gone.
    fn is_left_alone(&self, inode: u64) -> bool {
        let is_alone = || self.nodes.with(inode, |node| node.opens == 0) == Some(true);
        is_alone()
            || waiting_for_kernel(|| {
                let end = Instant::now() + LEAVING;
                while self.handles.all_leave(inode, LEAVING) && Instant::now() < end {
                    if is_alone() {
                        return true;
                    }
                    std::thread::sleep(LOOK);
                }
                is_alone()
            })
    }

    /// Takes note of what was done to a file that is passed on.
    pub(super) fn hear_of_passed(&self, inode: u64) {
        self.hear_of(inode, true);
    }

    /// The times of a file were set: when it was written or read before is of no interest any more.
    pub(super) fn times_were_set(&self, inode: u64) {
        self.hear_of(inode, false);
        let passed = self.nodes.with(inode, |node| node.passed.clone());
        if let Some(passed) = passed.flatten()
            && self.nodes.is_access_due(inode, now())
        {
            passed.forget_reads();
        }
    }

    fn hear_of(&self, inode: u64, times: bool) {
        let passed = self.nodes.with(inode, |node| node.passed.clone());
        let Some(passed) = passed.flatten() else {
            return;
        };
        // Who finds no news must find that it was taken note of, too.
        let mut seen = passed.seen();
        let Ok(found) = Seen::of(&passed.local) else {
            return;
        };
        let before = std::mem::replace(&mut *seen, found);
        // The local clock is a coarse one: what was done is later than what was known before it.
        let when = |local: Time, known: Time| {
            if local > known { local } else { now() }
        };
        if times && passed.tells_reads && found.read > before.read && !self.no_atime {
            let known = self
                .nodes
                .with(inode, |node| node.attr.mtime.max(node.attr.ctime));
            self.nodes
                .accessed(inode, when(found.read, known.unwrap_or(found.read)));
        }
        if (found.written, found.size) == (before.written, before.size) {
            return;
        }
        // Whoever else writes tells of it by itself.
        let mut writers = self.handles.writers(inode).into_iter();
        let Some(writer) = writers.find(|handle| handle.announced.is_some()) else {
            return;
        };
        // Together, as who reports at this moment tells both or nothing of it.
        self.nodes.with(inode, |node| {
            if times {
                let known = node.written.max(Some(node.attr.ctime));
                let when = known.map_or(found.written, |known| when(found.written, known));
                node.written = node.written.max(Some(when));
                node.times_set = false;
            }
            writer.file.was_written_here(found.size);
        });
        if found.sparse
            && let Err(error) = writer.file.becomes_sparse()
        {
            tracing::debug!("the space of file {inode} is shown too large: {error}");
        }
    }

    /// Size and space of a file that is passed on, which need not be asked for.
    pub(super) fn complete_passed(&self, attr: &mut Attr) -> bool {
        let passed = self.nodes.with(attr.inode, |node| node.passed.clone());
        let Some(passed) = passed.flatten() else {
            return false;
        };
        let Ok(now) = Seen::of(&passed.local) else {
            return false;
        };
        attr.stored = now.stored;
        if !attr.settled {
            attr.size = now.size;
            // By somebody else, of whom the manager has not heard yet. What was written before may be of later than it
            // knows, too: its clock is another one, and the local file was written after the time was taken.
            if now.written > attr.ctime && now.written != passed.written_before {
                (attr.mtime, attr.ctime) = (now.written, now.written);
            }
        }
        true
    }

    /// An opening of a file that is passed on has ended; the last one ends that.
    pub(super) fn end_passing(&self, inode: u64) {
        let last = self.nodes.with(inode, |node| {
            node.passed_opens = node.passed_opens.saturating_sub(1);
            (node.passed_opens == 0).then(|| node.passed.take())
        });
        drop(last);
    }
}
