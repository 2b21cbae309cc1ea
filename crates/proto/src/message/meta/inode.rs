//! Inodes and names as calls and answers speak of them: attributes, layouts, places, what to make and to change.

use super::ROOT;
use crate::key::Grant;
use serde::{Deserialize, Serialize};

/// A point in time, as `struct timespec`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Time {
    /// Seconds since 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds below one second.
    pub nanos: u32,
}

impl Time {
    /// What the time of content becomes when one hears late of a write at this time: a later write or cut
    /// that was heard of before counts. A time beyond that of the inode was set by hand, before the write.
    #[must_use]
    pub fn or_later_write(self, mtime: Self, ctime: Self) -> Self {
        if self < mtime && mtime <= ctime {
            mtime
        } else {
            self
        }
    }
}

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Kind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    CharDevice,
    BlockDevice,
}

impl Kind {
    /// The file type bits of `st_mode`.
    pub fn mode_bits(self) -> u32 {
        match self {
            Self::File => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
            Self::Fifo => 0o010_000,
            Self::Socket => 0o140_000,
            Self::CharDevice => 0o020_000,
            Self::BlockDevice => 0o060_000,
        }
    }
}

/// How a file's bytes are spread: `Partition::striped(unit, servers.len(), first)`, where part `k`
/// lives on the server with id `servers[k]`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Stripe unit in bytes.
    pub unit: u64,
    /// Ids of the I/O servers, in part order.
    pub servers: Vec<u32>,
    /// The part that holds the first stripe unit.
    pub first: u32,
}

/// What a creator, or a directory for its descendants, wants of a layout; `None` is "as inherited".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutWish {
    /// Stripe unit in bytes.
    pub unit: Option<u64>,
    /// How many servers, the manager chooses which.
    pub count: Option<u32>,
    /// Exactly these servers, in this order.
    pub servers: Option<Vec<u32>>,
    /// The part that holds the first stripe unit; by default files begin on different servers.
    pub first: Option<u32>,
}

impl LayoutWish {
    /// Stripe units that a layout can have; far from where offsets would overflow.
    pub const UNITS: std::ops::RangeInclusive<u64> = 1..=1 << 40;
}

/// What `stat` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attr {
    /// Inode number, never reused.
    pub inode: u64,
    /// What it is.
    pub kind: Kind,
    /// Permission, set-id and sticky bits (07777).
    pub mode: u32,
    /// Names that point here (directories: 2 + subdirectories).
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes; for a file only a lower bound while `settled` is false.
    pub size: u64,
    /// False while somebody may be writing: ask the I/O servers for the size.
    pub settled: bool,
    /// It has access control lists.
    pub listed: bool,
    /// It may have holes, or space beyond its end: ask the I/O servers what it takes.
    pub sparse: bool,
    /// Bytes that it takes, when it is sparse and they were asked.
    #[serde(skip)]
    pub stored: u64,
    /// Device number of device nodes.
    pub rdev: u64,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
}

/// An inode as most calls give it back: attributes and, for files, where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What `stat` tells.
    pub attr: Attr,
    /// The layout of a file.
    pub layout: Option<Layout>,
}

/// A file opened for this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The inode at the time of opening.
    pub entry: Entry,
    /// Names this opening in `Report` and `Close`; as asked.
    pub open: u64,
    /// For the I/O servers.
    pub grant: Grant,
    /// True when this call created the file.
    pub created: bool,
    /// Opened for writing, and it carries [`CAPABILITY`](super::CAPABILITY): whoever writes says so first
    /// ([`Request::Report`](super::Request::Report)), and the manager takes it away.
    pub capability: bool,
}

/// A directory and a path below it; the last component is the name the call is about.
///
/// `..` and symbolic links in the middle are resolved by the manager. Names are bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Where the path starts; a path that begins with `/` starts at the root instead.
    pub base: u64,
    /// The path; empty means `base` itself where that makes sense.
    pub path: Vec<u8>,
}

impl Place {
    /// A path below the root.
    pub fn path(path: impl Into<Vec<u8>>) -> Self {
        Self {
            base: ROOT,
            path: path.into(),
        }
    }

    /// One name in a directory.
    pub fn name(parent: u64, name: impl Into<Vec<u8>>) -> Self {
        Self {
            base: parent,
            path: name.into(),
        }
    }

    /// An inode itself.
    pub fn inode(inode: u64) -> Self {
        Self {
            base: inode,
            path: Vec::new(),
        }
    }
}

/// What to make under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Node {
    /// A regular file with a layout wish.
    File(LayoutWish),
    /// A directory.
    Directory,
    /// A symbolic link and its target.
    Symlink(Vec<u8>),
    /// A FIFO.
    Fifo,
    /// A socket.
    Socket,
    /// A character device number.
    CharDevice(u64),
    /// A block device number.
    BlockDevice(u64),
}

/// What an opener wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenMode {
    /// Read.
    pub read: bool,
    /// Write; until `Close` the size is asked from the I/O servers.
    pub write: bool,
}

/// How a time is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SetTime {
    /// The manager's clock.
    Now,
    /// This.
    To(Time),
}

/// Which attributes to change; `None` leaves one as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttr {
    /// Permission, set-id and sticky bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// What files created below a directory inherit.
    pub layout: Option<LayoutWish>,
    /// Take the set-id bits away that must not outlive a write by somebody else.
    pub strip_set_id: bool,
}

/// `renameat2` flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RenameMode {
    /// Replace what stands at the target, atomically.
    #[default]
    Replace,
    /// Fail with `EEXIST` when the target exists.
    NoReplace,
    /// Swap two existing names.
    Exchange,
    /// As the first two, and a character device 0:0 takes the old name: "nothing is here", to file
    /// systems that are laid over this one.
    Whiteout {
        /// Replace what stands at the target.
        replace: bool,
    },
}

/// One line of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirEntry {
    /// Pass it to continue behind this entry; stays right while others come and go.
    pub cookie: u64,
    /// The name.
    pub name: Vec<u8>,
    /// What it names.
    pub inode: u64,
    /// What that is.
    pub kind: Kind,
    /// Attributes, when asked for.
    pub attr: Option<Attr>,
}

/// How to set an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum XattrMode {
    /// Create or replace.
    #[default]
    Set,
    /// Fail with `EEXIST` when there.
    Create,
    /// Fail with `ENODATA` when not there.
    Replace,
}
