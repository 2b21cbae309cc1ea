//! Advisory byte-range locks. Waiting happens here, with a deadline: the manager only says yes or
//! no, so a waiter never occupies a thread of it and never waits for ever.

use super::{Namespace, NetError, answer, unexpected};
use std::time::Duration;

use trireme_net::Deadline;
use trireme_proto::message::meta::{LockRange, Request, Response, Time};
use trireme_proto::refusal::errno;

/// First and longest pause between two attempts.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// A lock that is given back when dropped.
pub struct Locked {
    namespace: Namespace,
    range: LockRange,
}

impl Namespace {
    /// Takes a lock, waiting at most `patience` for others to give it back (`EAGAIN` then).
    pub fn lock(&self, range: LockRange, patience: Duration) -> Result<Locked, NetError> {
        let deadline = Deadline::after(patience);
        let mut pause = PAUSE;
        loop {
            match self.lock_once(range, true) {
                Ok(_) => break,
                Err(NetError::Refused { source, .. })
                    if source.errno == errno::EAGAIN && !deadline.over() =>
                {
                    std::thread::sleep(pause.min(deadline.left()));
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Locked {
            namespace: self.clone(),
            range,
        })
    }

    /// Asks for a lock once; `EAGAIN` when somebody else holds it. With `wait` the caller says that
    /// it will ask again, and is told (`EDEADLK`) when that cannot succeed. Gives whether others
    /// have the file open for writing, and its last change.
    pub fn lock_once(&self, range: LockRange, wait: bool) -> Result<(bool, Time), NetError> {
        let request = Request::Lock {
            range,
            reclaim: false,
            wait,
        };
        let answer =
            answer!(self.ask(request)?, Response::Locked { others, ctime } => (others, ctime))?;
        carve(&mut self.locks(), &range);
        self.locks().push(range);
        self.beat();
        Ok(answer)
    }

    /// Gives a range back.
    pub fn unlock(&self, range: LockRange) -> Result<(), NetError> {
        carve(&mut self.locks(), &range);
        answer!(self.ask(Request::Unlock { range })?, Response::Done => ())
    }

    /// A lock of somebody else that is in the way.
    pub fn test_lock(&self, range: LockRange) -> Result<Option<LockRange>, NetError> {
        answer!(self.ask(Request::TestLock { range })?, Response::Conflict(held) => held)
    }
}

/// Takes a range out of what its owner holds: what is left is reclaimed after a restart.
fn carve(held: &mut Vec<LockRange>, range: &LockRange) {
    let mut rest = Vec::new();
    held.retain(|old| {
        let hit = (old.inode, old.owner, old.flock) == (range.inode, range.owner, range.flock)
            && old.start < range.end
            && range.start < old.end;
        if hit {
            if old.start < range.start {
                let end = range.start;
                rest.push(LockRange { end, ..*old });
            }
            if range.end < old.end {
                let start = range.end;
                rest.push(LockRange { start, ..*old });
            }
        }
        !hit
    });
    held.append(&mut rest);
}

impl Locked {
    /// What is locked.
    pub fn range(&self) -> LockRange {
        self.range
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Err(error) = self.namespace.unlock(self.range) {
            tracing::warn!("a lock could not be given back, it ends with its lease: {error}");
        }
    }
}
