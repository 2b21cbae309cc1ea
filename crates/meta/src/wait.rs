//! Requests for locks that are answered when the lock is free: who waits, in the order of asking. Pure
//! but for the answers, which are the owner's to give.

use crate::failure::Failure;
use std::time::Instant;
use trireme_proto::message::meta::{LockRange, Response};

/// Most waiters of one client, and of all: bounds what they can make the manager remember.
pub const WAITERS_PER_CLIENT: usize = 1024;
/// Most waiters of all clients together.
pub const WAITERS: usize = 65_536;

/// Called exactly once, with what became of a request.
pub type Answer = Box<dyn FnOnce(Result<Response, Failure>) + Send>;

/// A request for a lock that somebody else holds.
pub struct Waiter {
    /// Who asks.
    pub client: u64,
    /// For what.
    pub range: LockRange,
    /// Until when.
    pub until: Instant,
    /// How to tell.
    pub answer: Answer,
}

impl Waiter {
    fn same(&self, other: &Waiter) -> bool {
        (self.client, self.range) == (other.client, other.range)
    }
}

/// All who wait.
#[derive(Default)]
pub struct Waiting {
    list: Vec<Waiter>,
}

impl Waiting {
    /// Adds one. Gives the same client's same request if that waits already: its connection broke, and it
    /// asks again. An error: too many wait.
    pub fn add(&mut self, waiter: Waiter) -> Result<Option<Waiter>, Waiter> {
        let same = self.list.iter_mut().find(|known| known.same(&waiter));
        if let Some(known) = same {
            return Ok(Some(std::mem::replace(known, waiter)));
        }
        let of_client = |known: &&Waiter| known.client == waiter.client;
        if self.list.len() >= WAITERS
            || self.list.iter().filter(of_client).count() >= WAITERS_PER_CLIENT
        {
            return Err(waiter);
        }
        self.list.push(waiter);
        Ok(None)
    }

    /// When the first one has waited long enough.
    pub fn first_end(&self) -> Option<Instant> {
        self.list.iter().map(|waiter| waiter.until).min()
    }

    /// Takes those out of whom `which` is true, asking in the order in which they came.
    pub fn take(&mut self, mut which: impl FnMut(&Waiter) -> bool) -> Vec<Waiter> {
        self.list.extract_if(.., |waiter| which(waiter)).collect()
    }

    /// Nobody waits.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}
