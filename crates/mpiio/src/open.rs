//! An open file: what all its processes agreed on when they opened it, and how they let go.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trireme::{Cluster, Descriptor, File, Group, Method, OpenOptions, Options, Report};

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::comm::Comm;
use crate::errhandler::Handler;
use crate::queue::{Promise, Queue};
use crate::view::View;
use crate::{handle, info, mpi};

/// Access modes: the same numbers in every MPI.
pub mod mode {
    pub const CREATE: i32 = 1;
    pub const RDONLY: i32 = 2;
    pub const WRONLY: i32 = 4;
    pub const RDWR: i32 = 8;
    pub const DELETE_ON_CLOSE: i32 = 16;
    pub const EXCL: i32 = 64;
    pub const APPEND: i32 = 128;
    pub const SEQUENTIAL: i32 = 256;
}

/// Threads for operations of one process that overlap with its computing.
const OVERLAP: usize = 4;

/// An open file of ours.
#[derive(Debug)]
pub struct Open {
    pub path: String,
    pub amode: c_int,
    pub comm: Comm,
    pub cluster: Cluster,
    pub file: File,
    /// The name of the group, and of what else belongs to this opening.
    pub number: u64,
    pub method: Method,
    group: Mutex<Option<Group>>,
    view: Mutex<Arc<View>>,
    /// The individual file pointer, in bytes of the view.
    pub position: Mutex<u64>,
    /// Held while this process moves the shared file pointer.
    pub shared: Mutex<()>,
    pub atomic: AtomicBool,
    pub hints: Mutex<BTreeMap<String, String>>,
    pub handler: Mutex<Handler>,
    /// Collectives that are under way, in order.
    pub joint: Queue,
    /// Other operations that are under way.
    pub alone: Queue,
    /// The split collective that has begun.
    pub split: Mutex<Option<Split>>,
    /// The file is at least this long.
    pub known: AtomicU64,
    reports: Option<Mutex<Vec<(bool, Report)>>>,
}

/// A split collective between its begin and its end.
#[derive(Debug, Clone)]
pub struct Split {
    /// Which pair of routines.
    pub routine: &'static str,
    pub result: Arc<Promise<Result<u64>>>,
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

static CLUSTER: Mutex<Option<Cluster>> = Mutex::new(None);

/// This process's connection to the cluster, made with the first file.
pub fn cluster() -> Result<Cluster> {
    let mut shared = lock(&CLUSTER);
    if let Some(cluster) = shared.as_ref() {
        return Ok(cluster.clone());
    }
    let mut options = Options::default();
    if let Some(seconds) = std::env::var("TRIREME_TIMEOUT")
        .ok()
        .and_then(|text| text.parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0)
    {
        options.deadline = Duration::from_secs_f64(seconds);
    }
    // A socket that is not there is not a missing file.
    let cluster = Descriptor::find()
        .and_then(|descriptor| Cluster::connect(&descriptor, options))
        .map_err(|error| Failure::new(Class::Io, error.to_string()))?;
    *shared = Some(cluster.clone());
    Ok(cluster)
}

/// `MPI_File_open`. All processes of `comm` call it.
pub fn open(comm: Handle, path: String, amode: c_int, hints: Handle) -> Result<usize> {
    let hints = mpi::info_pairs(hints)?.into_iter().collect();
    let comm = Comm::duplicate(comm)?;
    let handle = comm.handle;
    let opened = open_in(comm, path, amode, hints);
    if opened.is_err() {
        mpi::free_comm(handle);
    }
    let (handle, _) = handle::insert(opened?).ok_or_else(|| {
        Failure::new(Class::NoMem, "this process has too many files open already")
    })?;
    Ok(handle)
}

fn open_in(
    comm: Comm,
    path: String,
    amode: c_int,
    hints: BTreeMap<String, String>,
) -> Result<Open> {
    same_call(&comm, &path, amode)?;
    check_mode(amode)?;
    let ready = cluster().and_then(|cluster| Ok((cluster, method(&hints)?)));
    let (cluster, method) = comm.agree(ready)?;
    let mine = [trireme_net::random_u64(), place_of(method)].map(u64::to_le_bytes);
    let [number, method] = halves(comm.broadcast(join(mine))?);
    let method = Method::ALL
        .get(method as usize)
        .copied()
        .unwrap_or(Method::Auto);
    // The first one creates, so that "must not exist" means before this call.
    let first =
        (comm.rank == 0).then(|| options(&cluster, amode, true, &hints).open(&cluster, &path));
    let first = comm.agree(first.transpose().map_err(Failure::from))?;
    let rest = match first {
        Some(file) => Ok(file),
        None => options(&cluster, amode, false, &hints).open(&cluster, &path),
    };
    let file = comm.agree(rest.map_err(Failure::from))?;
    let view = View::bytes()?;
    let open = Open {
        path,
        amode,
        cluster,
        file,
        number,
        method,
        group: Mutex::default(),
        view: Mutex::new(view),
        position: Mutex::new(0),
        shared: Mutex::default(),
        atomic: AtomicBool::new(false),
        hints: Mutex::new(hints),
        handler: Mutex::default(),
        joint: Queue::new(1, comm.handle),
        alone: Queue::new(OVERLAP, comm.handle),
        split: Mutex::default(),
        known: AtomicU64::new(0),
        reports: wanted("TRIREME_REPORT").then(Mutex::default),
        comm,
    };
    open.meet()?;
    if amode & mode::APPEND != 0 {
        let size = open.file.size().map_err(Failure::from);
        let set = size.and_then(|size| {
            *lock(&open.position) = size;
            if open.comm.rank == 0 {
                open.store_shared(size)?;
            }
            Ok(())
        });
        open.comm.agree(set)?;
    }
    Ok(open)
}

/// Whether a switch in the environment is on.
pub fn wanted(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.is_empty() && value != "0")
}

