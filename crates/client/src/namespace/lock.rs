//! Advisory byte-range locks. The manager answers when the lock is free, or after a while; the deadline
//! is kept here, so that nobody waits for ever.

use super::{Namespace, NetError, answer, unexpected};
use std::time::{Duration, Instant};

use trireme_net::Deadline;
use trireme_proto::message::meta::{LOCK_WAIT_MS, LockRange, Request, Response, Time};
use trireme_proto::refusal::errno;

/// Pause before asking a manager again that does not let anybody wait: it has just restarted.
const PAUSE: Duration = Duration::from_millis(50);

/// A lock that is given back when dropped.
pub struct Locked {
    namespace: Namespace,
    range: LockRange,
}

impl Namespace {
    /// Takes a lock, waiting at most `patience` for others to give it back (`EAGAIN` then).
    pub fn lock(&self, range: LockRange, patience: Duration) -> Result<Locked, NetError> {
        let deadline = Deadline::after(patience);
        loop {
            // An answer that does not come must not be mistaken for a manager that is away.
            let patience = deadline.left().min(self.call_time() / 2);
            let asked = Instant::now();
            match self.ask_for_lock(range, true, patience) {
                Ok(_) => break,
                Err(NetError::Refused { source, .. })
                    if source.errno == errno::EAGAIN && !deadline.over() =>
                {
                    std::thread::sleep(PAUSE.saturating_sub(asked.elapsed()).min(deadline.left()));
                }
                Err(error @ NetError::Refused { .. }) => return Err(error),
                Err(error) => {
                    // The request may still be waiting there, for nobody.
                    if !self.holds_some_of(&range) {
                        let _ = self.unlock(range);
                    }
                    return Err(error);
                }
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
        self.ask_for_lock(range, wait, Duration::ZERO)
    }

    fn ask_for_lock(
        &self,
        range: LockRange,
        wait: bool,
        patience: Duration,
    ) -> Result<(bool, Time), NetError> {
        let patience_ms = u32::try_from(patience.as_millis()).unwrap_or(u32::MAX);
        let request = Request::Lock {
            range,
            reclaim: false,
            wait,
            patience_ms: patience_ms.min(LOCK_WAIT_MS),
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

    /// Whether the range's owner holds a part of it already.
    fn holds_some_of(&self, range: &LockRange) -> bool {
        self.locks()
            .iter()
            .any(|held| same_owner(held, range) && held.start < range.end && range.start < held.end)
    }

    /// A lock of somebody else that is in the way.
    pub fn test_lock(&self, range: LockRange) -> Result<Option<LockRange>, NetError> {
        answer!(self.ask(Request::TestLock { range })?, Response::Conflict(held) => held)
    }
}

fn same_owner(one: &LockRange, other: &LockRange) -> bool {
    (one.inode, one.owner, one.flock) == (other.inode, other.owner, other.flock)
}

/// Takes a range out of what its owner holds: what is left is reclaimed after a restart.
fn carve(held: &mut Vec<LockRange>, range: &LockRange) {
    let mut rest = Vec::new();
    held.retain(|old| {
        let hit = same_owner(old, range) && old.start < range.end && range.start < old.end;
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
