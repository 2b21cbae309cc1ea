//! The value format: a version byte, then postcard.

use crate::acl::Acl;
use crate::failure::{Errno, Failure};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::sync::Arc;
use trireme_proto::message::meta::{Attr, ClusterMap, Entry, Kind, Layout, LayoutWish, Time};

/// Version byte of every value. A newer one is refused, never guessed at.
pub const FORMAT: u8 = 1;

/// In a stored mode, above the bits of `stat`: the inode has an access control list, which is kept as an
/// extended attribute. So an inode without one, which most are, costs no look for it.
pub const HAS_ACL: u32 = 1 << 16;
/// The same for the list that what is made in a directory inherits.
pub const HAS_DEFAULT_ACL: u32 = 1 << 17;

/// Likewise: the file may take another space than its size says.
pub const SPARSE: u32 = 1 << 18;

/// The file system itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Super {
    /// Identity of the cluster.
    pub cluster: u64,
    /// Keys the directory hash ([`crate::key::home_slot`]).
    pub secret: [u8; 32],
    /// When it was made.
    pub born: Time,
}

/// Next inode number and how many are in use.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Counters {
    /// The next number to give out.
    pub next: u64,
    /// Inodes in use, unlinked ones that still have subfiles included.
    pub live: u64,
}

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// What it is.
    pub kind: Kind,
    /// Permission, set-id and sticky bits, which lists it has ([`HAS_ACL`], [`HAS_DEFAULT_ACL`]) and whether
    /// it is [`SPARSE`].
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names.
    pub nlink: u32,
    /// Bytes (file), entries (directory), length of the target (symbolic link).
    pub size: u64,
    /// The size of a file is what this record says; false while somebody may be writing.
    pub settled: bool,
    /// Somebody has had it open for writing: there may be subfiles.
    pub touched: bool,
    /// Device number.
    pub rdev: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
    /// The rest, which depends on the kind.
    pub body: Body,
    /// Its access control list, where [`crate::namespace::inode`] found that it has one.
    #[serde(skip)]
    pub acl: Option<Box<Acl>>,
}

/// What only some kinds have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Where a file's bytes are.
    File(Layout),
    /// A directory.
    Directory {
        /// Where `..` leads.
        parent: u64,
        /// What is inherited by what is created below.
        wish: LayoutWish,
    },
    /// Target of a symbolic link.
    Symlink(Vec<u8>),
    /// FIFO, socket, device.
    Node,
}

impl Inode {
    /// What `stat` tells.
    pub fn attr(&self, inode: u64) -> Attr {
        Attr {
            inode,
            kind: self.kind,
            mode: self.mode & 0o7777,
            nlink: self.nlink,
            uid: self.uid,
            gid: self.gid,
            size: self.size,
            settled: self.settled,
            listed: self.mode & (HAS_ACL | HAS_DEFAULT_ACL) != 0,
            sparse: self.mode & SPARSE != 0,
            stored: 0,
            rdev: self.rdev,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.btime,
        }
    }

    /// Attributes and layout.
    pub fn entry(&self, inode: u64) -> Entry {
        Entry {
            attr: self.attr(inode),
            layout: self.layout().cloned(),
        }
    }

    /// The layout of a file.
    pub fn layout(&self) -> Option<&Layout> {
        match &self.body {
            Body::File(layout) => Some(layout),
            _ => None,
        }
    }

    /// True for directories.
    pub fn is_directory(&self) -> bool {
        self.kind == Kind::Directory
    }
}

/// A directory entry. The name is here and not in the key, see `namespace::directory`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Slot {
    /// A name.
    Used {
        /// The name.
        name: Vec<u8>,
        /// What it names.
        inode: u64,
        /// What that is.
        kind: Kind,
    },
    /// Removed, but a name that had to move on lives behind it.
    Tombstone,
}

/// Something to do on the I/O servers; also says so after a crash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Todo {
    /// The file has no name any more: remove its subfiles, then the inode.
    Remove,
    /// Cut or extend all subfiles to what this file size gives.
    Truncate(u64),
    /// The file has had no name yet: as `Remove`, unless it gets one first.
    Unnamed,
}

impl Todo {
    /// The file goes when nobody has it open.
    pub fn removes(&self) -> bool {
        matches!(self, Self::Remove | Self::Unnamed)
    }
}

/// Encodes a record.
pub fn encode<T: Serialize>(record: &T) -> Arc<[u8]> {
    let bytes = postcard::to_extend(record, vec![FORMAT]).expect("records always encode");
    bytes.into()
}

/// Decodes a record; `what` names it should it be damaged.
pub fn decode<T: DeserializeOwned>(
    what: impl std::fmt::Display,
    bytes: &[u8],
) -> Result<T, Failure> {
    let (version, body) = bytes.split_first().unwrap_or((&0, &[]));
    let broken = |why: String| Failure {
        errno: Errno::Io,
        what: format!("{what}: {why}"),
    };
    if *version != FORMAT {
        return Err(broken(format!(
            "stored in format {version}, this program reads {FORMAT}; use a matching version"
        )));
    }
    postcard::from_bytes(body).map_err(|e| broken(format!("damaged record ({e}); run fsck")))
}

/// The cluster map is stored as it is sent.
pub type Map = ClusterMap;
