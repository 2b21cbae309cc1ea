//! fcntl and flock locks. The manager says yes or no; who waits is asked for again and again by one
//! thread, so that no wait occupies a thread that serves requests, and a signal ends it at once. Who does
//! not want to wait does so, too, for locks whose holders may have closed their files (`closing.rs`).

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use trireme_proto::message::meta::{LockRange, Time};

use super::closing::Asking;
use super::{Inner, Outcome, errno};
use crate::kernel::abi::{self, FileLock, LkIn};
use crate::kernel::{Reply, Request};

/// First and longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(25);

/// Who waits for locks.
#[derive(Debug)]
pub(super) struct Waiters {
    state: Mutex<State>,
    changed: Condvar,
    /// Tells the openings of this mount from those of others, which have the same numbers.
    salt: u64,
}

impl Default for Waiters {
    fn default() -> Self {
        Waiters {
            state: Mutex::default(),
            changed: Condvar::new(),
            salt: RandomState::new().hash_one(0),
        }
    }
}

/// Whose locks on an inode: the inode, the owner's number, and whether they are those of flock.
pub(super) type Owner = (u64, u64, bool);

pub(super) fn owner_of(range: &LockRange) -> Owner {
    (range.inode, range.owner, range.flock)
}

#[derive(Debug, Default)]
pub(super) struct State {
    waiting: Vec<Waiter>,
    /// Asked for right now, outside the list; and whether a signal came for it.
    current: Option<(u64, bool)>,
    /// Owners that have or had a lock on an inode, and the opening they got it through: only they
    /// need unlocking when they close it.
    pub owners: HashMap<Owner, u64>,
    /// Owners whose locks are being given back right now because they closed the file.
    pub leaving: Vec<Owner>,
}

#[derive(Debug)]
struct Waiter {
    reply: Reply,
    question: Question,
    next: Instant,
    pause: Duration,
}

/// What somebody wants of a lock.
#[derive(Debug)]
struct Question {
    want: Want,
    range: LockRange,
    fh: u64,
    asking: Asking,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Want {
    /// To have it, whenever that is.
    Lock,
    /// To have it if nobody else does.
    LockIfFree,
    /// To know who has it.
    Test,
}

impl Waiters {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A lock on an inode was given back here: who waits for it need not wait longer.
    fn kick(&self, inode: u64) {
        let now = Instant::now();
        for waiter in &mut self.state().waiting {
            if waiter.question.range.inode == inode {
                waiter.next = now;
                waiter.pause = PAUSE;
            }
        }
        self.changed.notify_all();
    }

    /// The mount is over, and so is waiting.
    pub fn end(&self) {
        let state = self.state();
        self.changed.notify_all();
        drop(state);
    }

    /// A signal came; true when it was for somebody who waits for a lock. Who only waits for others to be
    /// gone is answered soon, and does not expect to be interrupted.
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
        if state.waiting[place].question.want != Want::Lock {
            return true;
        }
        let waiter = state.waiting.swap_remove(place);
        drop(state);
        waiter.reply.error(libc::EINTR);
        true
    }
}

/// What a question gets: a lock, or what is known of it.
type Answer = Outcome<Option<FileLock>>;

