//! fcntl and flock locks. The manager says yes or no; who waits is asked for again and again by one
//! thread, so that no wait occupies a thread that serves requests, and a signal ends it at once.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trireme_proto::message::meta::{LockRange, Time};

use super::{Inner, Outcome, errno};
use crate::kernel::abi::{self, FileLock, LkIn};
use crate::kernel::{Reply, Request};

/// First and longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(25);

/// Who waits for locks.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<Waiter>,
    /// Asked for right now, outside the list; and whether a signal came for it.
    current: Option<(u64, bool)>,
    /// Owners that have or had a lock on an inode, and the opening they got it through: only they
    /// need unlocking when they close it.
    owners: HashMap<(u64, u64, bool), u64>,
}

#[derive(Debug)]
struct Waiter {
    reply: Reply,
    range: LockRange,
    fh: u64,
    next: Instant,
    pause: Duration,
}

impl Waiters {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock was given back here: who waits for it need not wait longer.
    pub fn kick(&self) {
        let now = Instant::now();
        for waiter in &mut self.state().waiting {
            waiter.next = now;
            waiter.pause = PAUSE;
        }
        self.changed.notify_all();
    }

    /// A signal came; true when it was for somebody who waits for a lock.
    pub fn interrupt(&self, unique: u64) -> bool {
        let mut state = self.state();
        if let Some((current, signalled)) = &mut state.current
            && *current == unique
        {
            *signalled = true;
            return true;
        }
        let place = state
            .waiting
            .iter()
            .position(|waiter| waiter.reply.unique() == unique);
        let Some(place) = place else {
            return false;
        };
        let waiter = state.waiting.swap_remove(place);
        drop(state);
        waiter.reply.error(libc::EINTR);
        true
    }
}

/// Starts the thread that asks for those who wait.
pub(super) fn start(inner: &Arc<Inner>) {
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-locks".into())
        .spawn(move || inner.ask_for_waiters());
    if let Err(error) = thread {
        tracing::error!("locks that must wait will never be had: {error}");
    }
}

fn range_of(inode: u64, what: &LkIn) -> LockRange {
    LockRange {
        inode,
        owner: what.owner,
        flock: what.lk_flags & abi::LK_FLOCK != 0,
        start: what.lk.start,
        // The kernel's end is inclusive, and its largest offset means "to the end".
        end: if what.lk.end >= i64::MAX as u64 {
            u64::MAX
        } else {
            what.lk.end + 1
        },
        exclusive: what.lk.kind == libc::F_WRLCK as u32,
        pid: what.lk.pid,
    }
}

impl Inner {
    fn ask_for_waiters(&self) {
        let waiters = &self.waiters;
        let mut state = waiters.state();
        while !self.over.load(Ordering::SeqCst) {
            let now = Instant::now();
            let due = state.waiting.iter().position(|waiter| waiter.next <= now);
            let Some(place) = due else {
                let next = state.waiting.iter().map(|waiter| waiter.next).min();
                let time = next.map_or(Duration::from_hours(1), |next| next - now);
                state = waiters
                    .changed
                    .wait_timeout(state, time)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
                continue;
            };
            let mut waiter = state.waiting.remove(place);
            state.current = Some((waiter.reply.unique(), false));
            drop(state);
            let result = self.try_lock(&waiter.range, waiter.fh, true);
            state = waiters.state();
            let signalled = state.current.take().is_some_and(|(_, signalled)| signalled);
            match result {
                Ok(()) => {
                    waiter.reply.done();
                }
                Err(libc::EAGAIN) if signalled => {
                    waiter.reply.error(libc::EINTR);
                }
                Err(libc::EAGAIN) => {
                    waiter.next = Instant::now() + waiter.pause;
                    waiter.pause = (waiter.pause * 2).min(PAUSE_MAX);
                    state.waiting.push(waiter);
                }
                Err(errno) => {
                    waiter.reply.error(errno);
                }
            }
        }
        // The mount is gone, and with it whoever waited.
        state.waiting.clear();
    }

