//! What clients and I/O servers say to the metadata manager, and its answers.
//!
//! One [`Call`] per frame ([`Op::META`](crate::Op::META)), answered by a frame with the same id
//! whose body is a [`Response`] or, refused, a [`Refusal`](crate::Refusal); many calls may be in
//! flight on one connection and answers may overtake each other.
//!
//! The interface is built on inodes, as a mount needs it. Every call that takes a name takes a
//! [`Place`]: a directory inode plus a path below it. A mount passes one component, the library
//! passes `ROOT` and the whole path, so that any operation costs one round trip.
//!
//! * names: [`Request::Lookup`], [`Request::Create`] (all node kinds), [`Request::Link`],
//!   [`Request::Unlink`], [`Request::Rmdir`], [`Request::Rename`], [`Request::ReadDir`],
//!   [`Request::ReadLink`]
//! * inodes: [`Request::GetAttr`], [`Request::SetAttr`], [`Request::Truncate`], xattrs
//! * open files: [`Request::Open`] and [`Request::OpenUnnamed`] give an [`Opened`] with the layout and the grant that the I/O
//!   servers accept; [`Request::Report`] tells the manager what was written; [`Request::Close`]
//! * locks: [`Request::Lock`] (may be answered later, when the lock is free, but within [`LOCK_WAIT_MS`])
//! * the cluster: [`Request::Map`], [`Request::Register`], [`Request::StatFs`], [`Request::Check`]
//!
//! An open file, a lock and the right to keep an unlinked file alive belong to the client (the
//! number in its hello, the same on all its connections). They live while one of its connections
//! lives and for [`LEASE_SECONDS`] after the last one broke. A manager that restarted shows another
//! incarnation in its replies; the client then opens again ([`Request::Reopen`]) and reclaims its
//! locks within that time.

mod cluster;
mod inode;

pub use cluster::{CheckReport, ClusterMap, Life, Problem, ServerInfo, StatFs};
pub use inode::{
    Attr, DirEntry, Entry, Kind, Layout, LayoutWish, Node, OpenMode, Opened, Place, RenameMode,
    SetAttr, SetTime, Time, XattrMode,
};

use crate::key::Grant;
use serde::{Deserialize, Serialize};

/// Inode number of the root directory.
pub const ROOT: u64 = 1;
/// Longest that the manager keeps a request for a lock unanswered: shorter than any sensible deadline
/// of a call. Who wants to wait longer asks again.
pub const LOCK_WAIT_MS: u32 = 5000;
/// Longest name of one directory entry in bytes: what every Unix promises.
pub const NAME_MAX: usize = 255;
/// Longest path in bytes, as Linux' `PATH_MAX` without its NUL.
pub const PATH_LIMIT: usize = 4095;
/// Most symbolic links followed in one path, as on Linux.
pub const SYMLINK_LIMIT: u32 = 40;
/// Largest value of one extended attribute, as on Linux.
pub const XATTR_LIMIT: usize = 65_536;
/// Most entries in one `ReadDir` answer: bounds the answer to a few hundred KiB.
pub const READDIR_LIMIT: u32 = 1024;
/// How long a session's open files and locks outlive its last connection.
pub const LEASE_SECONDS: u64 = 30;
/// Calls with a serial number that one client may have in flight.
pub const SERIAL_WINDOW: u64 = 256;
/// A numbered call is repeated no longer than this after it was first sent...
pub const RETRY_SECONDS: u64 = 600;
/// ... so what it gave can be forgotten when its client has had no connection for this long.
pub const CALLS_KEPT_SECONDS: u64 = 3600;
/// Most supplementary groups a caller may carry.
pub const GROUPS_LIMIT: usize = 64;
/// The extended attribute that lets a program have some of root's rights; it goes when the file is
/// written, cut or given away.
pub const CAPABILITY: &[u8] = b"security.capability";
/// Who asks. The manager takes it from the socket's peer credentials where there are any and
/// believes this field only from peers that may speak for others (root, or the cluster's owner).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Effective user.
    pub uid: u32,
    /// Effective group.
    pub gid: u32,
    /// Supplementary groups, at most [`GROUPS_LIMIT`].
    pub groups: Vec<u32>,
}

impl Caller {
    /// True for the user whom permission bits do not stop.
    pub fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// True when `gid` is the caller's group or one of the supplementary ones.
    pub fn in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// A byte range lock request. `owner` tells apart the lock owners of one session (processes for
/// fcntl, open files for flock); `end` is exclusive, `u64::MAX` to the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LockRange {
    /// The file.
    pub inode: u64,
    /// Who holds it within the session.
    pub owner: u64,
    /// True for flock, whose locks do not meet fcntl's.
    pub flock: bool,
    /// First byte.
    pub start: u64,
    /// Behind the last byte.
    pub end: u64,
    /// Exclusive instead of shared.
    pub exclusive: bool,
    /// The process behind the owner, for those who ask who is in the way; says nothing else.
    pub pid: u32,
}

