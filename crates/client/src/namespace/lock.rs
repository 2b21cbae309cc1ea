//! Advisory byte-range locks. Waiting happens here, with a deadline: the manager only says yes or
//! no, so a waiter never occupies a thread of it and never waits for ever.

use super::{Namespace, NetError, answer, unexpected};
use std::time::Duration;

use trireme_net::Deadline;
use trireme_proto::message::meta::{LockRange, Request, Response};
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
            match self.ask(Request::Lock {
                range,
                reclaim: false,
            }) {
                Ok(Response::Done) => break,
                Ok(_) => return Err(unexpected()),
                Err(NetError::Refused { source, .. })
                    if source.errno == errno::EAGAIN && !deadline.over() =>
                {
                    std::thread::sleep(pause.min(deadline.left()));
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                Err(error) => return Err(error),
            }
        }
        self.locks().push(range);
        self.beat();
        Ok(Locked {
            namespace: self.clone(),
            range,
        })
    }

    /// Gives a range back.
    pub fn unlock(&self, range: LockRange) -> Result<(), NetError> {
        self.locks().retain(|held| *held != range);
        answer!(self.ask(Request::Unlock { range })?, Response::Done => ())
    }

    /// A lock of somebody else that is in the way.
    pub fn test_lock(&self, range: LockRange) -> Result<Option<LockRange>, NetError> {
        answer!(self.ask(Request::TestLock { range })?, Response::Conflict(held) => held)
    }
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
