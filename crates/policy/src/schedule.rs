//! Schedules: in which order the transfers between clients and servers take place.
//!
//! Two families. The decentralised ones ([`Schedule`]: `first`, `random`, `hash`) need no message
//! at all: each client (for writes) or server (for reads) decides for itself, [`crate::transfer`]
//! carries the decision out, and both the running system and the lab use them. The others look at
//! everybody's requests and are there for the lab to compare with: [`heuristic`] plans unit requests
//! in phases (FCFS, HDF, HCDF, UAR, MPASSES), [`replicated`] the same with a choice of servers
//! (LDDF, SJF, SOJF), [`positioning`] lets the replicas' disks decide (D-SPTF), [`lard`] is a front
//! end that keeps caches warm, [`aggregate`] merges and time-slices applications (aIOLi-like).

pub mod aggregate;
pub mod centralised;
pub mod distributed;
pub mod heuristic;
pub mod lard;
pub mod matching;
pub mod positioning;
pub mod replicated;

use std::fmt;
use std::str::FromStr;

/// How one client orders its visits to the servers (and, for reads, one server its clients).
///
/// From "On evaluating decentralized parallel I/O scheduling strategies for parallel file systems":
/// a request is cut into blocks of `b` bytes, the schedule block, and the schedule says whose block
/// goes next. With n clients that each write to n servers, one block at a time, `hash` needs n
/// steps and `first` 2n - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Schedule {
    /// In the order of file offsets. All clients start at the same server when their requests do.
    First,
    /// Any server that still has work, each as likely.
    Random,
    /// Client i starts at server i and goes round, so that clients in step never meet.
    #[default]
    Hash,
}

impl Schedule {
    /// All of them, in the order in which tables list them.
    pub const ALL: [Self; 3] = [Self::First, Self::Random, Self::Hash];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Random => "random",
            Self::Hash => "hash",
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A schedule that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no schedule is called {0:?}: write first, random or hash")]
pub struct UnknownSchedule(pub String);

impl FromStr for Schedule {
    type Err = UnknownSchedule;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|schedule| schedule.name() == name)
            .ok_or_else(|| UnknownSchedule(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for schedule in Schedule::ALL {
            assert_eq!(schedule.to_string().parse(), Ok(schedule));
        }
        assert_eq!(
            "Hash".parse::<Schedule>().unwrap_err().to_string(),
            "no schedule is called \"Hash\": write first, random or hash"
        );
    }
}
