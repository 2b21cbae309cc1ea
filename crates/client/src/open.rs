//! Opening and creating files.

use trireme_proto::message::meta::{LayoutWish, OpenMode, Place};

use crate::{Cluster, Error, File, Result};

/// How to open a file; like [`std::fs::OpenOptions`], with a layout for new files.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    mode: Option<u32>,
    layout: LayoutWish,
}

impl OpenOptions {
    /// Nothing wanted yet.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// For reading.
    pub fn read(&mut self, yes: bool) -> &mut OpenOptions {
        self.read = yes;
        self
    }

    /// For writing.
    pub fn write(&mut self, yes: bool) -> &mut OpenOptions {
        self.write = yes;
        self
    }

    /// Make the file if it is not there.
    pub fn create(&mut self, yes: bool) -> &mut OpenOptions {
        self.create = yes;
        self
    }

    /// Make the file, which must not be there.
    pub fn create_new(&mut self, yes: bool) -> &mut OpenOptions {
        self.create_new = yes;
        self
    }

    /// Cut an existing file to nothing.
    pub fn truncate(&mut self, yes: bool) -> &mut OpenOptions {
        self.truncate = yes;
        self
    }

    /// Permission bits of a new file. The default is 0644, or as much of 0666 as the directory's default
    /// access control list gives.
    pub fn mode(&mut self, mode: u32) -> &mut OpenOptions {
        self.mode = Some(mode);
        self
    }

    /// Layout of a new file; what it leaves open is inherited from the directory.
    pub fn layout(&mut self, layout: LayoutWish) -> &mut OpenOptions {
        self.layout = layout;
        self
    }

    /// Opens `path` on `cluster`.
    pub fn open(&self, cluster: &Cluster, path: impl AsRef<[u8]>) -> Result<File> {
        let path = path.as_ref();
        let (mode, umask) = self.mode.map_or((0o666, 0o022), |mode| (mode, 0));
        let create = (self.create || self.create_new).then(|| (mode, self.layout.clone()));
        let access = OpenMode {
            read: self.read,
            write: self.write,
        };
        let opened = cluster
            .namespace()
            .masking(umask)
            .open(Place::path(path), access, create, self.create_new)
            .map_err(|source| Error::At {
                path: String::from_utf8_lossy(path).into_owned(),
                source,
            })?
            .opened;
        let created = opened.created;
        let file = File::new(cluster, opened)?;
        if self.truncate && !created {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

impl Cluster {
    /// Opens a file for reading.
    pub fn open(&self, path: impl AsRef<[u8]>) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for reading and writing, new or cut to nothing.
    pub fn create(&self, path: impl AsRef<[u8]>) -> Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }
}

impl File {
    /// Sets the size: what is beyond is gone, what is new is zero.
    pub fn set_len(&self, size: u64) -> Result<()> {
        let cluster = &self.inner.cluster;
        let place = Place::inode(self.inode());
        let open = Some(self.inner.opened.open);
        cluster.namespace().truncate(place, size, open)?;
        self.inner.truncated(size);
        Ok(())
    }
}