fn join(halves: [[u8; 8]; 2]) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&halves[0]);
    bytes[8..].copy_from_slice(&halves[1]);
    bytes
}

fn halves(bytes: [u8; 16]) -> [u64; 2] {
    [0, 8].map(|at| {
        let mut half = [0; 8];
        half.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(half)
    })
}

/// All processes must open the same file in the same way.
fn same_call(comm: &Comm, path: &str, amode: c_int) -> Result<()> {
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mine = join([hash, amode as u64].map(u64::to_le_bytes));
    let theirs = comm.broadcast(mine)?;
    comm.agree(if mine == theirs {
        Ok(())
    } else {
        let why = format!("{path}: the processes name different files or access modes");
        Err(Failure::new(Class::NotSame, why))
    })
}

fn check_mode(amode: c_int) -> Result<()> {
    let bad = |why: &str| Err(Failure::new(Class::Amode, format!("mode {amode}: {why}")));
    match amode & (mode::RDONLY | mode::WRONLY | mode::RDWR) {
        mode::RDONLY if amode & (mode::CREATE | mode::EXCL) != 0 => {
            bad("a file that is only read cannot be created")
        }
        mode::RDWR if amode & mode::SEQUENTIAL != 0 => {
            bad("a sequential file is either read or written")
        }
        mode::RDONLY | mode::WRONLY | mode::RDWR => Ok(()),
        _ => bad("exactly one of read-only, write-only and read-write"),
    }
}

fn method(hints: &BTreeMap<String, String>) -> Result<Method> {
    let wish = std::env::var("TRIREME_METHOD").ok();
    let wish = wish.filter(|name| !name.is_empty());
    match (wish, hints.get(info::METHOD)) {
        (None, None) => Ok(Method::Auto),
        // A hint that says nothing is no hint.
        (None, Some(hint)) => Ok(hint.parse().unwrap_or(Method::Auto)),
        (Some(name), _) => name
            .parse()
            .map_err(|error: trireme::Error| Failure::new(Class::Arg, error.to_string())),
    }
}

fn place_of(method: Method) -> u64 {
    let place = Method::ALL.iter().position(|one| *one == method);
    place.map_or(u64::MAX, |place| place as u64)
}

fn options(
    cluster: &Cluster,
    amode: c_int,
    first: bool,
    hints: &BTreeMap<String, String>,
) -> OpenOptions {
    let mut options = OpenOptions::new();
    options
        .read(amode & mode::WRONLY == 0)
        .write(amode & mode::RDONLY == 0);
    if first && amode & mode::CREATE != 0 {
        options.create(true).create_new(amode & mode::EXCL != 0);
        options.layout(info::layout(hints, cluster.map().servers.len()));
        if let Some(bits) = info::permissions(hints) {
            options.mode(bits);
        }
    }
    options
}

