//! The cluster as a whole, as answers describe it: its servers, its counts, what a check found.

use serde::{Deserialize, Serialize};

/// One I/O server as the cluster map knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its number, kept in its directory.
    pub id: u32,
    /// Where it listens: `unix:/path` and `host:port`.
    pub addresses: Vec<String>,
    /// A new number at each start.
    pub incarnation: u64,
}

/// Who serves what; a layout planned with an older epoch is still valid, addresses may not be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterMap {
    /// Grows with every change.
    pub epoch: u64,
    /// Random, made with the cluster.
    pub cluster: u64,
    /// All I/O servers ever registered and not retired, by id.
    pub servers: Vec<ServerInfo>,
}

/// Counts of the namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatFs {
    /// Inodes in use.
    pub inodes: u64,
    /// Unlinked files whose subfiles are still to be removed.
    pub pending: u64,
    /// Sessions with a live lease.
    pub sessions: u64,
    /// Open files.
    pub opens: u64,
    /// Seconds since the manager started.
    pub uptime: u64,
}

/// What a namespace check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckReport {
    /// Inodes seen.
    pub inodes: u64,
    /// Directory entries seen.
    pub entries: u64,
    /// What is wrong, in words.
    pub problems: Vec<Problem>,
}

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// What is wrong, naming the thing.
    pub what: String,
    /// What was, or with `--repair` would be, done.
    pub remedy: String,
    /// True when it was done.
    pub repaired: bool,
}

/// Whether an inode number found on an I/O server belongs to somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Life {
    /// A file has it; its subfiles are data.
    Live,
    /// Unlinked; removal is on the to-do list.
    Pending,
    /// Nobody has it and, as numbers are never reused, nobody will.
    Gone,
    /// Not given out yet as far as the manager knows: leave it alone.
    Unknown,
}
