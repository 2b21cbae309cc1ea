//! The namespace half of the client: everything that is about names and attributes.
//!
//! A [`Namespace`] talks to the metadata manager over a pool of connections; it can be used from
//! many threads at once. Every call has a deadline. A call that changes something carries a number
//! under which the manager carries it out at most once, so a call whose answer was lost (the
//! manager died and came back) is simply sent again. After such a restart the namespace opens
//! again what was open and reclaims its locks.
//!
//! It does not know of file contents: for a file that is being written, `stat` is finished by
//! asking the I/O servers for the size ([`trireme_proto::message::meta::Attr::settled`]).

mod lock;
mod many;
mod open;
mod serial;

pub use lock::Locked;
pub use many::IN_FLIGHT;
pub use open::OpenFile;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trireme_net::{Deadline, Endpoint, Identity, NetError, Pool};
use trireme_proto::message::meta::{
    Attr, Call, Caller, CheckReport, ClusterMap, DirEntry, Entry, LayoutWish, Life, Making, Node,
    Place, READDIR_LIMIT, RETRY_SECONDS, RenameMode, Request, Response, SetAttr, SetTime, StatFs,
    XattrMode,
};
use trireme_proto::{Key, Op, Refusal, key::Grant, limits};

/// A connection to the metadata manager. Cheap to clone; all clones share connections, open
/// files and locks.
#[derive(Clone)]
pub struct Namespace {
    shared: Arc<Shared>,
    call_time: Duration,
    caller: Option<Caller>,
    soft: bool,
    making: Making,
}

struct Shared {
    pool: Pool,
    serials: serial::Serials,
    state: open::State,
    // The manager that knows our openings and locks.
    known: AtomicU64,
}

impl std::fmt::Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Namespace({})", self.shared.pool.endpoint())
    }
}

/// A path as the manager takes it: bytes, from the root.
pub fn place(path: impl AsRef<Path>) -> Place {
    Place::path(path.as_ref().as_os_str().as_bytes())
}

fn unexpected() -> NetError {
    NetError::Refused {
        peer: "the metadata manager".into(),
        source: Refusal::protocol("the answer does not fit the question; are versions mixed?"),
    }
}

/// Takes the one kind of answer that fits, or says that versions are mixed.
macro_rules! answer {
    ($result:expr, $pattern:pat => $value:expr) => {
        match $result {
            $pattern => Ok($value),
            _ => Err(unexpected()),
        }
    };
}
use answer;

impl Namespace {
    /// Prepares to talk to the manager at `endpoint`; connects with the first call.
    pub fn new(endpoint: Endpoint, key: Key, identity: Identity) -> Namespace {
        Namespace {
            shared: Arc::new(Shared {
                pool: Pool::new(endpoint, key, identity),
                serials: serial::Serials::default(),
                state: open::State::default(),
                known: AtomicU64::new(0),
            }),
            call_time: limits::CALL_TIME,
            caller: None,
            soft: false,
            making: Making::default(),
        }
    }

    /// The same with another deadline per call.
    pub fn with_call_time(&self, call_time: Duration) -> Namespace {
        Namespace {
            call_time,
            ..self.clone()
        }
    }

    /// The same on behalf of somebody else; the manager allows that to root and the owner.
    pub fn acting_as(&self, caller: Caller) -> Namespace {
        Namespace {
            caller: Some(caller),
            ..self.clone()
        }
    }

    /// The same whose changes are answered before they are safe from a power cut, as those of a local
    /// file system are; [`Namespace::sync`] makes them so.
    pub fn softly(&self, soft: bool) -> Namespace {
        Namespace {
            soft,
            ..self.clone()
        }
    }

    /// The same that masks these permission bits out of the modes of what it makes, unless the directory
    /// has a default access control list. By default nothing is masked, whatever the process's umask.
    pub fn masking(&self, umask: u32) -> Namespace {
        Namespace {
            making: Making {
                umask,
                ..self.making
            },
            ..self.clone()
        }
    }

    /// The same whose new files are on one server each, unless their directory hands a layout down. By default
    /// they are spread over all servers.
    pub fn keeping_whole(&self, whole: bool) -> Namespace {
        Namespace {
            making: Making {
                whole,
                ..self.making
            },
            ..self.clone()
        }
    }

    /// Makes all changes so far safe from a power cut.
    pub fn sync(&self) -> Result<(), NetError> {
        answer!(self.ask(Request::Sync)?, Response::Done => ())
    }

    /// How long a call may take.
    pub fn call_time(&self) -> Duration {
        self.call_time
    }

    /// Asks something that can be asked twice.
    pub fn ask(&self, request: Request) -> Result<Response, NetError> {
        self.ask_as(self.caller.clone(), request)
    }

    /// Asks on behalf of a caller (a mount's): something that can be asked twice.
    pub fn ask_as(&self, caller: Option<Caller>, request: Request) -> Result<Response, NetError> {
        self.send(
            &Call {
                caller,
                serial: 0,
                soft: self.soft,
                making: self.making,
                request,
            },
            Deadline::after(self.call_time),
        )
    }

