//! What each request of the kernel means for a cluster: a translation, one file per group of requests.

mod access;
mod acl;
mod attribute;
mod behind;
mod cache;
mod caller;
mod capability;
mod closing;
mod data;
mod directory;
mod handle;
mod later;
mod leaving;
mod lock;
mod name;
mod node;
mod open;
mod passed;
mod reader;
mod refill;
mod removed;
mod sparse;
mod tmpfile;
mod xattr;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trireme::{Cluster, Error, Namespace};
use trireme_net::NetError;
use trireme_proto::message::meta::{self, Caller, Place, ROOT, Response, Time};

use crate::Options;
use crate::kernel::abi::{InHeader, init, op};
use crate::kernel::{FileSystem, Notifier, Reply, Request};
use handle::Handles;
use lock::Waiters;
use node::Nodes;

/// A cluster behind a mount.
pub(crate) struct Fs {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    cluster: Cluster,
    names: Namespace,
    /// The manager lets this process speak for others; otherwise everything is done as its own user.
    trusted: bool,
    ttl: Duration,
    direct: bool,
    no_atime: bool,
    nodes: Nodes,
    handles: Handles,
    early: behind::Quota,
    waiters: Waiters,
    refill: refill::Refill,
    programs: reader::Programs,
    notifier: OnceLock<Notifier>,
    /// The kernel maps files that are open for direct I/O.
    direct_maps: OnceLock<bool>,
    passing: passed::Passing,
    leaving: leaving::Leaving,
    space: attribute::SpaceCache,
    over: std::sync::atomic::AtomicBool,
}

/// What a request gives: an errno when it fails.
type Outcome<T> = Result<T, i32>;

impl Fs {
    pub fn new(cluster: &Cluster, options: &Options) -> trireme::Result<Fs> {
        let names = cluster.namespace();
        let root = Some(Caller::default());
        let question = meta::Request::Lookup {
            place: Place::inode(ROOT),
            follow: false,
        };
        let trusted = match names.ask_as(root, question) {
            Ok(_) => true,
            Err(error) if error.errno() == libc::EPERM => false,
            Err(error) => return Err(error.into()),
        };
        let inner = Arc::new(Inner {
            cluster: cluster.clone(),
            trusted,
            ttl: options.ttl,
            direct: options.direct,
            no_atime: options.no_atime || options.read_only,
            nodes: Nodes::default(),
            handles: Handles::default(),
            early: behind::Quota::default(),
            waiters: Waiters::default(),
            refill: refill::Refill::default(),
            programs: reader::Programs::default(),
            notifier: OnceLock::new(),
            direct_maps: OnceLock::new(),
            passing: passed::Passing::new(options.striped),
            leaving: leaving::Leaving::default(),
            space: attribute::SpaceCache::default(),
            over: std::sync::atomic::AtomicBool::new(false),
            names,
        });
        let entry = inner.entry_of(ROOT).map_err(|errno| {
            Error::Invalid(format!(
                "the root directory cannot be read: {}",
                std::io::Error::from_raw_os_error(errno)
            ))
        })?;
        inner.nodes.note(&entry, 1);
        Ok(Fs { inner })
    }

    /// The kernel shows files of this mount as those of this device.
    pub fn has_device(&self, device: u64) {
        self.inner.leaving.knows_device(device);
    }

    /// The kernel reads this far ahead.
    pub fn reads_ahead(&self, bytes: usize) {
        self.inner.set_read_ahead(bytes);
    }
}

impl FileSystem for Fs {
    fn features(&self) -> u64 {
        init::ASYNC_READ
            | init::POSIX_LOCKS
            | init::EXPORT_SUPPORT
            | init::FLOCK_LOCKS
            | init::EXPLICIT_INVAL_DATA
            | init::DO_READDIRPLUS
            | init::READDIRPLUS_AUTO
            | init::ASYNC_DIO
            | init::PARALLEL_DIROPS
            | init::HANDLE_KILLPRIV_V2
            | init::DIRECT_IO_ALLOW_MMAP
            | init::PASSTHROUGH
            // The umask comes with the request: only the manager knows whether a default list is there.
            | init::POSIX_ACL
            | init::DONT_MASK
    }

    fn started(&self, notifier: Notifier, flags: u64) {
        let _ = self.inner.notifier.set(notifier);
        let maps = flags & init::DIRECT_IO_ALLOW_MMAP != 0;
        let _ = self.inner.direct_maps.set(maps);
        lock::start(&self.inner);
        access::start(&self.inner);
        cache::start(&self.inner);
        refill::start(&self.inner);
        leaving::start(&self.inner);
    }

