//! The metadata manager without its sockets: calls in, answers out, everything durable in between.
//!
//! Reads are answered on the caller's thread from the cache; changes go through the commit queue
//! and are answered from its thread. What has to wait for I/O servers (truncate, removing subfiles)
//! runs on threads of its own, so that a dead server never stops the namespace.

mod cluster;
mod dispatch;
mod janitor;
mod listing;
mod lock;
mod open_file;
mod unnamed;

use crate::cache::Cache;
use crate::failure::{Errno, Failure};
use crate::key;
use crate::kv::Engine;
use crate::namespace::{self, Context, explain};
use crate::queue::Queue;
use crate::record::{self, Super};
use crate::session::Sessions;
use crate::txn::{Read, Reader, Txn};
use serde::{Serialize, de::DeserializeOwned};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use trireme_proto::Key;
use trireme_proto::message::meta::{
    CALLS_KEPT_SECONDS, Call, Caller, ClusterMap, LEASE_SECONDS, Layout, Making, Request, Response,
    SERIAL_WINDOW, Time,
};

/// Free bytes below which nothing new is made on the manager's disk; removing still works.
const SPACE_RESERVE: u64 = 16 << 20;
/// Most inode numbers in one `Life`, `Inspect` or `Admin` call.
pub(crate) const NUMBERS_LIMIT: usize = 16_384;

/// What the manager must be able to do on the I/O servers. Each call has its own deadline.
pub trait Subfiles: Send + Sync + 'static {
    /// Removes the subfiles of files, and says of each file whether they are gone; one that is not there is no
    /// error.
    fn remove(&self, files: &[(u64, Layout)]) -> Vec<Result<(), Failure>>;
    /// Whether all servers' disks have files as long as one of `size` bytes would be there; changes nothing.
    fn check(&self, inode: u64, layout: &Layout, size: u64) -> Result<(), Failure>;
    /// Gives every subfile the length that a file of `size` bytes has there.
    fn truncate(&self, inode: u64, layout: &Layout, size: u64) -> Result<(), Failure>;
    /// The file's size, from its subfiles.
    fn size(&self, inode: u64, layout: &Layout) -> Result<u64, Failure>;
}

/// How a manager is set up.
pub struct Options {
    /// Owner of the root directory and, beside root, of the cluster.
    pub owner: Caller,
    /// Signs grants; shared with the I/O servers only.
    pub token_key: Key,
    /// How long after a restart earlier clients may come back before their files are removed.
    pub grace: Duration,
    /// Where the engine stores, to notice a disk that is nearly full.
    pub directory: Option<PathBuf>,
    /// How long a client must have been away before what its numbered calls gave is forgotten.
    pub calls_kept: Duration,
}

impl Options {
    /// The usual, for the user who runs the process.
    pub fn new(token_key: Key) -> Self {
        Self {
            owner: Caller {
                uid: rustix::process::geteuid().as_raw(),
                gid: rustix::process::getegid().as_raw(),
                groups: Vec::new(),
            },
            token_key,
            grace: Duration::from_secs(LEASE_SECONDS),
            directory: None,
            calls_kept: Duration::from_secs(CALLS_KEPT_SECONDS),
        }
    }
}

/// Who is at the other end of a connection.
#[derive(Clone, Debug)]
pub struct Who {
    /// The client's number.
    pub client: u64,
    /// As the connection showed.
    pub caller: Caller,
    /// May speak for others: a mount, or a holder of the cluster key on another host.
    pub trusted: bool,
}

/// The manager. Clones share it.
#[derive(Clone)]
pub struct Manager {
    inner: Arc<Inner>,
    // Stops the threads when the last clone goes.
    _janitor: Arc<janitor::Janitor>,
    _bell: Arc<lock::Bell>,
}

/// A manager that this does not keep alive.
#[derive(Clone)]
pub struct WeakManager {
    inner: std::sync::Weak<Inner>,
}

impl WeakManager {
    /// The cluster map, while the manager lives.
    pub fn map(&self) -> Option<Arc<ClusterMap>> {
        Some(self.inner.upgrade()?.map().0)
    }
}

