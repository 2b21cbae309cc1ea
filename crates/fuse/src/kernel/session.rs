//! The loop between the kernel and a file system: as many threads as there are requests in work, so
//! that a slow one never keeps a quick one waiting; the first handshake; interrupts.
//!
//! There are limits, and requests that wait for a server that is away may reach them. So there may be more
//! threads when none of them has ended anything for a while. Those that wait for the kernel do not count at
//! all: it may be waiting for us to carry out another request.

use std::cell::RefCell;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zerocopy::FromBytes;

use super::abi::{self, InHeader, InitIn, InitOut, InterruptIn, init, op};
use super::device::Device;
use super::request::{Notifier, Reply, Request, send};
use super::ring::{self, Rings};
use super::watch;
use super::working::Requests;

/// Largest write and read of one request: what the kernel allows by default (`fs.fuse.max_pages_limit`).
pub const MAX_WRITE: usize = 1 << 20;

/// Bytes before the data of a write request: with the request put this far before a page's end, the
/// data begins on a page.
const WRITE_HEADER: usize = size_of::<InHeader>() + size_of::<abi::WriteIn>();
pub(super) const PAGE: usize = 4096;

/// Room for one request.
pub const SLOT: usize = PAGE + MAX_WRITE + PAGE;

/// Threads at most, while requests come to an end; and how many more there may be each time that none does.
pub const THREADS: usize = 64;

/// Threads at most when they all wait for servers that are away: the rest must go on.
pub(super) const MOST_THREADS: usize = 1024;

/// Threads that stay when there is nothing to do.
const IDLE: usize = 8;

/// What answers requests.
pub trait FileSystem: Send + Sync + 'static {
    /// Called once, before any request.
    fn started(&self, _notifier: Notifier, _flags: u64) {}

    /// Carries a request out and answers it, here or later.
    fn handle(&self, request: Request<'_>, reply: Reply);

    /// A signal came for whoever waits for this request. True when it has been answered.
    fn interrupted(&self, _unique: u64) -> bool {
        false
    }

    /// The mount is gone.
    fn ended(&self) {}

    /// What of the offered features to use.
    fn features(&self) -> u64;
}

/// What all threads of a mount share.
#[derive(Debug)]
pub struct Shared {
    pub(super) device: Device,
    /// Where it is mounted.
    pub(super) dir: PathBuf,
    pub(super) requests: Requests,
    state: Mutex<State>,
    changed: Condvar,
    idle: AtomicUsize,
    /// Requests that were taken from the kernel, ever.
    taken: AtomicU64,
    pub(super) rings: Rings,
}

/// A mount and what answers its requests; true for a thread that has a ring.
type Served = (Arc<Shared>, Arc<dyn FileSystem>, bool);

thread_local! {
    /// What this thread serves, if it takes requests from a kernel.
    static SERVES: RefCell<Option<Served>> = const { RefCell::new(None) };
}

/// From now on this thread serves a mount.
pub(super) fn serves(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>, ring: bool) {
    SERVES.set(Some((shared.clone(), file_system.clone(), ring)));
}

#[derive(Debug, Default)]
struct State {
    ready: bool,
    over: bool,
    /// Threads, without those that wait for the kernel, and how many there may be now.
    threads: usize,
    limit: usize,
    /// How many there may be while nothing is the matter.
    usual: usize,
    slots: Vec<&'static mut [u8]>,
}

