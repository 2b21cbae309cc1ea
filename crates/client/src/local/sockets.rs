//! Where Unix sockets live: their paths must be short, directories of clusters need not be.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The kernel's limit for a socket's path is 107 bytes; names below take up to 12.
const LONGEST: usize = 90;

/// A directory for sockets, for its owner only.
#[derive(Debug, Clone)]
pub(crate) struct SocketDir(PathBuf);

impl SocketDir {
    /// `DIR/run`, or a short stand-in under `/tmp` when that is too long.
    pub fn of(dir: &Path) -> Result<SocketDir> {
        let dir = std::path::absolute(dir).map_err(Error::local("find the current directory"))?;
        let mut run = dir.join("run");
        if run.as_os_str().len() > LONGEST {
            use std::hash::{DefaultHasher, Hash, Hasher};
            let mut hasher = DefaultHasher::new();
            dir.hash(&mut hasher);
            let uid = rustix::process::getuid().as_raw();
            run = PathBuf::from(format!("/tmp/trireme-{uid}-{:016x}", hasher.finish()));
        }
        let failed = |error| Error::Local {
            what: format!("create {}", run.display()),
            source: error,
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&run)
            .map_err(failed)?;
        let owner = std::fs::metadata(&run).map_err(failed)?.uid();
        if owner != rustix::process::getuid().as_raw() {
            return Err(Error::Invalid(format!(
                "{} belongs to user {owner}",
                run.display()
            )));
        }
        Ok(SocketDir(run))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}
