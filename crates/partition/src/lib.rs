//! The algebra of layouts and views: which owner has which byte of a file.
//!
//! A file is a row of bytes. A [`Partition`] divides it among owners: a *layout* divides it among
//! I/O servers, a *view* among processes; both are the same type. One owner's share is a [`Part`],
//! a few numbers for any regular pattern whatever the array's size. Everything that moves data is
//! an intersection of one layout part with one view part, and [`pack`] is the kernel that moves it.
//!
//! This crate is pure: no I/O, no clock, no threads. It owns the arithmetic on a file's bytes; it
//! decides nothing and sends nothing. Everybody calls it.
//!
//! ```
//! use trireme_partition::Partition;
//! // A 1280 x 1024 matrix of doubles, CYCLIC in both dimensions over a 4 x 4 grid of processes,
//! // and the file striped over 4 servers in units of 64 KiB.
//! let view = Partition::named("rcc", 8, 1280 * 1024 * 8, 16)?;
//! let layout = Partition::striped(64 << 10, 4, 0)?;
//! let (process, server) = (view.part(6)?, layout.part(2)?);
//! let bytes: u64 = process.intersect(&server, 0..10 << 20).map(|piece| piece.len).sum();
//! assert_eq!(bytes, 10 * (1 << 20) / 16 / 4);
//! # Ok::<(), trireme_partition::Error>(())
//! ```
#![forbid(unsafe_code)]

mod array;
mod compress;
mod cover;
mod cursor;
mod datatype;
mod error;
mod hyperslab;
mod named;
mod node;
pub mod pack;
mod part;
mod partition;
mod raw;
mod row;
mod text;
mod walk;
mod wire;

pub use array::{ArraySpec, Dist, Order};
pub use cover::{covers, multiplicity, multiplicity_within, overlap};
pub use cursor::Batch;
pub use datatype::Datatype;
pub use error::Error;
pub use hyperslab::Hyperslab;
pub use named::{READ_PATTERNS, WRITE_PATTERNS};
pub use part::{Extent, Part};
pub use partition::Partition;
pub use walk::{Batches, Intersection, Piece, Run, Runs};

/// Files end here: every offset is below 2^63, as in `off_t`.
pub const MAX_FILE: u64 = 1 << 63;

/// Deepest nesting of one part. Real types stay below ten (an array's rank times two); the limit
/// bounds the work on a hostile description.
pub const MAX_DEPTH: usize = 32;

/// Most pieces that an interleaving without a regular description is expanded into, or four times
/// its own description if that is longer: a hostile encoding cannot ask for more than a few MiB.
pub const MAX_LISTED: u64 = 1 << 16;