pub(crate) struct Inner {
    cache: Arc<Cache>,
    queue: Queue,
    sessions: Mutex<Sessions>,
    superblock: Super,
    options: Options,
    map: RwLock<(Arc<ClusterMap>, Arc<Vec<u32>>)>,
    subfiles: RwLock<Option<Arc<dyn Subfiles>>>,
    // Files being cut right now, so that two truncates of one file do not mix.
    cutting: Mutex<HashSet<u64>>,
    cut: Condvar,
    // Files that a writer left without telling its size.
    unsettled: Mutex<HashSet<u64>>,
    full: AtomicBool,
    locked: AtomicBool,
    // Ends the waits for locks.
    bell: OnceLock<std::thread::Thread>,
    // Soft commits may have been made since the start.
    soft: AtomicBool,
    // Entries on the to-do list, roughly: 0 spares the janitor a scan.
    todo: AtomicU64,
    started: Instant,
}

fn clock() -> Time {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Time {
        seconds: now.as_secs() as i64,
        nanos: now.subsec_nanos(),
    }
}

/// Set while locks may be held: after a crash, earlier holders may reclaim them first.
const LOCKED: &[u8] = b"mlocked";

/// Set while soft commits may be made: after a power cut some of them are missing, and the inode
/// numbers that they gave out must not be given out again, as there may be subfiles.
const SOFT: &[u8] = b"msoft";

/// More inodes than can be made before a soft commit becomes durable.
const SOFT_INODES: u64 = 1 << 22;

/// How a change is carried out: at most once under its number, how durable the answer is, and how what it
/// makes is made.
#[derive(Clone, Copy)]
pub(crate) struct Once {
    serial: u64,
    soft: bool,
    making: Making,
}

impl Manager {
    /// Opens the file system in an engine, or makes one.
    pub fn open(engine: Arc<dyn Engine>, options: Options) -> Result<Self, Failure> {
        let cache = Arc::new(Cache::new(engine));
        let queue = Queue::start(cache.clone(), clock);
        let owner = options.owner.clone();
        let fresh = Reader::new(&cache).bytes(key::SUPER)?.is_none();
        let superblock: Super = queue.run(move |txn| {
            if let Some(found) = txn.record(key::SUPER)? {
                return Ok(found);
            }
            let made = Super {
                cluster: rand::random::<u64>() | 1,
                secret: rand::random(),
                born: txn.now,
            };
            txn.put(key::SUPER.to_vec(), &made);
            namespace::make_root(txn, &owner);
            Ok(made)
        })?;
        queue.run(|txn| {
            if txn.bytes(SOFT)?.is_some() {
                txn.delete(SOFT.to_vec());
                namespace::count(txn, |counters| counters.next += SOFT_INODES)?;
            }
            Ok(())
        })?;
        let mut reader = Reader::new(&cache);
        let mut map: ClusterMap = reader.record(key::MAP)?.unwrap_or_default();
        map.cluster = superblock.cluster;
        let locked = reader.bytes(LOCKED)?.is_some();
        let (from, to) = key::table(b't');
        let todo = reader.pairs(&from, &to, 1)?.len() as u64;
        let mut sessions = Sessions::new(options.grace);
        if fresh {
            sessions.end_grace();
        }
        let ids = map.servers.iter().map(|server| server.id).collect();
        let inner = Arc::new(Inner {
            cache,
            queue,
            sessions: Mutex::new(sessions),
            superblock,
            options,
            map: RwLock::new((Arc::new(map), Arc::new(ids))),
            subfiles: RwLock::new(None),
            cutting: Mutex::default(),
            cut: Condvar::new(),
            unsettled: Mutex::default(),
            full: AtomicBool::new(false),
            locked: AtomicBool::new(locked),
            bell: OnceLock::new(),
            soft: AtomicBool::new(false),
            todo: AtomicU64::new(todo),
            started: Instant::now(),
        });
        let janitor = Arc::new(janitor::Janitor::start(&inner));
        let bell = Arc::new(lock::Bell::start(&inner));
        Ok(Self {
            inner,
            _janitor: janitor,
            _bell: bell,
        })
    }

