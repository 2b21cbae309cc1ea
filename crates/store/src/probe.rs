//! A witness of everything that the store asks of its disks: for tests of power cuts and failing disks.

use std::fmt::Debug;
use std::io;
use std::path::Path;

/// What is about to be done. Until a sync covers it, a power cut may undo it, or half of it.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum Event<'a> {
    MakeFolder(&'a Path),
    Make(&'a Path),
    Write {
        path: &'a Path,
        offset: u64,
        bytes: &'a [u8],
    },
    Truncate {
        path: &'a Path,
        size: u64,
    },
    Rename {
        from: &'a Path,
        to: &'a Path,
    },
    Remove(&'a Path),
    /// Bytes and size of a file are durable after this.
    Sync(&'a Path),
    /// The names in a folder are durable after this.
    SyncFolder(&'a Path),
    /// Everything below is durable after this.
    SyncAll(&'a Path),
}

/// Sees each event before it happens; an error is what the disk then says.
pub trait Probe: Debug + Send + Sync {
    /// See [`Event`].
    fn saw(&self, event: Event<'_>) -> io::Result<()>;
}
