//! Bodies of requests to I/O servers. Plain reads and writes need none: the header says it all.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use trireme_partition::{Part, Piece};

use crate::Refusal;

/// Body of `READ_VIEW` and `WRITE_VIEW`: the pattern, never a list of pieces.
///
/// The payload is all pieces of (view part ∩ layout part) inside the file range and
/// the view range, in file order, without gaps: [`Pattern::pieces`] on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Encoded part of the layout that this server holds.
    pub layout: Vec<u8>,
    /// Encoded part of the view that the client wants.
    pub view: Vec<u8>,
    /// Range of the file.
    pub file: Range<u64>,
    /// Range of the view.
    pub range: Range<u64>,
}

/// A decoded [`View`].
#[derive(Debug, Clone)]
pub struct Pattern {
    /// What this server holds.
    pub layout: Part,
    /// What the client wants.
    pub view: Part,
    /// Range of the file.
    pub file: Range<u64>,
    /// Range of the view.
    pub range: Range<u64>,
}

impl View {
    /// Decodes and checks the parts.
    pub fn decode(&self) -> Result<Pattern, Refusal> {
        let part = |bytes: &[u8], what: &str| {
            Part::decode(bytes)
                .map_err(|error| Refusal::protocol(format!("the {what} cannot be read: {error}")))
        };
        Ok(Pattern {
            layout: part(&self.layout, "layout")?,
            view: part(&self.view, "view")?,
            file: self.file.clone(),
            range: self.range.clone(),
        })
    }
}

impl Pattern {
    /// The pieces that the payload consists of, in its order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece> {
        let range = self.range.clone();
        self.view
            .intersect(&self.layout, self.file.clone())
            .filter_map(move |piece| {
                let from = piece.view.max(range.start);
                let to = (piece.view + piece.len).min(range.end);
                (from < to).then(|| {
                    let skip = from - piece.view;
                    Piece {
                        file: piece.file + skip,
                        view: from,
                        part: piece.part + skip,
                        len: to - from,
                    }
                })
            })
    }
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

/// Body of `ALLOCATE`: what becomes of the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Allocate {
    /// Space is reserved, bytes stay as they are.
    Reserve {
        /// Also beyond the end, without moving it.
        keep_size: bool,
    },
    /// Space is given back; the bytes read as zero.
    Punch,
    /// The bytes read as zero, space stays reserved.
    Zero {
        /// Also beyond the end, without moving it.
        keep_size: bool,
    },
}

/// Body of `SEEK`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seek {
    /// The next byte that is stored.
    Data,
    /// The next byte that is not; the end is one.
    Hole,
    /// Whether a subfile can end there at all: `EFBIG` where its disk has no files that long.
    Reach,
}

/// Answer to `SEEK` when there is no more data.
pub const NO_DATA: u64 = u64::MAX;

/// Reply to `SPACE`: bytes over all disks of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// All.
    pub total: u64,
    /// Free for this user.
    pub free: u64,
    /// Names of these disks, which nobody else's have: a server that is on the same one tells the same.
    pub disks: Vec<String>,
}

/// Reply to `LIST`: numbers greater than the request's `file`, ascending; empty at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// File number and when the subfile was made, nanoseconds since 1970.
    pub files: Vec<(u64, i64)>,
}