    /// Asks for a change, which is carried out at most once.
    pub fn change(&self, request: Request) -> Result<Response, NetError> {
        self.change_as(self.caller.clone(), request)
    }

    /// Asks for a change on behalf of a caller (a mount's).
    pub fn change_as(
        &self,
        caller: Option<Caller>,
        request: Request,
    ) -> Result<Response, NetError> {
        let retry = Duration::from_secs(RETRY_SECONDS);
        let deadline = Deadline::after(self.call_time.min(retry));
        let number = self.shared.serials.take();
        self.send(
            &Call {
                caller,
                serial: number.serial(),
                soft: self.soft,
                making: self.making,
                request,
            },
            deadline,
        )
    }

    fn send(&self, call: &Call, deadline: Deadline) -> Result<Response, NetError> {
        let result = self.shared.pool.call(Op::META, call, deadline);
        self.notice_restart();
        result
    }

    /// After a restart of the manager: open again what was open, reclaim locks.
    fn notice_restart(&self) {
        let incarnation = self.shared.pool.incarnation();
        let known = self.shared.known.swap(incarnation, Ordering::SeqCst);
        if known != 0 && known != incarnation {
            self.recover();
        }
    }

    /// What a path names; follows a symbolic link at its end.
    pub fn stat(&self, path: impl AsRef<Path>) -> Result<Entry, NetError> {
        self.lookup(place(path), true)
    }

    /// What a path names; a symbolic link is itself.
    pub fn lstat(&self, path: impl AsRef<Path>) -> Result<Entry, NetError> {
        self.lookup(place(path), false)
    }

    /// What a place names.
    pub fn lookup(&self, place: Place, follow: bool) -> Result<Entry, NetError> {
        answer!(self.ask(Request::Lookup { place, follow })?, Response::Entry(entry) => entry)
    }

    /// Attributes of an inode.
    pub fn attr(&self, inode: u64) -> Result<Attr, NetError> {
        answer!(self.ask(Request::GetAttr { inode })?, Response::Attr(attr) => attr)
    }

    /// Makes a node of any kind.
    pub fn create(&self, place: Place, mode: u32, node: Node) -> Result<Entry, NetError> {
        let request = Request::Create { place, mode, node };
        answer!(self.change(request)?, Response::Entry(entry) => entry)
    }

    /// Makes a directory.
    pub fn mkdir(&self, path: impl AsRef<Path>, mode: u32) -> Result<Entry, NetError> {
        self.create(place(path), mode, Node::Directory)
    }

    /// Makes a symbolic link.
    pub fn symlink(
        &self,
        target: impl AsRef<Path>,
        path: impl AsRef<Path>,
    ) -> Result<Entry, NetError> {
        let target = target.as_ref().as_os_str().as_bytes().to_vec();
        self.create(place(path), 0o777, Node::Symlink(target))
    }

    /// Gives a file one more name.
    pub fn link(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<Entry, NetError> {
        let request = Request::Link {
            from: place(from),
            to: place(to),
        };
        answer!(self.change(request)?, Response::Entry(entry) => entry)
    }

    /// Removes a name that is not a directory.
    pub fn unlink(&self, path: impl AsRef<Path>) -> Result<(), NetError> {
        answer!(self.change(Request::Unlink { place: place(path) })?, Response::Done => ())
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, path: impl AsRef<Path>) -> Result<(), NetError> {
        answer!(self.change(Request::Rmdir { place: place(path) })?, Response::Done => ())
    }

    /// Moves a name, replacing what stands at the target, atomically.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), NetError> {
        self.rename_with(from, to, RenameMode::Replace)
    }

    /// Moves or exchanges names, atomically.
    pub fn rename_with(
        &self,
        from: impl AsRef<Path>,
        to: impl AsRef<Path>,
        mode: RenameMode,
    ) -> Result<(), NetError> {
        let request = Request::Rename {
            from: place(from),
            to: place(to),
            mode,
        };
        answer!(self.change(request)?, Response::Done => ())
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, NetError> {
        let request = Request::ReadLink { place: place(path) };
        answer!(self.ask(request)?, Response::Bytes(target) => target)
    }

    /// All entries of a directory, with attributes, in the manager's order.
    pub fn read_dir(&self, path: impl AsRef<Path>) -> Result<Vec<DirEntry>, NetError> {
        let place = place(path);
        let mut all = Vec::new();
        let mut after = 0;
        loop {
            let (entries, end) = self.read_dir_page(place.clone(), after, true)?;
            after = entries.last().map_or(after, |entry| entry.cookie);
            all.extend(entries);
            if end {
                return Ok(all);
            }
        }
    }

    /// Entries behind the cookie `after`, and whether there are no more.
    pub fn read_dir_page(
        &self,
        place: Place,
        after: u64,
        plus: bool,
    ) -> Result<(Vec<DirEntry>, bool), NetError> {
        let request = Request::ReadDir {
            place,
            after,
            limit: READDIR_LIMIT,
            plus,
        };
        answer!(self.ask(request)?, Response::Directory { entries, end, .. } => (entries, end))
    }

    /// Changes attributes.
    pub fn set_attr(&self, place: Place, follow: bool, set: SetAttr) -> Result<Entry, NetError> {
        let request = Request::SetAttr { place, follow, set };
        answer!(self.change(request)?, Response::Entry(entry) => entry)
    }

    /// Sets permission, set-id and sticky bits.
    pub fn chmod(&self, path: impl AsRef<Path>, mode: u32) -> Result<Entry, NetError> {
        self.set_attr(
            place(path),
            true,
            SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            },
        )
    }