    /// Gives the manager its way to the I/O servers; until then removals wait.
    pub fn connect_subfiles(&self, subfiles: Arc<dyn Subfiles>) {
        let mut slot = self
            .inner
            .subfiles
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *slot = Some(subfiles);
    }

    /// A reference for those whom the manager itself holds.
    pub fn downgrade(&self) -> WeakManager {
        WeakManager {
            inner: Arc::downgrade(&self.inner),
        }
    }

    /// A connection of a client came.
    pub fn connected(&self, client: u64) {
        self.inner.sessions().connected(client);
    }

    /// A connection of a client went.
    pub fn disconnected(&self, client: u64) {
        self.inner.sessions().disconnected(client);
    }

    /// The cluster map.
    pub fn map(&self) -> Arc<ClusterMap> {
        self.inner.map().0
    }

    /// Identity of the cluster.
    pub fn cluster(&self) -> u64 {
        self.inner.superblock.cluster
    }

    /// Carries out a call; `answer` is called exactly once, maybe from another thread.
    pub fn submit(
        &self,
        who: &Who,
        call: Call,
        answer: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        Inner::dispatch(&self.inner, who, call, Box::new(answer));
    }

    /// Carries out a call and waits for its answer.
    pub fn call(&self, who: &Who, request: Request) -> Result<Response, Failure> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.submit(
            who,
            Call {
                caller: None,
                serial: 0,
                soft: false,
                making: Making::default(),
                request,
            },
            move |result| {
                // The waiter cannot have gone: it blocks just below.
                let _ = send.send(result);
            },
        );
        receive
            .recv()
            .unwrap_or_else(|_| Err(explain(Errno::Io, "the manager is stopping")))
    }

    /// Says that the manager stops in good order: nobody has to wait for locks after the restart.
    pub fn clean_stop(&self) {
        let done = self.inner.queue.run(|txn| {
            for mark in [LOCKED, SOFT] {
                if txn.bytes(mark)?.is_some() {
                    txn.delete(mark.to_vec());
                }
            }
            Ok(())
        });
        if let Err(failure) = done {
            tracing::warn!(%failure, "could not note the clean stop");
        }
    }
}

impl Inner {
    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn map(&self) -> (Arc<ClusterMap>, Arc<Vec<u32>>) {
        self.map
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn subfiles(&self) -> Result<Arc<dyn Subfiles>, Failure> {
        let subfiles = self
            .subfiles
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        subfiles.ok_or_else(|| explain(Errno::Io, "the manager has no I/O servers yet"))
    }

    /// Runs a read; should two cached records not fit together because a commit was just being
    /// published, looks again at the engine itself.
    fn read<T>(&self, body: impl Fn(&mut Reader<'_>) -> Result<T, Failure>) -> Result<T, Failure> {
        let mut result = body(&mut Reader::new(&self.cache));
        for _ in 0..8 {
            match &result {
                Err(failure) if failure.errno == Errno::Stale => {
                    result = body(&mut Reader::uncached(&self.cache));
                }
                _ => break,
            }
        }
        result
    }

    /// Runs a change, at most once per serial number, and hands its result on when durable.
    fn change<T>(
        self: &Arc<Self>,
        client: u64,
        once: Once,
        caller: Caller,
        mut body: impl FnMut(&mut Txn<'_>, &Context<'_>) -> Result<T, Failure> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) where
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        let inner = self.clone();
        let servers = self.map().1;
        let Once {
            serial,
            soft,
            making,
        } = once;
        self.queue.submit_as(
            soft,
            move |txn| {
                let context = Context {
                    caller: &caller,
                    secret: &inner.superblock.secret,
                    servers: &servers,
                    making,
                };
                if serial == 0 {
                    return body(txn, &context);
                }
                let memory = key::serial(client, serial % SERIAL_WINDOW);
                // The bytes are decoded only when the numbers match: the place may hold what
                // another kind of call gave.
                if let Some((done, bytes)) = txn.record::<(u64, Vec<u8>)>(&memory)?
                    && done == serial
                {
                    return record::decode("remembered answer", &bytes);
                }
                let result = body(txn, &context)?;
                txn.put(memory, &(serial, record::encode(&result).to_vec()));
                Ok(result)
            },
            done,
        );
    }
}