/// What holds for all that a process makes, unless the directory says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Making {
    /// Permission bits that are masked out of modes, unless the directory has a default access control
    /// list: that takes the umask's place.
    pub umask: u32,
    /// A file is on one server, unless the directory hands a layout down.
    pub whole: bool,
}

/// One call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// On whose behalf; `None` is "who the connection is".
    pub caller: Option<Caller>,
    /// Not 0: the manager carries out at most one call with this number for this client, also
    /// across its own restart, and answers a repetition as it answered the first. A client uses
    /// growing numbers and has at most [`SERIAL_WINDOW`] in flight.
    pub serial: u64,
    /// The answer may come before the change is safe from a power cut (never before it is safe from
    /// the manager's death): a mount's calls, which promise no more until `fsync`.
    pub soft: bool,
    /// How what the call makes is made.
    pub making: Making,
    /// What.
    pub request: Request,
}

/// All questions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Resolve a path; `follow` a symbolic link at its end.
    Lookup {
        /// Where.
        place: Place,
        /// Follow a final symbolic link.
        follow: bool,
    },
    /// Attributes of an inode.
    GetAttr {
        /// The inode.
        inode: u64,
    },
    /// Change attributes of what a path (or inode) names.
    SetAttr {
        /// Where.
        place: Place,
        /// Follow a final symbolic link.
        follow: bool,
        /// What to change.
        set: SetAttr,
    },
    /// Make a new node; fails with `EEXIST` when the name is taken.
    Create {
        /// Where.
        place: Place,
        /// Mode bits, [`Making::umask`] not applied.
        mode: u32,
        /// What.
        node: Node,
    },
    /// Open a file, creating it first when `create` says so.
    Open {
        /// Names this opening from now on; chosen by the client, so that asking twice opens once.
        open: u64,
        /// Where; an empty path opens the inode itself.
        place: Place,
        /// Access.
        access: OpenMode,
        /// Create with these mode bits and layout when missing.
        create: Option<(u32, LayoutWish)>,
        /// Fail with `EEXIST` when it exists.
        exclusive: bool,
    },
    /// Re-establish an opening after the manager lost its memory (a restart).
    Reopen {
        /// The number it had, which it gets again.
        open: u64,
        /// The file.
        inode: u64,
        /// Access.
        access: OpenMode,
    },
    /// What happened to an open file's bytes. Durable when answered.
    Report {
        /// The opening.
        open: u64,
        /// End of the furthest byte this opening knows to exist.
        size: u64,
        /// Bytes were written: modification time becomes `when`, or now. Otherwise times stay, as
        /// when they were set by hand after the last write.
        written: bool,
        /// The time of the last write.
        when: Option<Time>,
        /// Nothing more is written through this opening until `Resume`: the last writer to rest
        /// settles the size, as with `Close`.
        rest: bool,
    },
    /// The space that an open file takes may no longer be what its size says.
    Sparse {
        /// The opening, which may write.
        open: u64,
    },
    /// An opening that rested goes on writing.
    Resume {
        /// The opening.
        open: u64,
    },
    /// Give an opening back; the last writer settles the size.
    Close {
        /// The opening.
        open: u64,
        /// As in `Report`; `None` when nothing was written.
        size: Option<u64>,
        /// As in `Report`.
        when: Option<Time>,
    },
    /// Files and directories were read at these times: newer access times are noted, and nothing
    /// else changes.
    Accessed {
        /// Inode numbers and when.
        times: Vec<(u64, Time)>,
    },
    /// Set a file's size, on all I/O servers or (after a crash: later) on all.
    Truncate {
        /// Where.
        place: Place,
        /// The new size.
        size: u64,
        /// An opening for write, which replaces the permission check.
        open: Option<u64>,
    },
    /// One more name for an inode.
    Link {
        /// What; a final symbolic link is not followed.
        from: Place,
        /// The new name.
        to: Place,
    },
    /// Remove a name that is not a directory.
    Unlink {
        /// Where.
        place: Place,
    },
    /// Remove an empty directory.
    Rmdir {
        /// Where.
        place: Place,
    },
    /// Move a name, atomically.
    Rename {
        /// From.
        from: Place,
        /// To.
        to: Place,
        /// What if the target exists.
        mode: RenameMode,
    },
    /// Target of a symbolic link.
    ReadLink {
        /// Where.
        place: Place,
    },
    /// Entries of a directory behind `after` (0: from the start), without `.` and `..`.
    ReadDir {
        /// The directory.
        place: Place,
        /// Cookie of the last entry seen.
        after: u64,
        /// At most so many.
        limit: u32,
        /// With attributes.
        plus: bool,
    },
    /// Value of an extended attribute.
    GetXattr {
        /// Where.
        place: Place,
        /// Name.
        name: Vec<u8>,
    },
    /// Names of the extended attributes.
    ListXattr {
        /// Where.
        place: Place,
    },
    /// Set an extended attribute.
    SetXattr {
        /// Where.
        place: Place,
        /// Name.
        name: Vec<u8>,
        /// Value.
        value: Vec<u8>,
        /// When it exists, or not.
        mode: XattrMode,
    },
    /// Remove an extended attribute.
    RemoveXattr {
        /// Where.
        place: Place,
        /// Name.
        name: Vec<u8>,
    },
    /// Does the caller have these rights (4 read, 2 write, 1 execute)?
    Access {
        /// Where.
        place: Place,
        /// Bits of `access(2)`.
        mask: u32,
    },
    /// Take a lock; `EAGAIN` when somebody else holds it, and still does after `patience_ms`.
    Lock {
        /// What.
        range: LockRange,
        /// Held before the manager restarted: goes before new ones.
        reclaim: bool,
        /// The asker will ask again until it gets the lock; `EDEADLK` when that would never be.
        wait: bool,
        /// How long the answer may wait for the lock, [`LOCK_WAIT_MS`] at most; 0: answer at once.
        patience_ms: u32,
    },
    /// Give a range back.
    Unlock {
        /// What.
        range: LockRange,
    },
    /// Who would be in the way of this lock?
    TestLock {
        /// What.
        range: LockRange,
    },
    /// The cluster map.
    Map,
    /// An I/O server says where it is. Only with the cluster owner's identity.
    Register {
        /// Itself.
        server: ServerInfo,
    },
    /// Makes everything that was answered so far safe from a power cut.
    Sync,
    /// Counts.
    StatFs,
    /// Which of these inode numbers are alive?
    Life {
        /// Inode numbers found on an I/O server.
        inodes: Vec<u64>,
    },
    /// Check the namespace's own consistency; with `repair`, mend what is safe to mend.
    Check {
        /// Change something.
        repair: bool,
    },
    /// Work off the to-do list now and tell how much is left.
    Reap,
    /// A grant for reading a file's size and nothing else that needs no opening: for `stat` of a
    /// file that is being written.
    Inspect {
        /// The files.
        inodes: Vec<u64>,
    },
    /// A grant over whole I/O servers (list, remove), for `fsck`. Only for the cluster's owner.
    Admin {
        /// Files to remove; empty for listing.
        inodes: Vec<u64>,
    },
    /// Make a file without a name and open it; it is gone when nobody has it open, unless it gets a
    /// name by [`Request::Link`] first.
    OpenUnnamed {
        /// As in `Open`.
        open: u64,
        /// The directory, whose rules for new files apply.
        place: Place,
        /// Access; with writing.
        access: OpenMode,
        /// Mode bits, the umask already applied.
        mode: u32,
        /// It may get a name.
        linkable: bool,
    },
}

