//! The loop between the kernel and a file system: as many threads as there are requests in work, so
//! that a slow one never keeps a quick one waiting; the first handshake; interrupts.
//!
//! There are limits, and requests that wait for a server that is away may reach them. So there may be more
//! threads when none of them has ended anything for a while. Those that wait for the kernel do not count at
//! all: it may be waiting for us to carry out another request.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use zerocopy::FromBytes;

use super::abi::{self, InHeader, InitIn, InitOut, InterruptIn, init, op};
use super::device::Device;
use super::request::{Notifier, Reply, Request, answer, send};
use super::ring::{self, Entry, Rings};
use super::signal;

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

/// When all threads have been busy for this long and none took another request, there may be more.
const STALL: Duration = Duration::from_millis(100);

/// Threads that stay when there is nothing to do.
const IDLE: usize = 8;

/// An interrupted request that is still not done after this time is answered with EINTR. Others end
/// by themselves, as system calls on a local file system do, where programs do not expect EINTR:
/// long enough for a busy server, shorter than the wait for a dead one.
const INTERRUPT_AFTER: Duration = Duration::from_secs(5);

/// Whether a program must be prepared for EINTR from the call behind a request. The others (names,
/// attributes, cutting a file) are carried to their end, or to the deadline.
fn can_be_interrupted(opcode: u32) -> bool {
    matches!(
        opcode,
        op::READ
            | op::WRITE
            | op::FSYNC
            | op::FLUSH
            | op::OPEN
            | op::CREATE
            | op::TMPFILE
            | op::FALLOCATE
            | op::COPY_FILE_RANGE
    )
}

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
    working: Mutex<HashMap<u64, Working>>,
    /// Requests that a signal came for before they did themselves.
    early: Mutex<VecDeque<u64>>,
    interrupts: Condvar,
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

/// A request that is being carried out.
#[derive(Debug)]
struct Working {
    opcode: u32,
    /// When a signal came for it.
    signal: Option<Instant>,
    /// If it did not come through the device.
    ring: Option<InRing>,
}

impl Working {
    fn is_in_place(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.in_place)
    }
}

/// What is to be known of a request that came through a ring.
#[derive(Debug)]
struct InRing {
    /// Where its answer goes.
    entry: Arc<Entry>,
    /// Bytes are moved to or from there right now.
    in_place: bool,
    /// Who waits for it, when that began, and when to look whether there is a signal for them.
    thread: u32,
    begin: Instant,
    next_look: Instant,
}

/// Who has waited for this long may have a signal that the kernel does not tell of; and the longer they wait
/// the less often they are looked at, down to once in [`LOOK_SELDOM`].
const LOOK: Duration = Duration::from_secs(1);
const LOOK_SELDOM: Duration = Duration::from_secs(10);

