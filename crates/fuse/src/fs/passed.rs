//! Files that the kernel reads by itself: long ones that are whole on one server of this host, and that nobody
//! has open here but those who read them. It is given the local file that they are in (passthrough), and from
//! then on no read, no map and no `sendfile` of theirs comes to this process: they are what they are locally.
//!
//! The kernel has it one way or the other for all openings of a file at a time. Who opens it for writing while it
//! is passed on writes by this process as ever, and maps the local file.
//!
//! What is read and written so is seen by the local file's times alone.

use std::fs::File as LocalFile;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{StatVfsMountFlags, Timespec, Timestamps, UTIME_OMIT};
use trireme::File;
use trireme_proto::message::meta::Time;

use super::open::access;
use super::{Inner, now};
use crate::kernel::{Backing, waiting_for_kernel};

/// Less is read in no time, and asking for the local file takes some.
const LEAST: u64 = 1 << 20;

/// How long to wait for the news that who closed the file a moment ago has closed it, and how often to look.
const LEAVING: Duration = Duration::from_millis(10);
const LOOK: Duration = Duration::from_micros(50);

/// A file that is passed on.
#[derive(Debug)]
pub(super) struct Passed {
    backing: Backing,
    local: LocalFile,
    /// What its times were when somebody last looked.
    seen: Mutex<Seen>,
    /// Its disk keeps access times.
    tells_reads: bool,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    read: Time,
    written: Time,
}

impl Seen {
    fn of(local: &LocalFile) -> std::io::Result<Seen> {
        let data = local.metadata()?;
        let time = |seconds, nanos| Time {
            seconds,
            nanos: nanos as u32,
        };
        Ok(Seen {
            read: time(data.atime(), data.atime_nsec()),
            written: time(data.mtime(), data.mtime_nsec()),
        })
    }
}

impl Passed {
    /// The kernel's number for it.
    pub fn number(&self) -> i32 {
        self.backing.number
    }

    /// When it was last read and written since somebody last asked, if it was.
    fn news(&self) -> (Option<Time>, Option<Time>) {
        let Ok(now) = Seen::of(&self.local) else {
            return (None, None);
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *seen, now);
        let read = self.tells_reads && now.read > before.read;
        let written = now.written > before.written;
        (read.then_some(now.read), written.then_some(now.written))
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
        self.news();
    }
}

impl Inner {
    /// Whether the kernel takes files of this host to read, and new ones had better be such.
    pub(super) fn passes(&self) -> bool {
        self.passes.get() == Some(&true)
    }

    /// Whether the kernel might read a file by itself.
    pub(super) fn might_pass(&self, file: &File) -> bool {
        self.passes() && file.is_whole()
    }

    /// For an opening: what the kernel may read in its place, if the others agree.
    pub(super) fn pass(&self, inode: u64, file: &File, flags: u32) -> Option<Arc<Passed>> {
        let only_reads =
            !access(flags).write && flags as i32 & (libc::O_DIRECT | libc::O_TRUNC) == 0;
        if !only_reads || !self.might_pass(file) {
            return None;
        }
        let size = self.nodes.with(inode, |node| {
            let wanted = node.passed.is_none() && node.attr.settled && node.attr.size >= LEAST;
            wanted.then_some(node.attr.size)
        });
        let size = size.flatten()?;
        if !self.is_left_alone(inode) {
            return None;
        }
        let local = LocalFile::from(file.whole_here()?);
        // What lies behind its end are zeros, of which the local file knows nothing.
        if local.metadata().ok()?.len() != size {
            return None;
        }
        let disk = rustix::fs::fstatvfs(&local).ok()?;
        let notifier = self.notifier.get()?;
        let backing = notifier.back(local.as_fd());
        let backing = backing
            .inspect_err(|error| tracing::debug!("file {inode} is not passed on: {error}"))
            .ok()?;
        let passed = Passed {
            backing,
            seen: Mutex::new(Seen::of(&local).ok()?),
            local,
            tells_reads: !disk.f_flag.contains(StatVfsMountFlags::NOATIME),
        };
        if !self.no_atime && flags as i32 & libc::O_NOATIME == 0 {
            if !passed.tells_reads {
                // The best that can be told.
                self.note_read(inode);
            } else if self.nodes.is_access_due(inode, now()) {
                passed.forget_reads();
            }
        }
        Some(Arc::new(passed))
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
        let passed = self.nodes.with(inode, |node| node.passed.clone());
        let Some(passed) = passed.flatten() else {
            return;
        };
        let (read, written) = passed.news();
        if let Some(when) = read.filter(|_| !self.no_atime) {
            self.nodes.accessed(inode, when);
        }
        let Some(when) = written else { return };
        // Whoever else writes tells of it by itself.
        let mut writers = self.handles.writers(inode).into_iter();
        if let Some(mapper) = writers.find(|handle| handle.maps) {
            mapper.file.was_written_here();
            self.nodes.with(inode, |node| {
                node.written = Some(node.written.map_or(when, |last| last.max(when)));
                node.times_set = false;
            });
        }
    }

    /// The times of a file were set: what happened to it before is of no interest any more.
    pub(super) fn times_were_set(&self, inode: u64) {
        let passed = self.nodes.with(inode, |node| node.passed.clone());
        if let Some(passed) = passed.flatten() {
            passed.news();
            if self.nodes.is_access_due(inode, now()) {
                passed.forget_reads();
            }
        }
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
