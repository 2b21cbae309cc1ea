//! Namespace and layouts as transactions over an ordered key-value engine.
//!
//! ```text
//!  Request ──► Manager ──┬─ reads: Reader ──► Cache ──► Engine::get / scan
//!   (proto)              │
//!                        └─ changes: Queue ──► one thread runs many transactions against the
//!                                             engine plus what the batch wrote so far, then one
//!                                             Engine::commit (compare, apply, fsync), then replies
//! ```
//!
//! * [`kv`]: what an engine must do (six methods) and the engines: [`kv::Fjall`] (default),
//!   [`kv::Redb`], [`kv::Memory`]. A commit compares versions of what was read, so an engine that
//!   others write to as well (etcd) fits: a conflict re-runs the batch.
//! * [`key`], [`record`]: the stored format (docs/metadata.md has the byte diagrams).
//! * [`acl`]: access control lists: their binary form, whom they let in.
//! * [`txn`], [`queue`]: transactions and group commit.
//! * [`namespace`]: POSIX names, attributes, permissions as pure functions over a transaction.
//! * [`lock`], [`wait`], [`session`]: byte-range locks, who waits for them, and leases, in memory, with
//!   deadlines.
//! * [`check`]: the namespace half of `fsck`.
//! * [`manager`]: all of it behind [`Manager::submit`], without any socket.
//!
//! The crate never opens a socket and never touches subfiles; what has to happen on I/O servers
//! (removing an unlinked file's subfiles, cutting a truncated one) goes through
//! [`manager::Subfiles`], which the server crate implements.

pub mod acl;
pub mod cache;
pub mod check;
pub mod failure;
pub mod key;
pub mod kv;
pub mod lock;
pub mod manager;
pub mod namespace;
pub mod queue;
pub mod record;
pub mod session;
pub mod txn;
pub mod wait;

pub use manager::{Manager, Options, Subfiles};
