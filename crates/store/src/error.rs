//! Why a disk could not do it; each error names the path and, where there is one, the remedy.

use std::io;
use std::path::{Path, PathBuf};

/// A failed store operation.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing to store on.
    #[error("an I/O server needs at least one --dir")]
    NoDisk,
    /// No io_uring here.
    #[error("this kernel or container allows no io_uring ({0}): leave --disk-engine uring away")]
    NoRing(io::Error),
    /// The label is not ours, or of another server.
    #[error("{path}: {why}", path = path.display())]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system's word.
    #[error("{what} {path}: {source}", path = path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What came back.
        source: io::Error,
    },
}

impl StoreError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
        let path = path.to_owned();
        move |source| StoreError::Io { what, path, source }
    }

    /// The Linux error number that says it best.
    pub fn errno(&self) -> i32 {
        match self {
            StoreError::Io { source, .. } => source.raw_os_error().unwrap_or(libc::EIO),
            _ => libc::EIO,
        }
    }
}
