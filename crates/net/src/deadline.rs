//! A point in time after which a call gives up.

use std::time::{Duration, Instant};

/// When a call gives up.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    at: Instant,
    total: Duration,
}

impl Deadline {
    /// From now on.
    pub fn after(time: Duration) -> Deadline {
        Deadline {
            at: Instant::now() + time,
            total: time,
        }
    }

    /// Time left; zero when over.
    pub fn left(&self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    /// Whether it is over.
    pub fn over(&self) -> bool {
        Instant::now() >= self.at
    }

    /// How long the call was allowed to take in all, for messages.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// Time left in the header's unit, at least 1.
    pub fn patience_ms(&self) -> u32 {
        self.left().as_millis().clamp(1, u32::MAX as u128) as u32
    }

    /// The earlier of this and `time` from now.
    pub fn at_most(&self, time: Duration) -> Deadline {
        if self.left() <= time {
            *self
        } else {
            Deadline::after(time)
        }
    }
}