/// `MPI_File_delete`.
pub fn delete(path: &str) -> Result<()> {
    let cluster = cluster()?;
    cluster.namespace().unlink(path).map_err(|source| {
        let path = path.to_owned();
        trireme::Error::At { path, source }.into()
    })
}

impl Open {
    /// The view of now.
    pub fn view(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    /// Another view from now on, seen from its start.
    pub fn set_view(&self, view: Arc<View>) {
        *lock(&self.view) = view;
        *lock(&self.position) = 0;
    }

    /// Waits for everything that is under way.
    pub fn settle(&self) {
        self.joint.drain();
        self.alone.drain();
    }

    /// The processes meet as a group, so that the first collective need not wait for it and a process
    /// that dies is missed from now on; and they hear how long the file is.
    fn meet(&self) -> Result<()> {
        if self.comm.size == 1 {
            return Ok(());
        }
        let asks = self.comm.rank == 0 && self.amode & mode::WRONLY == 0;
        let met = self.group().and_then(|group| {
            let size = if asks { self.file.size()? } else { 0 };
            Ok((group, size))
        });
        // Watched only when all of them are: they must do the same.
        let (group, size) = self.comm.agree(met)?;
        self.comm.watch(group);
        let size = self.comm.broadcast(size.to_le_bytes())?;
        self.known
            .fetch_max(u64::from_le_bytes(size), Ordering::Relaxed);
        Ok(())
    }

    /// The processes of the file as a group of the cluster's; a process alone joins with its first
    /// collective.
    pub fn group(&self) -> Result<Group> {
        let mut group = lock(&self.group);
        if let Some(group) = group.as_ref() {
            return Ok(group.clone());
        }
        let name = format!("mpi-{:016x}", self.number);
        let joined = Group::join(&self.cluster, &name, self.comm.rank, self.comm.size)?;
        // MPI sets no limit to how much later than another a process may make its call.
        let joined = joined.patient();
        *group = Some(joined.clone());
        Ok(joined)
    }

    /// How collectives are carried out.
    pub fn remember(&self, write: bool, report: Report) {
        if let Some(reports) = &self.reports {
            lock(reports).push((write, report));
        }
    }

    /// Sets the size, for all processes.
    pub fn resize(&self, size: u64) -> Result<()> {
        self.settle();
        // Each of them: what an opening knows of the size goes to the manager when it is closed.
        let set = self.file.set_len(size).map_err(Failure::from);
        self.known.store(size, Ordering::Relaxed);
        self.comm.agree(set)
    }

    fn print_reports(&self) {
        let Some(reports) = &self.reports else { return };
        if self.comm.rank != 0 {
            return;
        }
        for (number, (write, report)) in lock(reports).iter().enumerate() {
            let what = if *write { "write" } else { "read" };
            eprint!(
                "trireme: {}: collective {number}, {what}, {report}",
                self.path
            );
        }
    }
}

/// `MPI_File_close`. All processes of the file call it.
pub fn close(number: usize) -> Result<()> {
    let Some(open) = handle::remove(number) else {
        return Err(Failure::new(Class::File, "the file is not open"));
    };
    open.settle();
    open.print_reports();
    let shared = open.forget_shared();
    let (rank, path, amode) = (open.comm.rank, open.path.clone(), open.amode);
    match Arc::try_unwrap(open) {
        Ok(open) => {
            let Open {
                file,
                group,
                view,
                handler,
                comm,
                ..
            } = open;
            drop((view, handler));
            let closed = file.close().map_err(Failure::from);
            let closed = comm.agree(closed.and(shared));
            // Only when nobody has it open any more.
            let closed = if amode & mode::DELETE_ON_CLOSE != 0 {
                let deleted = if rank == 0 { delete(&path) } else { Ok(()) };
                closed.and(comm.agree(deleted))
            } else {
                closed
            };
            // The last: whoever has left the group before the others have come this far is missed.
            drop(group);
            comm.free();
            closed
        }
        Err(_) => Err(Failure::new(
            Class::FileInUse,
            format!("{path}: another thread still uses the file"),
        )),
    }
}
