//! The address file: what a client needs to know to reach a cluster.
//!
//! `trireme up` writes it to `DIR/cluster.json` and leaves a copy where clients look by
//! themselves. It holds the cluster key, so it is readable by its owner only.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use trireme_proto::Key;

use crate::{Error, Result};

/// Name of the address file in a cluster's directory.
pub const FILE_NAME: &str = "cluster.json";

/// Where a cluster is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Descriptor {
    /// Addresses of the metadata manager: `unix:/path`, `tcp:host:port`.
    pub manager: Vec<String>,
    /// The cluster key, 64 hexadecimal digits; absent for an open cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The directory that the cluster lives in, if on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dir: Option<PathBuf>,
}

impl Descriptor {
    /// Looks at `$TRIREME_CLUSTER`, then at what `trireme up` left.
    pub fn find() -> Result<Descriptor> {
        if let Some(name) = std::env::var_os("TRIREME_CLUSTER").filter(|name| !name.is_empty()) {
            return Descriptor::named(&name.to_string_lossy());
        }
        let path = default_path();
        if path.exists() {
            return Descriptor::read(&path);
        }
        Err(Error::NoCluster {
            why: format!(
                "TRIREME_CLUSTER is not set and {} is not there",
                path.display()
            ),
        })
    }

    /// A cluster by its address file, its directory, or the manager's address; a key for the latter
    /// is taken from the file `$TRIREME_KEY`.
    pub fn named(name: &str) -> Result<Descriptor> {
        if name.starts_with("unix:") || name.starts_with("tcp:") {
            let key = match std::env::var_os("TRIREME_KEY") {
                None => None,
                Some(path) => Some(
                    std::fs::read_to_string(&path)
                        .map_err(Error::local(format!(
                            "read the key file {}",
                            path.display()
                        )))?
                        .trim()
                        .to_owned(),
                ),
            };
            return Ok(Descriptor {
                manager: name.split(',').map(str::to_owned).collect(),
                key,
                dir: None,
            });
        }
        let path = Path::new(name);
        if path.is_dir() {
            Descriptor::read(&path.join(FILE_NAME))
        } else {
            Descriptor::read(path)
        }
    }

    /// Reads an address file.
    pub fn read(path: &Path) -> Result<Descriptor> {
        let text = std::fs::read(path).map_err(|error| Error::NoCluster {
            why: format!("cannot read {}: {error}", path.display()),
        })?;
        serde_json::from_slice(&text).map_err(|error| Error::Descriptor {
            path: path.into(),
            why: format!("not an address file: {error}"),
        })
    }

    /// Writes it for its owner only, in one step.
    pub fn write(&self, path: &Path) -> Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let write = || {
            let _ = std::fs::remove_file(&new);
            let mut file = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&new)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            std::fs::rename(&new, path)
        };
        write().map_err(Error::local(format!("write {}", path.display())))
    }

    /// The key that it holds.
    pub fn key(&self) -> Result<Key> {
        match &self.key {
            None => Ok(Key::open()),
            Some(text) => Key::from_text(text).ok_or_else(|| {
                Error::Invalid("the cluster key is not 64 hexadecimal digits".into())
            }),
        }
    }
}

/// Where `trireme up` leaves the address file of the last cluster it started.
pub fn default_path() -> PathBuf {
    if let Some(dir) = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        return PathBuf::from(dir).join("trireme-cluster.json");
    }
    match std::env::var_os("HOME").filter(|home| !home.is_empty()) {
        Some(home) => PathBuf::from(home).join(".trireme-cluster.json"),
        None => PathBuf::from("/tmp/trireme-cluster.json"),
    }
}