/// Signals for requests that nobody has seen yet, at most: that is a matter of an instant.
const EARLY_SIGNALS: usize = 256;

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
    fn working(&self) -> MutexGuard<'_, HashMap<u64, Working>> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    pub(super) fn begin(&self, unique: u64, opcode: u32) {
        let request = Working {
            opcode,
            signal: None,
            ring: None,
        };
        self.working().insert(unique, request);
    }

    pub(super) fn begin_in_ring(&self, header: &InHeader, entry: Arc<Entry>, in_place: bool) {
        let now = Instant::now();
        let mut working = self.working();
        let request = Working {
            opcode: header.opcode,
            signal: self.had_early_signal(header.unique).then_some(now),
            ring: Some(InRing {
                entry,
                in_place,
                thread: header.pid,
                begin: now,
                next_look: now + LOOK,
            }),
        };
        working.insert(header.unique, request);
    }

    fn had_early_signal(&self, unique: u64) -> bool {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if early.is_empty() {
            return false;
        }
        let place = early.iter().position(|one| *one == unique);
        place.and_then(|place| early.remove(place)).is_some()
    }

    /// A signal came for a request that is not being carried out: it will be, or was.
    fn keep_early_signal(&self, unique: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if early.len() >= EARLY_SIGNALS {
            early.pop_front();
        }
        early.push_back(unique);
    }

    /// Whether a signal came for a request that is not answered yet.
    pub(super) fn was_interrupted(&self, unique: u64) -> bool {
        let working = self.working();
        let request = working.get(&unique);
        request.is_some_and(|request| request.signal.is_some())
    }

    /// Somebody may answer in the place of whoever carries this request out.
    pub(super) fn leaves_place(&self, unique: u64) {
        if let Some(request) = self.working().get_mut(&unique) {
            if let Some(ring) = &mut request.ring {
                ring.in_place = false;
            }
            if request.signal.is_none() {
                return;
            }
        }
        self.interrupts.notify_all();
    }

    /// There is something to look after for those who watch.
    pub(super) fn worry(&self) {
        drop(self.working());
        self.interrupts.notify_all();
    }

    /// One who waits for the end of them all may be told.
    pub(super) fn ring_thread_ended(&self) {
        drop(self.state());
        self.changed.notify_all();
    }

    /// True for the one who may answer.
    pub(super) fn end(&self, unique: u64) -> bool {
        self.working().remove(&unique).is_some()
    }

    /// All threads are busy, and there may not be more.
    fn is_full(&self) -> bool {
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
            working: Mutex::default(),
            early: Mutex::default(),
            interrupts: Condvar::new(),
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
            .spawn(move || watch(&watcher, &file_system))?;
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

/// One more thread, if there may be one.
fn spawn(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) -> io::Result<()> {
    let mut state = shared.state();
    if state.over || state.threads >= state.limit {
        drop(state);
        // Somebody looks whether they get on. Who is about to wait holds what wakes it.
        drop(shared.working());
        shared.interrupts.notify_all();
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
        shared.interrupts.notify_all();
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
            let mut working = shared.working();
            if let Some(request) = working.get_mut(&what.unique) {
                request.signal.get_or_insert_with(Instant::now);
                drop(working);
                shared.interrupts.notify_all();
            } else {
                shared.keep_early_signal(what.unique);
                drop(working);
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
            if opcode == op::SETLKW && shared.was_interrupted(header.unique) {
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
        unused: [0; 7],
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

/// Requests that have been waited for for long, and who does.
fn old_requests(working: &mut HashMap<u64, Working>, now: Instant) -> Vec<(u64, u32)> {
    let unsignalled = working.iter_mut().filter(|(_, one)| one.signal.is_none());
    let due = unsignalled.filter_map(|(unique, request)| {
        let ring = request.ring.as_mut().filter(|ring| ring.next_look <= now)?;
        ring.next_look = now + (now - ring.begin).clamp(LOOK, LOOK_SELDOM);
        Some((*unique, ring.thread))
    });
    due.collect()
}

fn look_for_signals(shared: &Shared, file_system: &Arc<dyn FileSystem>, old: &[(u64, u32)]) {
    for (unique, thread) in old {
        if !signal::waits_for(*thread) || file_system.interrupted(*unique) {
            continue;
        }
        if let Some(request) = shared.working().get_mut(unique) {
            request.signal.get_or_insert_with(Instant::now);
        }
    }
}

/// Answers requests that a signal came for and that do not end, and lets there be more threads when all of
/// them wait.
fn watch(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) {
    // Since when no request was taken, and how many had been.
    let mut stalled: Option<(Instant, u64)> = None;
    let mut working = shared.working();
    while !shared.state.lock().is_ok_and(|state| state.over) {
        let now = Instant::now();
        let mut late = Vec::new();
        let mut next = Duration::from_hours(1);
        working.retain(|unique, request| match &request.signal {
            Some(_) if !can_be_interrupted(request.opcode) || request.is_in_place() => true,
            Some(when) if now - *when >= INTERRUPT_AFTER => {
                late.push((*unique, request.ring.take().map(|ring| ring.entry)));
                false
            }
            Some(when) => {
                next = next.min(INTERRUPT_AFTER.saturating_sub(now - *when));
                true
            }
            None => true,
        });
        if shared.rings.wanted {
            next = next.min(LOOK);
            let old = old_requests(&mut working, now);
            if !old.is_empty() {
                drop(working);
                look_for_signals(shared, file_system, &old);
                working = shared.working();
            }
        }
        let taken = shared.taken.load(Ordering::SeqCst);
        stalled = match stalled {
            _ if !shared.is_full() => None,
            Some((since, before)) if before == taken => Some((since, taken)),
            _ => Some((now, taken)),
        };
        let more = stalled.is_some_and(|(since, _)| now - since >= STALL);
        if !late.is_empty() || more {
            drop(working);
            for (unique, entry) in late {
                answer(shared, entry, unique, -libc::EINTR, &[], false);
            }
            if more {
                stalled = None;
                shared.state().limit += THREADS;
                if let Err(error) = spawn(shared, file_system) {
                    tracing::warn!("all threads wait, and there can be no more: {error}");
                }
            }
            working = shared.working();
            continue;
        }
        if ring::is_short_of_threads(shared) {
            drop(working);
            ring::more_threads(shared);
            working = shared.working();
            next = next.min(STALL);
        }
        if let Some((since, _)) = stalled {
            next = next.min(STALL.saturating_sub(now - since));
        }
        working = shared
            .interrupts
            .wait_timeout(working, next)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    }
}
