//! What an ordered key-value engine must do to hold a namespace: six methods.
//!
//! The shape is that of an optimistic transaction, because that is what a distributed engine can
//! do cheaply (etcd: compare mod-revisions, then put): reads return the version of what was read,
//! and a commit names the versions it relies on. The embedded engines pass the same contract kit
//! ([`contract`]).

mod ballast;
mod fjall;
mod memory;
mod redb;

pub mod contract;

pub use fjall::Fjall;
pub use memory::Memory;
pub use redb::Redb;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A key: see [`crate::key`].
pub type Key = Vec<u8>;

/// A value as stored, with the revision of the commit that wrote it (never 0).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Revision of the writing commit; 0 stands for "absent" in a [`Commit`].
    pub version: u64,
    /// The bytes.
    pub value: Arc<[u8]>,
}

/// A change of one or many keys, applied all or not at all.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The engine's revision before the first read. When nobody committed since, the engine may
    /// skip comparing.
    pub base: u64,
    /// What was read: key and version, 0 for absent.
    pub reads: BTreeMap<Key, u64>,
    /// What to write; `None` removes.
    pub writes: BTreeMap<Key, Option<Arc<[u8]>>>,
    /// It is enough that the death of this process does not undo it; the next commit that is not
    /// soft makes it durable. An engine may ignore this.
    pub soft: bool,
}

/// How a commit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Applied and on stable storage.
    Done {
        /// The new revision.
        revision: u64,
    },
    /// Nothing applied: this key changed since it was read.
    Conflict {
        /// The first one found.
        key: Key,
    },
}

/// What an engine can take, and whether caching above it is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Most keys written in one commit (etcd: 128 by default).
    pub writes: usize,
    /// True when no other process can write: values may be cached and `base` always matches.
    pub exclusive: bool,
}

/// An engine that failed: a broken disk, a full disk, a lost connection.
#[derive(Debug, thiserror::Error)]
#[error("metadata engine {engine}: {reason}")]
pub struct EngineError {
    /// Which engine.
    pub engine: &'static str,
    /// What it said.
    pub reason: String,
    /// The disk is full.
    pub full: bool,
}

impl EngineError {
    fn new(engine: &'static str, error: impl std::fmt::Display) -> Self {
        let reason = error.to_string();
        let full = reason.contains("No space left") || reason.contains("StorageFull");
        Self {
            engine,
            reason,
            full,
        }
    }
}

/// An ordered key-value store with versions and atomic, durable, comparing commits.
pub trait Engine: Send + Sync + 'static {
    /// Its name, for messages.
    fn name(&self) -> &'static str;
    /// What it can take.
    fn limits(&self) -> Limits;
    /// The revision of the newest commit.
    fn revision(&self) -> Result<u64, EngineError>;
    /// The newest committed value.
    fn get(&self, key: &[u8]) -> Result<Option<Stored>, EngineError>;
    /// Up to `limit` pairs with `from <= key < to`, in key order.
    fn scan(&self, from: &[u8], to: &[u8], limit: usize)
    -> Result<Vec<(Key, Stored)>, EngineError>;
    /// Compare, apply, make durable. When this returns `Done`, a power cut does not undo it, nor any
    /// earlier commit (but see [`Commit::soft`]).
    fn commit(&self, commit: &Commit) -> Result<Outcome, EngineError>;
}

/// Has `create` make an engine's directory beside its place and puts it there when it is whole and safe
/// from a power cut: what is found at its place can always be opened.
fn make_whole(
    directory: &Path,
    create: impl FnOnce(&Path) -> Result<(), EngineError>,
) -> Result<(), EngineError> {
    if directory.exists() {
        return Ok(());
    }
    let fail = |error: io::Error| EngineError::new("storage", error);
    let new = directory.with_extension("new");
    if new.exists() {
        std::fs::remove_dir_all(&new).map_err(fail)?;
    }
    create(&new)?;
    sync_tree(&new).map_err(fail)?;
    std::fs::rename(&new, directory).map_err(fail)?;
    // Whoever starts a manager has made the folders above it just before.
    for (above, folder) in directory.ancestors().skip(1).take(3).enumerate() {
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        if above == 0 {
            synced.map_err(fail)?;
        }
    }
    Ok(())
}

fn sync_tree(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_tree(&path)?;
        } else {
            File::open(path)?.sync_all()?;
        }
    }
    File::open(folder)?.sync_all()
}

/// Key under which embedded engines keep their revision; sorts before all of ours.
const REVISION_KEY: &[u8] = b"\0revision";

/// Value bytes of the embedded engines: version (8 bytes, little endian), then the value.
fn pack(version: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len());
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(value);
    bytes
}

fn unpack(engine: &'static str, bytes: &[u8]) -> Result<Stored, EngineError> {
    let Some((version, value)) = bytes.split_first_chunk::<8>() else {
        return Err(EngineError::new(
            engine,
            "a stored value is shorter than its version",
        ));
    };
    Ok(Stored {
        version: u64::from_le_bytes(*version),
        value: value.into(),
    })
}