    fn try_lock(&self, range: &LockRange, fh: u64, wait: bool) -> Outcome<()> {
        let locked = self.names.lock_once(*range, wait);
        let (others, ctime) = locked.map_err(|error| errno(&error))?;
        let owner = (range.inode, range.owner, range.flock);
        self.waiters.state().owners.insert(owner, fh);
        if let Ok(handle) = self.handles.file(fh) {
            handle.locked.store(true, Ordering::SeqCst);
        }
        self.refresh(range.inode, others, ctime);
        Ok(())
    }

    /// Who has a lock relies on seeing what the last holder wrote: old pages and sizes must go.
    fn refresh(&self, inode: u64, others: bool, ctime: Time) {
        let old = self.nodes.with(inode, |node| {
            let old = others || node.attr.ctime != ctime;
            node.attr.ctime = ctime;
            if old {
                node.cached = None;
            }
            old
        });
        if old == Some(true) {
            self.drop_cached(inode, 0, 0);
        }
    }

    pub(super) fn setlk(&self, request: &Request<'_>, reply: Reply, wait: bool) {
        let what = match request.arguments::<LkIn>() {
            Ok(what) => what,
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        let range = range_of(request.header.nodeid, &what);
        if what.lk.kind == libc::F_UNLCK as u32 {
            // Whoever gets the lock next relies on seeing what was written.
            self.nodes.behind(range.inode).drain();
            let result = self.names.unlock(range).map_err(|error| errno(&error));
            self.waiters.kick();
            reply.outcome(result);
            return;
        }
        let result = self.try_lock(&range, what.fh, wait);
        if range.flock && result == Err(libc::EAGAIN) {
            // As on Linux: who asks for another kind of flock lets go of the one it has. Two who share a
            // file and both want it alone would otherwise wait for each other for ever.
            self.nodes.behind(range.inode).drain();
            self.unlock_all(range.inode, range.owner, true);
        }
        match result {
            Err(libc::EAGAIN) if wait => {
                let mut state = self.waiters.state();
                state.waiting.push(Waiter {
                    reply,
                    range,
                    fh: what.fh,
                    next: Instant::now() + PAUSE,
                    pause: PAUSE,
                });
                drop(state);
                self.waiters.changed.notify_all();
            }
            result => {
                reply.outcome(result);
            }
        }
    }

    pub(super) fn getlk(&self, request: &Request<'_>, reply: Reply) {
        let result = request.arguments::<LkIn>().and_then(|what| {
            let range = range_of(request.header.nodeid, &what);
            let held = self.names.test_lock(range).map_err(|error| errno(&error))?;
            Ok(match held {
                None => FileLock {
                    kind: libc::F_UNLCK as u32,
                    ..what.lk
                },
                Some(held) => FileLock {
                    start: held.start,
                    end: if held.end == u64::MAX {
                        i64::MAX as u64
                    } else {
                        held.end - 1
                    },
                    kind: if held.exclusive {
                        libc::F_WRLCK as u32
                    } else {
                        libc::F_RDLCK as u32
                    },
                    pid: held.pid,
                },
            })
        });
        reply.result(result);
    }

    /// The last user of an opening lets go: so do locks that belong to the opening itself.
    pub(super) fn unlock_opening(&self, fh: u64) {
        let owners: Vec<_> = self
            .waiters
            .state()
            .owners
            .iter()
            .filter(|(_, through)| **through == fh)
            .map(|(owner, _)| *owner)
            .collect();
        for (inode, owner, flock) in owners {
            self.unlock_all(inode, owner, flock);
        }
    }

    /// An owner closes a file: its locks on it go, as POSIX wants.
    pub(super) fn unlock_all(&self, inode: u64, owner: u64, flock: bool) {
        let had = self.waiters.state().owners.remove(&(inode, owner, flock));
        if had.is_none() {
            return;
        }
        let range = LockRange {
            inode,
            owner,
            flock,
            start: 0,
            end: u64::MAX,
            exclusive: false,
            pid: 0,
        };
        if let Err(error) = self.names.unlock(range) {
            tracing::warn!("giving back the locks on file {inode}: {error}");
        }
        self.waiters.kick();
    }
}