fn give(reply: Reply, answer: Answer) {
    match answer {
        Ok(None) => reply.done(),
        Ok(Some(held)) => reply.give(&held),
        Err(errno) => reply.error(errno),
    };
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

/// What the kernel says is held, or that nothing is.
fn told(held: Option<LockRange>) -> FileLock {
    let Some(held) = held else {
        return FileLock {
            start: 0,
            end: i64::MAX as u64,
            kind: libc::F_UNLCK as u32,
            pid: 0,
        };
    };
    FileLock {
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
    }
}

impl Inner {
    /// What the kernel asks about. It names the owner of a flock by an address that the next opening may
    /// have while we still close this one: so that is named by its own number.
    fn range_of(&self, inode: u64, what: &LkIn) -> LockRange {
        let flock = what.lk_flags & abi::LK_FLOCK != 0;
        LockRange {
            inode,
            owner: if flock {
                what.fh ^ self.waiters.salt
            } else {
                what.owner
            },
            flock,
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

    fn ask_for_waiters(self: &Arc<Self>) {
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
            let answer = self.attempt(&mut waiter.question);
            state = waiters.state();
            let signalled = state.current.take().is_some_and(|(_, signalled)| signalled);
            match answer {
                Some((answer, None)) => give(waiter.reply, answer),
                // Pages that are being read from a server that is away are not let go of: the next one who
                // waits for a lock must not wait for that.
                Some((answer, Some(old))) => {
                    let inner = self.clone();
                    let answer = move || {
                        inner.drop_cached(old, 0, 0);
                        give(waiter.reply, answer);
                    };
                    let thread = std::thread::Builder::new().name("fuse-locked".into());
                    if let Err(error) = thread.spawn(answer) {
                        tracing::warn!("no thread to make old pages go: {error}");
                    }
                }
                None if signalled && waiter.question.want == Want::Lock => {
                    waiter.reply.error(libc::EINTR);
                }
                None => {
                    waiter.next = Instant::now() + waiter.pause;
                    waiter.pause = (waiter.pause * 2).min(PAUSE_MAX);
                    state.waiting.push(waiter);
                }
            }
        }
        // The mount is gone, and with it whoever waited.
        state.waiting.clear();
    }

    /// Answers a question now, or when that can be done.
    fn answer(&self, reply: Reply, mut question: Question) {
        if let Some((answer, old)) = self.attempt(&mut question) {
            if let Some(old) = old {
                self.drop_cached(old, 0, 0);
            }
            return give(reply, answer);
        }
        self.waiters.state().waiting.push(Waiter {
            reply,
            question,
            next: Instant::now() + PAUSE,
            pause: PAUSE,
        });
        self.waiters.changed.notify_all();
    }

    /// The answer to a question, and the file whose pages must go before it is given; `None`: it must be asked
    /// again.
    fn attempt(&self, question: &mut Question) -> Option<(Answer, Option<u64>)> {
        let Question {
            want,
            range,
            fh,
            asking,
        } = question;
        if *want != Want::Test {
            if self.is_heir(range, *fh, asking.since) {
                return None;
            }
            let result = self.try_lock(range, *fh, *want == Want::Lock);
            if range.flock && result == Err(libc::EAGAIN) {
                // As on Linux: who asks for another kind of flock lets go of the one it has. Two who share a
                // file and both want it alone would otherwise wait for each other for ever.
                self.let_go_of_flock(range);
            }
            match result {
                Err(libc::EAGAIN) if *want == Want::Lock => return None,
                Err(libc::EAGAIN) => {}
                Ok(old) => return Some((Ok(None), old.then_some(range.inode))),
                Err(errno) => return Some((Err(errno), None)),
            }
        }
        let held = match self.names.test_lock(*range) {
            Ok(held) => held,
            Err(error) => return Some((Err(errno(&error)), None)),
        };
        let answer = match (held, want) {
            (None, Want::Test) => Ok(Some(told(None))),
            (held, _) if self.may_be_gone(held.as_ref(), asking) => return None,
            (held, Want::Test) => Ok(Some(told(held))),
            _ => Err(libc::EAGAIN),
        };
        Some((answer, None))
    }

    /// Gives whether pages of what the file was before must go.
    fn try_lock(&self, range: &LockRange, fh: u64, wait: bool) -> Outcome<bool> {
        let locked = self.names.lock_once(*range, wait);
        let (others, ctime) = locked.map_err(|error| errno(&error))?;
        self.waiters.state().owners.insert(owner_of(range), fh);
        if let Ok(handle) = self.handles.file(fh) {
            handle.locked.store(true, Ordering::SeqCst);
        }
        Ok(self.outdates(range.inode, others, ctime))
    }

    /// Who has a lock relies on seeing what the last holder wrote: old pages and sizes must go.
    fn outdates(&self, inode: u64, others: bool, ctime: Time) -> bool {
        let old = self.nodes.with(inode, |node| {
            let old = others || node.attr.ctime != ctime;
            node.attr.ctime = ctime;
            if old {
                node.cached = None;
            }
            old
        });
        if old != Some(true) {
            return false;
        }
        // Found out now, it is nothing new when the kernel asks for the size: attributes that come
        // together with word to forget pages are none to it, and it would go on with the old end.
        if let Ok(mut entry) = self.entry_of(inode) {
            let _ = self.complete_but_pages(&mut entry);
        }
        true
    }

    pub(super) fn setlk(&self, request: &Request<'_>, reply: Reply, wait: bool) {
        let what = match request.arguments::<LkIn>() {
            Ok(what) => what,
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        let range = self.range_of(request.header.nodeid, &what);
        if what.lk.kind == libc::F_UNLCK as u32 {
            // Whoever gets the lock next relies on seeing what was written.
            self.nodes.behind(range.inode).drain();
            let result = self.names.unlock(range).map_err(|error| errno(&error));
            self.waiters.kick(range.inode);
            reply.outcome(result);
            return;
        }
        let question = Question {
            want: if wait { Want::Lock } else { Want::LockIfFree },
            range,
            fh: what.fh,
            asking: Asking::now(),
        };
        self.answer(reply, question);
    }

    pub(super) fn getlk(&self, request: &Request<'_>, reply: Reply) {
        match request.arguments::<LkIn>() {
            Ok(what) => {
                let question = Question {
                    want: Want::Test,
                    range: self.range_of(request.header.nodeid, &what),
                    fh: what.fh,
                    asking: Asking::now(),
                };
                self.answer(reply, question);
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    /// Only who has one waits for its writes: this may run in the one thread that asks for all who wait.
    fn let_go_of_flock(&self, range: &LockRange) {
        let has = self.waiters.state().owners.contains_key(&owner_of(range));
        if has {
            self.nodes.behind(range.inode).drain();
            self.unlock_all(range.inode, range.owner, true);
        }
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
        let who = (inode, owner, flock);
        let mut state = self.waiters.state();
        if state.owners.remove(&who).is_none() {
            return;
        }
        state.leaving.push(who);
        drop(state);
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
        let mut state = self.waiters.state();
        if let Some(place) = state.leaving.iter().position(|one| *one == who) {
            state.leaving.swap_remove(place);
        }
        drop(state);
        self.waiters.kick(inode);
    }
}
