//! Bodies of requests about groups: processes that make joint requests.

use serde::{Deserialize, Serialize};

/// Body of `JOIN`: waits until all members of the group are there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// The group's name, chosen by its members; groups of different users never meet.
    pub name: String,
    /// This member's number, from 0.
    pub rank: u32,
    /// How many members there are.
    pub size: u32,
}

/// Reply to `JOIN`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// The group's number, the same for all its members and never used again.
    pub group: u64,
}

/// Who speaks in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// The group's number.
    pub group: u64,
    /// The member's number.
    pub rank: u32,
    /// How many members there are.
    pub size: u32,
}

/// Reply to `ABSENT`, whose body is a [`Seat`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Members whose lanes have ended and have not been replaced since.
    pub ranks: Vec<u32>,
}

/// Body of `LANE`: from the reply on, this connection is the server's to ask and the member's to answer;
/// when it ends, the member is taken for gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// Whose.
    pub seat: Seat,
    /// The group's name, for messages.
    pub name: String,
    /// Which of the member's lanes to this server.
    pub lane: u32,
}

/// Body of `GATHER`: each member brings bytes (the payload), and gets those of all. Without bytes, a barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gather {
    /// Who.
    pub seat: Seat,
    /// The number of this meeting, counted by each member.
    pub sequence: u64,
}

/// Reply to `GATHER`; the payload has the members' bytes in the order of rank.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gathered {
    /// How many bytes each member brought.
    pub lengths: Vec<u32>,
}
