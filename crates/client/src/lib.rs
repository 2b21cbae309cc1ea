//! The trireme client library: striped files on a cluster of I/O servers.
//!
//! ```no_run
//! use std::io::{Read, Write};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = trireme::Cluster::find()?;            // $TRIREME_CLUSTER, or what `trireme up` left
//! let mut file = cluster.create("/results/run-1")?;
//! file.write_all(b"hello")?;                          // std::io::{Read, Write, Seek}
//! file.write_at(&[7; 1 << 20], 1 << 30)?;             // all servers at once
//! let pending = file.start_read(0, vec![0; 5]);       // overlaps with what follows
//! file.sync()?;                                       // survives power loss
//! let (bytes, count) = pending.wait()?;
//! # Ok(()) }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`Cluster`] | connections, the map of servers, defaults |
//! | [`File`] | reads, writes, size, sync |
//! | [`View`] | a file seen through a partition: noncontiguous reads and writes |
//! | [`Group`], [`Collective`] | processes that work together, and their joint transfers |
//! | [`Pending`] | an operation that runs while you compute |
//! | [`namespace`] | names, attributes, open files and locks at the manager |
//! | [`embedded`], [`local`] | a cluster in this process, or in processes on this machine |
//!
//! What each call promises is in `docs/semantics.md`.

mod attributes;
mod cluster;
mod collective;
mod descriptor;
pub mod embedded;
mod error;
mod file;
mod group;
pub mod local;
mod memory;
pub mod namespace;
mod open;
mod options;
mod pending;
pub mod strays;
mod transfer;
mod view;

pub use attributes::at;
pub use cluster::{Cluster, ServerStatus};
pub use collective::{Collective, Method, Report, ServerReport};
pub use descriptor::Descriptor;
pub use error::Error;
pub use file::{Announcement, File, Then, Times};
pub use group::Group;
pub use memory::SharedBuffer;
pub use namespace::Namespace;
pub use open::OpenOptions;
pub use options::Options;
pub use pending::Pending;
pub use transfer::TransferOptions;
pub use trireme_partition::{ArraySpec, Dist, Extent, Order, Part, Partition};
pub use trireme_policy::schedule::Schedule;
pub use trireme_proto::message::meta::{Layout, LayoutWish};
pub use view::View;

/// What calls give.
pub type Result<T> = std::result::Result<T, Error>;