/// All answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Nothing to tell but success.
    Done,
    /// To `Lookup`, `Create`, `SetAttr`, `Link`, `Truncate`.
    Entry(Entry),
    /// To `GetAttr`, `Report`, and to `Close` of a file that was written.
    Attr(Attr),
    /// To `Lock`.
    Locked {
        /// Some other client has the file open for writing: what is cached of it may be old.
        others: bool,
        /// The inode's last change.
        ctime: Time,
    },
    /// To `Open`, `OpenUnnamed`, `Reopen`.
    Opened(Opened),
    /// To `ReadLink`, `GetXattr`.
    Bytes(Vec<u8>),
    /// To `ListXattr`.
    Names(Vec<Vec<u8>>),
    /// To `ReadDir`; `end` when there is nothing behind.
    Directory {
        /// The directory itself.
        inode: u64,
        /// Its parent, for `..`.
        parent: u64,
        /// Lines.
        entries: Vec<DirEntry>,
        /// No more.
        end: bool,
    },
    /// To `TestLock`: the lock in the way.
    Conflict(Option<LockRange>),
    /// To `Map`, `Register`.
    Map(ClusterMap),
    /// To `StatFs`.
    StatFs(StatFs),
    /// To `Life`, in the order asked.
    Life(Vec<Life>),
    /// To `Check`.
    Check(CheckReport),
    /// To `Inspect` and `Admin`, in the order asked (first, to `Admin`, the grant for file 0).
    Grants(Vec<Grant>),
    /// To `Reap`: how many files wait for their subfiles to be removed.
    Pending(u64),
}
