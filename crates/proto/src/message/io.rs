//! Bodies of requests to I/O servers. Plain reads and writes need none: the header says it all.

use serde::{Deserialize, Serialize};

/// Body of `READ_VIEW` and `WRITE_VIEW`: the pattern, never a list of pieces.
///
/// The payload is all pieces of (view part ∩ layout part) inside the file range,
/// in file order, without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Encoded part of the layout that this server holds.
    pub layout: Vec<u8>,
    /// Encoded part of the view that the client wants.
    pub view: Vec<u8>,
    /// First byte of the file range.
    pub from: u64,
    /// First byte after it.
    pub to: u64,
}

/// Reply to `STAT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// Bytes of the subfile, holes included; 0 if nothing was ever written.
    pub size: u64,
    /// Bytes that it takes on disk.
    pub stored: u64,
    /// Last change, nanoseconds since 1970.
    pub modified_ns: i64,
}

/// Reply to `SPACE`: bytes over all disks of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// All.
    pub total: u64,
    /// Free for this user.
    pub free: u64,
}

/// Reply to `LIST`: numbers greater than the request's `file`, ascending; empty at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// File number and when the subfile was made, nanoseconds since 1970.
    pub files: Vec<(u64, i64)>,
}