/// Room for a request: of the memory that servers have mapped, or more where that is used up.
#[derive(Debug)]
pub(super) enum Slot {
    Shared(&'static mut [u8]),
    Own(Vec<u8>),
}

impl Slot {
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        match self {
            Slot::Shared(bytes) => bytes,
            Slot::Own(bytes) => bytes,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Room for a request.
    pub(super) fn slot(&self) -> Slot {
        match self.state().slots.pop() {
            Some(slot) => Slot::Shared(slot),
            None => Slot::Own(vec![0; SLOT]),
        }
    }

    /// One who waits for the end of them all may be told.
    pub(super) fn ring_thread_ended(&self) {
        drop(self.state());
        self.changed.notify_all();
    }

    /// Whether the mount is gone.
    pub(super) fn is_over(&self) -> bool {
        self.state().over
    }

    /// Requests that were taken from the device, ever.
    pub(super) fn taken(&self) -> u64 {
        self.taken.load(Ordering::SeqCst)
    }

    /// All threads are busy, and there may not be more.
    pub(super) fn is_full(&self) -> bool {
        let state = self.state();
        let full = state.threads >= state.limit && state.limit < MOST_THREADS;
        full && !state.over && self.idle.load(Ordering::SeqCst) == 0
    }
}

/// Does something that may wait until the kernel has had other requests carried out: meanwhile this thread
/// is not one of those that there may be.
pub fn waiting_for_kernel<T>(act: impl FnOnce() -> T) -> T {
    let serves = SERVES.with_borrow(Clone::clone);
    let Some((shared, file_system, ring)) = serves else {
        return act();
    };
    if ring {
        Rings::leaves(&shared);
        let result = act();
        Rings::returns(&shared);
        return result;
    }
    shared.state().threads -= 1;
    if shared.idle.load(Ordering::SeqCst) == 0
        && let Err(error) = spawn(&shared, &file_system)
    {
        tracing::warn!("no thread for what the kernel may need: {error}");
    }
    let result = act();
    shared.state().threads += 1;
    result
}

/// A mount that is being served.
#[derive(Debug, Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

impl Session {
    /// Serves `device`, which is mounted on `dir`, with `file_system` from now on. `buffer` holds requests; memory for as many
    /// as there are [`SLOT`]s in it. With `rings` they come through io_uring, if the kernel offers that.
    pub fn start(
        device: Device,
        dir: &Path,
        file_system: Arc<dyn FileSystem>,
        buffer: &'static mut [u8],
        rings: bool,
    ) -> io::Result<Session> {
        let slots: Vec<_> = buffer.chunks_exact_mut(SLOT).collect();
        let shared = Arc::new(Shared {
            device,
            dir: dir.to_owned(),
            requests: Requests::default(),
            state: Mutex::new(State {
                limit: slots.len().min(THREADS),
                usual: slots.len().min(THREADS),
                slots,
                ..State::default()
            }),
            changed: Condvar::new(),
            idle: AtomicUsize::new(0),
            taken: AtomicU64::new(0),
            rings: Rings::new(rings),
        });
        spawn(&shared, &file_system)?;
        let watcher = shared.clone();
        std::thread::Builder::new()
            .name("fuse-interrupts".into())
            .spawn(move || watch::run(&watcher, &file_system))?;
        Ok(Session { shared })
    }