    /// Sets owner and group.
    pub fn chown(
        &self,
        path: impl AsRef<Path>,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<Entry, NetError> {
        self.set_attr(
            place(path),
            true,
            SetAttr {
                uid,
                gid,
                ..SetAttr::default()
            },
        )
    }

    /// Sets access and modification time.
    pub fn utimes(
        &self,
        path: impl AsRef<Path>,
        atime: Option<SetTime>,
        mtime: Option<SetTime>,
    ) -> Result<Entry, NetError> {
        self.set_attr(
            place(path),
            true,
            SetAttr {
                atime,
                mtime,
                ..SetAttr::default()
            },
        )
    }

    /// Sets what files created below a directory inherit.
    pub fn set_layout(
        &self,
        directory: impl AsRef<Path>,
        wish: LayoutWish,
    ) -> Result<Entry, NetError> {
        let set = SetAttr {
            layout: Some(wish),
            ..SetAttr::default()
        };
        self.set_attr(place(directory), true, set)
    }

    /// Value of an extended attribute.
    pub fn get_xattr(&self, path: impl AsRef<Path>, name: &str) -> Result<Vec<u8>, NetError> {
        let request = Request::GetXattr {
            place: place(path),
            name: name.into(),
        };
        answer!(self.ask(request)?, Response::Bytes(value) => value)
    }

    /// Sets an extended attribute.
    pub fn set_xattr(
        &self,
        path: impl AsRef<Path>,
        name: &str,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<(), NetError> {
        let (place, name, value) = (place(path), name.into(), value.to_vec());
        let request = Request::SetXattr {
            place,
            name,
            value,
            mode,
        };
        answer!(self.change(request)?, Response::Done => ())
    }

    /// Names of the extended attributes.
    pub fn list_xattr(&self, path: impl AsRef<Path>) -> Result<Vec<Vec<u8>>, NetError> {
        let request = Request::ListXattr { place: place(path) };
        answer!(self.ask(request)?, Response::Names(names) => names)
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, path: impl AsRef<Path>, name: &str) -> Result<(), NetError> {
        let request = Request::RemoveXattr {
            place: place(path),
            name: name.into(),
        };
        answer!(self.change(request)?, Response::Done => ())
    }

    /// Counts of the namespace.
    pub fn statfs(&self) -> Result<StatFs, NetError> {
        answer!(self.ask(Request::StatFs)?, Response::StatFs(counts) => counts)
    }

    /// Who serves what.
    pub fn map(&self) -> Result<ClusterMap, NetError> {
        answer!(self.ask(Request::Map)?, Response::Map(map) => map)
    }

    /// Tells the manager where an I/O server is.
    pub fn register(
        &self,
        server: trireme_proto::message::meta::ServerInfo,
    ) -> Result<ClusterMap, NetError> {
        answer!(self.ask(Request::Register { server })?, Response::Map(map) => map)
    }

    /// Grants that let their holder ask the I/O servers for the sizes of files.
    pub fn inspect(&self, inodes: Vec<u64>) -> Result<Vec<Grant>, NetError> {
        answer!(self.ask(Request::Inspect { inodes })?, Response::Grants(grants) => grants)
    }

    /// Grants for listing whole servers and removing strays (`fsck`).
    pub fn admin(&self, inodes: Vec<u64>) -> Result<Vec<Grant>, NetError> {
        answer!(self.ask(Request::Admin { inodes })?, Response::Grants(grants) => grants)
    }

    /// Which of these inode numbers belong to somebody.
    pub fn life(&self, inodes: Vec<u64>) -> Result<Vec<Life>, NetError> {
        answer!(self.ask(Request::Life { inodes })?, Response::Life(lives) => lives)
    }

    /// Checks the namespace.
    pub fn check(&self, repair: bool) -> Result<CheckReport, NetError> {
        let call = Call {
            caller: None,
            serial: 0,
            soft: self.soft,
            making: self.making,
            request: Request::Check { repair },
        };
        // Reads everything: a large namespace takes its time.
        let deadline = Deadline::after(self.call_time.max(Duration::from_mins(10)));
        answer!(self.send(&call, deadline)?, Response::Check(report) => report)
    }

    /// Works off the to-do list; gives how many entries are left.
    pub fn reap(&self) -> Result<u64, NetError> {
        answer!(self.ask(Request::Reap)?, Response::Pending(left) => left)
    }
}
