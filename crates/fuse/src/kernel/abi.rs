//! The structures and numbers that the kernel and a FUSE server exchange, as `linux/fuse.h` has them.
//!
//! Names and fields are the kernel's, so that its documentation applies.
#![allow(missing_docs)]

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Version of the protocol; the minor number is the newest whose structures are below.
pub const MAJOR: u32 = 7;
pub const MINOR: u32 = 40;

macro_rules! layouts {
    ($($(#[$note:meta])* struct $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$note])*
            #[derive(Debug, Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
            #[repr(C)]
            pub struct $name { $(pub $field: $type),* }
        )*
    };
}

layouts! {
    struct InHeader { len: u32, opcode: u32, unique: u64, nodeid: u64, uid: u32, gid: u32, pid: u32, total_extlen: u16, padding: u16 }
    struct OutHeader { len: u32, error: i32, unique: u64 }
    struct InitIn { major: u32, minor: u32, max_readahead: u32, flags: u32 }
    struct InitOut { major: u32, minor: u32, max_readahead: u32, flags: u32, max_background: u16, congestion_threshold: u16, max_write: u32, time_gran: u32, max_pages: u16, map_alignment: u16, flags2: u32, max_stack_depth: u32, unused: [u32; 6] }
    struct Attr { ino: u64, size: u64, blocks: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, nlink: u32, uid: u32, gid: u32, rdev: u32, blksize: u32, flags: u32 }
    struct EntryOut { nodeid: u64, generation: u64, entry_valid: u64, attr_valid: u64, entry_valid_nsec: u32, attr_valid_nsec: u32, attr: Attr }
    struct AttrOut { attr_valid: u64, attr_valid_nsec: u32, dummy: u32, attr: Attr }
    struct GetattrIn { getattr_flags: u32, dummy: u32, fh: u64 }
    struct StatxIn { getattr_flags: u32, reserved: u32, fh: u64, sx_flags: u32, sx_mask: u32 }
    struct SxTime { sec: i64, nsec: u32, reserved: i32 }
    struct Statx { mask: u32, blksize: u32, attributes: u64, nlink: u32, uid: u32, gid: u32, mode: u16, spare0: u16, ino: u64, size: u64, blocks: u64, attributes_mask: u64, atime: SxTime, btime: SxTime, ctime: SxTime, mtime: SxTime, rdev_major: u32, rdev_minor: u32, dev_major: u32, dev_minor: u32, spare2: [u64; 14] }
    struct StatxOut { attr_valid: u64, attr_valid_nsec: u32, flags: u32, spare: [u64; 2], stat: Statx }
    struct SetattrIn { valid: u32, padding: u32, fh: u64, size: u64, lock_owner: u64, atime: u64, mtime: u64, ctime: u64, atimensec: u32, mtimensec: u32, ctimensec: u32, mode: u32, unused4: u32, uid: u32, gid: u32, unused5: u32 }
    struct ForgetIn { nlookup: u64 }
    struct ForgetOne { nodeid: u64, nlookup: u64 }
    struct BatchForgetIn { count: u32, dummy: u32 }
    struct MknodIn { mode: u32, rdev: u32, umask: u32, padding: u32 }
    struct MkdirIn { mode: u32, umask: u32 }
    struct RenameIn { newdir: u64 }
    struct Rename2In { newdir: u64, flags: u32, padding: u32 }
    struct LinkIn { oldnodeid: u64 }
    struct OpenIn { flags: u32, open_flags: u32 }
    struct CreateIn { flags: u32, mode: u32, umask: u32, open_flags: u32 }
    struct OpenOut { fh: u64, open_flags: u32, backing_id: i32 }
    struct ReleaseIn { fh: u64, flags: u32, release_flags: u32, lock_owner: u64 }
    struct FlushIn { fh: u64, unused: u32, padding: u32, lock_owner: u64 }
    struct ReadIn { fh: u64, offset: u64, size: u32, read_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    struct WriteIn { fh: u64, offset: u64, size: u32, write_flags: u32, lock_owner: u64, flags: u32, padding: u32 }
    struct WriteOut { size: u32, padding: u32 }
    struct StatfsOut { blocks: u64, bfree: u64, bavail: u64, files: u64, ffree: u64, bsize: u32, namelen: u32, frsize: u32, padding: u32, spare: [u32; 6] }
    struct FsyncIn { fh: u64, fsync_flags: u32, padding: u32 }
    struct SetxattrIn { size: u32, flags: u32 }
    struct GetxattrIn { size: u32, padding: u32 }
    struct GetxattrOut { size: u32, padding: u32 }
    struct FileLock { start: u64, end: u64, kind: u32, pid: u32 }
    struct LkIn { fh: u64, owner: u64, lk: FileLock, lk_flags: u32, padding: u32 }
    struct InterruptIn { unique: u64 }
    struct FallocateIn { fh: u64, offset: u64, length: u64, mode: u32, padding: u32 }
    struct LseekIn { fh: u64, offset: u64, whence: u32, padding: u32 }
    struct LseekOut { offset: u64 }
    struct CopyFileRangeIn { fh_in: u64, off_in: u64, nodeid_out: u64, fh_out: u64, off_out: u64, len: u64, flags: u64 }
    struct Dirent { ino: u64, off: u64, namelen: u32, kind: u32 }
    struct NotifyInvalInode { ino: u64, off: i64, len: i64 }
    struct NotifyStore { nodeid: u64, offset: u64, size: u32, padding: u32 }
    struct NotifyRetrieve { notify_unique: u64, nodeid: u64, offset: u64, size: u32, padding: u32 }
    struct BackingMap { fd: i32, flags: u32, padding: u64 }
    struct RingCommand { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6] }
}

/// What lies before a request's or an answer's bytes in a ring: `fuse_uring_req_header`.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RingHead {
    pub in_out: [u8; 128],
    pub op_in: [u8; 128],
    pub flags: u64,
    pub commit_id: u64,
    pub in_out_size: u32,
    pub padding: u32,
    pub reserved: u64,
}

impl Default for RingHead {
    fn default() -> RingHead {
        RingHead::new_zeroed()
    }
}

impl InHeader {
    /// The same request, made by root: for what the kernel has checked already.
    #[must_use]
    pub fn as_root(self) -> InHeader {
        InHeader {
            uid: 0,
            gid: 0,
            ..self
        }
    }
}

pub mod op {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const NOTIFY_REPLY: u32 = 41;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
}

pub mod init {
    pub const ASYNC_READ: u64 = 1;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const OVER_IO_URING: u64 = 1 << 41;
}

pub mod open {
    pub const DIRECT_IO: u32 = 1;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    pub const PASSTHROUGH: u32 = 1 << 7;
}

pub mod set {
    pub const MODE: u32 = 1;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// A read past the page cache: it comes from a process, not from the kernel's need of pages.
pub const READ_LOCKOWNER: u32 = 1 << 1;
/// The bytes come from the page cache, some time after they were written.
pub const WRITE_CACHE: u32 = 1 << 0;
pub const WRITE_KILL_SUIDGID: u32 = 1 << 2;
pub const OPEN_KILL_SUIDGID: u32 = 1;
pub const LK_FLOCK: u32 = 1;
pub const NOTIFY_INVAL_INODE: i32 = 2;
pub const NOTIFY_STORE: i32 = 4;
pub const NOTIFY_RETRIEVE: i32 = 5;
pub const RING_REGISTER: u32 = 1;
pub const RING_COMMIT_AND_FETCH: u32 = 2;
