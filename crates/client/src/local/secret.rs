//! Keys of a cluster on this machine: files that only their owner can read.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use trireme_net::random_bytes;
use trireme_proto::Key;

use crate::{Error, Result};

/// The key that clients and servers share.
pub fn cluster_key_path(dir: &Path) -> PathBuf {
    dir.join("cluster.key")
}

/// The key that only servers have.
pub fn token_key_path(dir: &Path) -> PathBuf {
    dir.join("token.key")
}

/// Makes keys that are not there yet.
pub fn prepare(dir: &Path) -> Result<()> {
    read_or_make(&cluster_key_path(dir))?;
    read_or_make(&token_key_path(dir))?;
    Ok(())
}

pub fn cluster_key(dir: &Path) -> Result<Key> {
    read_or_make(&cluster_key_path(dir))
}

pub(crate) fn token_key(dir: &Path) -> Result<Key> {
    std::fs::create_dir_all(dir).map_err(Error::local(format!("create {}", dir.display())))?;
    read_or_make(&token_key_path(dir))
}

fn read_or_make(path: &Path) -> Result<Key> {
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Ok(mut file) => {
            let key = Key::new(random_bytes());
            file.write_all(format!("{}\n", key.to_text()).as_bytes())
                .and_then(|()| file.sync_all())
                .map_err(Error::local(format!("write {}", path.display())))?;
            Ok(key)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => read(path),
        Err(error) => Err(Error::local(format!("create {}", path.display()))(error)),
    }
}

fn read(path: &Path) -> Result<Key> {
    let text =
        std::fs::read_to_string(path).map_err(Error::local(format!("read {}", path.display())))?;
    Key::from_text(&text).ok_or_else(|| Error::Descriptor {
        path: path.into(),
        why: "a key file holds 64 hexadecimal digits".into(),
    })
}
