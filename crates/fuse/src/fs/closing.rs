//! Locks that are gone for programs and not for us yet. `close` returns once the kernel has put the news of
//! an opening's end into its queue; we carry that out after it, and maybe after a request that it put there
//! later. So whoever does not want to wait for a lock is refused only when its holder has had the time to go.
//!
//! Each close of a descriptor tells us something before it returns (a flush), and an opening ends with its
//! last descriptor: one that has not lost any cannot have ended, and nobody waits for it.

use std::time::{Duration, Instant};

use trireme_proto::message::meta::LockRange;

use super::Inner;
use super::lock::owner_of;

/// For an opening of which we know that it has ended. Giving its locks back takes one call to the manager.
const ENDED: Duration = Duration::from_secs(5);

/// For one that has just lost a descriptor: the news of its end may be with a thread of ours that the
/// processors are kept from, or behind a read ahead that is under way.
const LOST_ONE: Duration = Duration::from_millis(200);

/// How often to ask about those of other mounts, of which nothing is known, and those that lost a descriptor
/// long ago: mapped memory may have kept them. With the pauses in between this takes 7 ms.
const QUESTIONS: u32 = 4;

/// How long and how often somebody has asked.
#[derive(Debug)]
pub(super) struct Asking {
    pub since: Instant,
    /// How often in a row nothing was known of the holder.
    unknown: u32,
}

/// What is known of who holds a lock.
enum Holder {
    Stays,
    /// Until then it may be on its way.
    MayHaveLeft(Instant),
    Unknown,
}

impl Asking {
    pub fn now() -> Asking {
        Asking {
            since: Instant::now(),
            unknown: 0,
        }
    }
}

impl Inner {
    /// Whether who asks should ask again, as a lock that was in the way may be gone already for programs.
    pub(super) fn may_be_gone(&self, held: Option<&LockRange>, asking: &mut Asking) -> bool {
        let patience = match held {
            // It was given back after it was in the way; or the manager has just restarted.
            None => Some(asking.since + ENDED),
            Some(held) => match self.leaves_by(held, asking.since) {
                Holder::Stays => return false,
                Holder::MayHaveLeft(until) => Some(until),
                Holder::Unknown => None,
            },
        };
        if patience.is_some_and(|until| Instant::now() < until) {
            asking.unknown = 0;
            return true;
        }
        asking.unknown += 1;
        asking.unknown < QUESTIONS
    }

    fn leaves_by(&self, held: &LockRange, asked: Instant) -> Holder {
        let owner = owner_of(held);
        let state = self.waiters.state();
        if state.leaving.contains(&owner) {
            return Holder::MayHaveLeft(asked + ENDED);
        }
        let Some(fh) = state.owners.get(&owner).copied() else {
            return Holder::Unknown;
        };
        drop(state);
        let Ok(handle) = self.handles.file(fh) else {
            return Holder::MayHaveLeft(asked + ENDED);
        };
        match handle.lost_one() {
            None => Holder::Stays,
            // It may lose them all the time.
            Some(when) => Holder::MayHaveLeft(when.min(asked) + LOST_ONE),
        }
    }

    /// Whether an opening may have its owner's number from one that is being closed: the kernel makes it of
    /// an address. What is given back under that number must be gone before anything is taken.
    pub(super) fn is_heir(&self, range: &LockRange, fh: u64, asked: Instant) -> bool {
        let owner = owner_of(range);
        let state = self.waiters.state();
        if state.leaving.contains(&owner) {
            return Instant::now() < asked + ENDED;
        }
        let before = state.owners.get(&owner).copied();
        drop(state);
        let Some(before) = before.filter(|before| *before != fh) else {
            return false;
        };
        // A process that locks through several openings has the same number, too.
        let until = match self.handles.file(before) {
            Err(_) => asked + ENDED,
            Ok(handle) => handle.lost_one().map_or(asked, |when| when + LOST_ONE),
        };
        Instant::now() < until.min(asked + ENDED)
    }
}