    fn interrupted(&self, unique: u64) -> bool {
        self.inner.waiters.interrupt(unique)
    }

    fn ended(&self) {
        self.inner
            .over
            .store(true, std::sync::atomic::Ordering::SeqCst);
        self.inner.waiters.end();
        self.inner.refill.end();
        self.inner.end_leaving();
        self.inner.report_accesses(Duration::from_secs(2));
    }

    fn handle(&self, request: Request<'_>, reply: Reply) {
        let fs = &self.inner;
        match request.header.opcode {
            op::LOOKUP => fs.lookup(&request, reply),
            op::FORGET => fs.forget(&request),
            op::BATCH_FORGET => fs.forget_many(&request),
            op::GETATTR => fs.getattr(&request, reply),
            op::STATX => fs.statx(&request, reply),
            op::SETATTR => fs.setattr(&request, reply),
            op::READLINK => fs.readlink(&request, reply),
            op::SYMLINK => fs.symlink(&request, reply),
            op::MKNOD => fs.mknod(&request, reply),
            op::MKDIR => fs.mkdir(&request, reply),
            op::UNLINK => fs.unlink(&request, reply),
            op::RMDIR => fs.rmdir(&request, reply),
            op::RENAME | op::RENAME2 => fs.rename(&request, reply),
            op::LINK => fs.link(&request, reply),
            op::OPEN => fs.open(&request, reply),
            op::CREATE => fs.create(&request, reply),
            op::TMPFILE => fs.tmpfile(&request, reply),
            op::READ => fs.read(&request, reply),
            op::WRITE => fs.write(&request, reply),
            op::FLUSH => fs.flush(&request, reply),
            op::RELEASE => fs.release(&request, reply),
            op::FSYNC => fs.fsync(&request, reply),
            op::FALLOCATE => fs.fallocate(&request, reply),
            op::LSEEK => fs.lseek(&request, reply),
            op::COPY_FILE_RANGE => fs.copy_file_range(&request, reply),
            op::STATFS => fs.statfs(reply),
            op::OPENDIR => fs.opendir(&request, reply),
            op::READDIR => fs.readdir(&request, reply, false),
            op::READDIRPLUS => fs.readdir(&request, reply, true),
            op::RELEASEDIR => fs.releasedir(&request, reply),
            op::FSYNCDIR | op::SYNCFS => {
                let synced = fs.names.sync();
                reply.outcome(synced.map_err(|error| errno(&error)));
            }
            op::SETXATTR => fs.setxattr(&request, reply),
            op::GETXATTR => fs.getxattr(&request, reply),
            op::LISTXATTR => fs.listxattr(&request, reply),
            op::REMOVEXATTR => fs.removexattr(&request, reply),
            op::GETLK => fs.getlk(&request, reply),
            op::SETLK => fs.setlk(&request, reply, false),
            op::SETLKW => fs.setlk(&request, reply, true),
            _ => {
                reply.error(libc::ENOSYS);
            }
        }
    }
}

impl Inner {
    /// Asks as the cluster's root: for what the kernel has checked already.
    fn ask(&self, request: meta::Request) -> Outcome<Response> {
        let caller = self.trusted.then(Caller::default);
        self.names
            .ask_as(caller, request)
            .map_err(|error| errno(&error))
    }

    /// Asks for a change on behalf of whoever made the request.
    fn change(&self, header: &InHeader, request: meta::Request) -> Outcome<Response> {
        self.names
            .change_as(self.caller(header), request)
            .map_err(|error| errno(&error))
    }
}

/// The error number that a program gets. A server that is away is an I/O error, not whatever the
/// socket said.
fn errno(error: &NetError) -> i32 {
    match error {
        NetError::Refused { source, .. } => source.errno,
        NetError::TimedOut { .. } => libc::ETIMEDOUT,
        _ => {
            tracing::warn!("{error}");
            libc::EIO
        }
    }
}

/// The same for errors of the client library.
fn library_errno(error: &Error) -> i32 {
    match error {
        Error::Net(error) | Error::At { source: error, .. } => errno(error),
        other => other.errno(),
    }
}

/// An answer of the wrong kind: versions are mixed.
fn unexpected<T>(_: Response) -> Outcome<T> {
    tracing::error!("the manager's answer does not fit the question; are versions mixed?");
    Err(libc::EPROTO)
}

fn now() -> Time {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        seconds: now.as_secs() as i64,
        nanos: now.subsec_nanos(),
    }
}