    /// Waits until the kernel has said hello; false when the mount went away instead.
    pub fn wait_ready(&self) -> bool {
        let mut state = self.shared.state();
        while !state.ready && !state.over {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.ready
    }

    /// Waits at most `time` for the mount to be taken away; true when it was.
    pub fn wait_over(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.shared.state();
        while !(state.over && state.threads == 0 && self.shared.rings.is_empty()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return state.over;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// For messages to the kernel.
    pub fn notifier(&self) -> Notifier {
        Notifier {
            shared: self.shared.clone(),
        }
    }
}

/// There may be more threads, and there is one more.
pub(super) fn allow_more(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) {
    shared.state().limit += THREADS;
    if let Err(error) = spawn(shared, file_system) {
        tracing::warn!("all threads wait, and there can be no more: {error}");
    }
}

/// One more thread, if there may be one.
fn spawn(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) -> io::Result<()> {
    let mut state = shared.state();
    if state.over || state.threads >= state.limit {
        drop(state);
        // Somebody looks whether they get on. Who is about to wait holds what wakes it.
        shared.requests.worry();
        return Ok(());
    }
    state.threads += 1;
    drop(state);
    let slot = shared.slot();
    shared.idle.fetch_add(1, Ordering::SeqCst);
    let (ours, fs) = (shared.clone(), file_system.clone());
    let started = std::thread::Builder::new()
        .name("fuse".into())
        .spawn(move || serve(&ours, &fs, slot));
    if let Err(error) = started {
        // The slot is lost with the closure; the threads that there are go on.
        shared.idle.fetch_sub(1, Ordering::SeqCst);
        shared.state().threads -= 1;
        return Err(error);
    }
    Ok(())
}

fn serve(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>, mut slot: Slot) {
    serves(shared, file_system, false);
    let over = loop {
        let place = &mut slot.bytes()[PAGE - WRITE_HEADER..];
        let length = match rustix::io::read(shared.device.as_fd(), &mut *place) {
            Ok(length) => length,
            // ENOENT: the request was interrupted before it reached us.
            Err(rustix::io::Errno::INTR | rustix::io::Errno::NOENT | rustix::io::Errno::AGAIN) => {
                continue;
            }
            Err(error) => {
                if error != rustix::io::Errno::NODEV {
                    tracing::error!("reading /dev/fuse: {error}");
                }
                break true;
            }
        };
        shared.taken.fetch_add(1, Ordering::SeqCst);
        if shared.idle.fetch_sub(1, Ordering::SeqCst) == 1
            && let Err(error) = spawn(shared, file_system)
        {
            tracing::warn!("no thread for more requests: {error}");
        }
        dispatch(shared, file_system, &place[..length]);
        if shared.idle.fetch_add(1, Ordering::SeqCst) >= IDLE {
            break false;
        }
    };
    shared.idle.fetch_sub(1, Ordering::SeqCst);
    if over && !std::mem::replace(&mut shared.state().over, true) {
        shared.requests.worry();
        shared.rings.end();
        file_system.ended();
    }
    SERVES.set(None);
    let mut state = shared.state();
    state.threads -= 1;
    if state.threads <= state.usual {
        state.limit = state.usual;
    }
    if let Slot::Shared(slot) = slot {
        state.slots.push(slot);
    }
    drop(state);
    shared.changed.notify_all();
}

fn dispatch(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>, bytes: &[u8]) {
    let Ok((header, body)) = InHeader::read_from_prefix(bytes) else {
        tracing::error!("a request of {} bytes", bytes.len());
        return;
    };
    match header.opcode {
        op::INIT => say_hello(shared, file_system, header, body),
        op::INTERRUPT => {
            let Ok((what, _)) = InterruptIn::read_from_prefix(body) else {
                return;
            };
            if file_system.interrupted(what.unique) {
                return;
            }
            if !shared.requests.signal(what.unique) {
                // Read by another thread this instant, or answered: the kernel asks again or not.
                send(shared, header.unique, -libc::EAGAIN, &[]);
            }
        }
        op::DESTROY => {
            send(shared, header.unique, 0, &[]);
        }
        opcode => {
            let expected = !matches!(opcode, op::FORGET | op::BATCH_FORGET);
            let reply = Reply::new(shared.clone(), header.unique, opcode, expected);
            let data = None;
            file_system.handle(Request { header, body, data }, reply);
            if opcode == op::SETLKW && shared.requests.was_interrupted(header.unique) {
                file_system.interrupted(header.unique);
            }
        }
    }
}

/// The kernel's first request: versions, sizes, features.
fn say_hello(
    shared: &Arc<Shared>,
    file_system: &Arc<dyn FileSystem>,
    header: InHeader,
    body: &[u8],
) {
    let Ok((hello, rest)) = InitIn::read_from_prefix(body) else {
        send(shared, header.unique, -libc::EPROTO, &[]);
        return;
    };
    // Since 7.31 direct writes, 1 MiB requests and all else that we need are there.
    if hello.major != abi::MAJOR || hello.minor < 31 {
        tracing::error!(
            "the kernel speaks FUSE {}.{}, this program needs 7.31",
            hello.major,
            hello.minor
        );
        send(shared, header.unique, -libc::EPROTO, &[]);
        return;
    }
    let mut offered = u64::from(hello.flags);
    if offered & init::INIT_EXT != 0
        && let Ok((high, _)) = u32::read_from_prefix(rest)
    {
        offered |= u64::from(high) << 32;
    }
    let wanted = file_system.features() | init::INIT_EXT | init::MAX_PAGES | init::BIG_WRITES;
    let mut flags = offered & wanted;
    let prepared = if shared.rings.wanted && offered & init::OVER_IO_URING != 0 {
        ring::prepare(shared, file_system)
    } else {
        None
    };
    if prepared.is_some() {
        flags |= init::OVER_IO_URING;
    }
    let answer = InitOut {
        major: abi::MAJOR,
        minor: hello.minor.min(abi::MINOR),
        max_readahead: hello.max_readahead.max(MAX_WRITE as u32),
        flags: flags as u32,
        max_background: THREADS as u16,
        congestion_threshold: (THREADS * 3 / 4) as u16,
        max_write: MAX_WRITE as u32,
        time_gran: 1,
        max_pages: (MAX_WRITE / PAGE) as u16,
        map_alignment: 0,
        flags2: (flags >> 32) as u32,
        // Other file systems may still be laid over this one, but what it passes on may not be such a one.
        max_stack_depth: u32::from(flags & init::PASSTHROUGH != 0),
        unused: [0; 6],
    };
    let notifier = Notifier {
        shared: shared.clone(),
    };
    file_system.started(notifier, flags);
    send(
        shared,
        header.unique,
        0,
        &[zerocopy::IntoBytes::as_bytes(&answer)],
    );
    if let Some(prepared) = prepared {
        prepared.start(shared);
    }
    shared.state().ready = true;
    shared.changed.notify_all();
}
