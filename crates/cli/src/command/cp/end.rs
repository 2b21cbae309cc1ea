//! Both ends of a copy, this machine and the cluster, behind one set of verbs.

use crate::command::mkdir::make_all;
use crate::name::Name;
use crate::output::{from_system, to_system};
use anyhow::Context as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::PathBuf;
use trireme::{Cluster, LayoutWish, OpenOptions};
use trireme_proto::message::meta::{Kind as MetaKind, SetAttr, SetTime, Time};

const ENOENT: i32 = 2;

/// Everything a copy needs to know.
pub struct World {
    pub cluster: Cluster,
    pub wish: LayoutWish,
    pub sync: bool,
}

/// What a name is.
pub struct Info {
    pub kind: Kind,
    pub size: u64,
    pub mode: u32,
    pub mtime: Time,
}

#[derive(PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    Symlink(Vec<u8>),
    Other,
}

/// An open file at either end.
pub enum Open {
    Local(std::fs::File),
    Cluster(trireme::File),
}

impl World {
    /// What a name is; `None` when nothing has it.
    pub fn info(&self, name: &Name, follow: bool) -> anyhow::Result<Option<Info>> {
        match name {
            Name::Local(path) => {
                let metadata = if follow {
                    path.metadata()
                } else {
                    path.symlink_metadata()
                };
                match metadata {
                    Ok(metadata) => local_info(path, &metadata).map(Some),
                    Err(error) if error.raw_os_error() == Some(ENOENT) => Ok(None),
                    Err(error) => Err(error).with_context(|| name.to_string()),
                }
            }
            Name::Cluster(path) => {
                let entry = if follow {
                    self.cluster.stat(path)
                } else {
                    self.cluster.lstat(path)
                };
                match entry {
                    Ok(entry) => self.cluster_info(path.clone(), &entry.attr).map(Some),
                    Err(error) if error.errno() == ENOENT => Ok(None),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    fn cluster_info(
        &self,
        path: PathBuf,
        attr: &trireme_proto::message::meta::Attr,
    ) -> anyhow::Result<Info> {
        let kind = match attr.kind {
            MetaKind::File => Kind::File,
            MetaKind::Directory => Kind::Directory,
            MetaKind::Symlink => Kind::Symlink(self.cluster.namespace().read_link(path)?),
            _ => Kind::Other,
        };
        Ok(Info {
            kind,
            size: attr.size,
            mode: attr.mode,
            mtime: attr.mtime,
        })
    }

    /// Entries of a directory.
    pub fn list(&self, name: &Name) -> anyhow::Result<Vec<(OsString, Info)>> {
        match name {
            Name::Local(path) => {
                let mut entries = Vec::new();
                for entry in path.read_dir().with_context(|| name.to_string())? {
                    let entry = entry.with_context(|| name.to_string())?;
                    let info = local_info(&entry.path(), &entry.metadata()?)?;
                    entries.push((entry.file_name(), info));
                }
                entries.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(entries)
            }
            Name::Cluster(path) => {
                let mut entries = Vec::new();
                for entry in self.cluster.read_dir(path)? {
                    let Some(attr) = &entry.attr else { continue };
                    let name = OsString::from_vec(entry.name);
                    let info = self.cluster_info(path.join(&name), attr)?;
                    entries.push((name, info));
                }
                Ok(entries)
            }
        }
    }

    /// Makes a directory that may exist.
    pub fn make_directory(&self, name: &Name, mode: u32) -> anyhow::Result<()> {
        match name {
            Name::Local(path) => {
                std::fs::create_dir_all(path).with_context(|| format!("make {name}"))
            }
            // Writable for us until its own mode is set at the end.
            Name::Cluster(path) => make_all(&self.cluster.namespace(), path, mode | 0o700),
        }
    }

    /// Sets a directory's mode and time.
    pub fn set_directory(&self, name: &Name, mode: u32, mtime: Time) -> anyhow::Result<()> {
        match name {
            Name::Local(path) => std::fs::File::open(path)
                .and_then(|dir| {
                    dir.set_permissions(std::fs::Permissions::from_mode(mode))?;
                    dir.set_modified(to_system(mtime))
                })
                .with_context(|| name.to_string()),
            Name::Cluster(path) => self.set_cluster(path, mode, mtime),
        }
    }

    fn set_cluster(&self, path: &std::path::Path, mode: u32, mtime: Time) -> anyhow::Result<()> {
        let set = SetAttr {
            mode: Some(mode & 0o7777),
            mtime: Some(SetTime::To(mtime)),
            ..SetAttr::default()
        };
        let place = trireme::namespace::place(path);
        self.cluster.namespace().set_attr(place, true, set)?;
        Ok(())
    }

    /// Makes a symbolic link, replacing one that is there.
    pub fn make_symlink(&self, name: &Name, target: &[u8]) -> anyhow::Result<()> {
        match name {
            Name::Local(path) => {
                if path.is_symlink() {
                    std::fs::remove_file(path)?;
                }
                std::os::unix::fs::symlink(OsStr::from_bytes(target), path)
                    .with_context(|| format!("make the link {name}"))
            }
            Name::Cluster(path) => {
                let namespace = self.cluster.namespace();
                if namespace
                    .lstat(path)
                    .is_ok_and(|e| e.attr.kind == MetaKind::Symlink)
                {
                    namespace.unlink(path)?;
                }
                namespace
                    .symlink(OsStr::from_bytes(target), path)
                    .with_context(|| format!("make the link {name}"))?;
                Ok(())
            }
        }
    }

    /// Opens a source.
    pub fn open(&self, name: &Name) -> anyhow::Result<Open> {
        Ok(match name {
            Name::Local(path) => {
                Open::Local(std::fs::File::open(path).with_context(|| name.to_string())?)
            }
            Name::Cluster(path) => Open::Cluster(self.cluster.open(path.as_os_str().as_bytes())?),
        })
    }

    /// Opens a part for writing, made if need be.
    pub fn open_part(&self, name: &Name) -> anyhow::Result<Open> {
        Ok(match name {
            Name::Local(path) => Open::Local(
                std::fs::File::options()
                    .write(true)
                    .create(true)
                    .truncate(false)
                    .mode(0o600)
                    .open(path)
                    .with_context(|| format!("make {name}"))?,
            ),
            Name::Cluster(path) => Open::Cluster(
                OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .mode(0o600)
                    .layout(self.wish.clone())
                    .open(&self.cluster, path.as_os_str().as_bytes())?,
            ),
        })
    }

    /// Gives a whole part its mode, time and real name.
    pub fn publish(
        &self,
        part: &Name,
        open: Open,
        to: &Name,
        mode: u32,
        mtime: Time,
    ) -> anyhow::Result<()> {
        match (part, open, to) {
            (Name::Local(part), Open::Local(file), Name::Local(to)) => {
                file.set_permissions(std::fs::Permissions::from_mode(mode & 0o7777))?;
                file.set_modified(to_system(mtime))?;
                if self.sync {
                    file.sync_all()?;
                }
                std::fs::rename(part, to).with_context(|| format!("rename to {}", to.display()))?;
                if self.sync {
                    let parent = to.parent().filter(|p| !p.as_os_str().is_empty());
                    std::fs::File::open(parent.unwrap_or(std::path::Path::new(".")))?.sync_all()?;
                }
                Ok(())
            }
            (Name::Cluster(part), Open::Cluster(file), Name::Cluster(to)) => {
                if self.sync {
                    file.sync()?;
                }
                file.close()?;
                self.set_cluster(part, mode, mtime)?;
                self.cluster.namespace().rename(part, to)?;
                Ok(())
            }
            _ => anyhow::bail!("a part and its file are at the same end"),
        }
    }
}

fn local_info(path: &std::path::Path, metadata: &std::fs::Metadata) -> anyhow::Result<Info> {
    let kind = if metadata.is_file() {
        Kind::File
    } else if metadata.is_dir() {
        Kind::Directory
    } else if metadata.is_symlink() {
        let target = path
            .read_link()
            .with_context(|| path.display().to_string())?;
        Kind::Symlink(target.into_os_string().into_vec())
    } else {
        Kind::Other
    };
    Ok(Info {
        kind,
        size: metadata.len(),
        mode: metadata.permissions().mode() & 0o7777,
        mtime: from_system(metadata.modified()?),
    })
}

impl Open {
    /// Reads at an offset; fewer bytes than asked only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> anyhow::Result<usize> {
        match self {
            Open::Local(file) => {
                let mut got = 0;
                while got < buffer.len() {
                    match file.read_at(&mut buffer[got..], offset + got as u64) {
                        Ok(0) => break,
                        Ok(more) => got += more,
                        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                Ok(got)
            }
            Open::Cluster(file) => Ok(file.read_at(buffer, offset)?),
        }
    }

    /// Writes at an offset.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> anyhow::Result<()> {
        match self {
            Open::Local(file) => Ok(file.write_all_at(buffer, offset)?),
            Open::Cluster(file) => Ok(file.write_at(buffer, offset)?),
        }
    }

    /// Its size now.
    pub fn size(&self) -> anyhow::Result<u64> {
        Ok(match self {
            Open::Local(file) => file.metadata()?.len(),
            Open::Cluster(file) => file.size()?,
        })
    }

    /// Cuts it.
    pub fn truncate(&self, size: u64) -> anyhow::Result<()> {
        match self {
            Open::Local(file) => file.set_len(size)?,
            Open::Cluster(file) => file.set_len(size)?,
        }
        Ok(())
    }
}
