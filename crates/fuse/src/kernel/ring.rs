//! Requests through io_uring instead of `/dev/fuse`, where the kernel offers that (Linux 6.14, and root said
//! so): the kernel has a queue for each processor, and a call is carried out on the processor that it was made
//! on. Waking another one up takes longer than most calls; here one system call gives an answer and waits for
//! the next request.
//!
//! A thread has a ring of its own and one [`Entry`], to which the kernel gives requests one after the other.
//! A request that is not answered when it was handled (it waits for a lock) keeps its entry, and the thread
//! goes to the others that have none. Whoever answers it later leaves the entry to one of those. So there are
//! as many threads as requests in work, and as many entries as requests that are not answered.
//!
//! The kernel does not look for requests that wait when it gets a new entry, only when it gets an answer. So
//! each new entry comes with a request of our own making, [`Rings::stir`].
//!
//! Forgets and interrupts come through the device still, and messages to the kernel go there.

mod entry;
mod port;
mod seat;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use zerocopy::{FromBytes, IntoBytes};

pub(super) use entry::Entry;
use port::Port;
use seat::Seats;

use super::abi::{self, InHeader, ReadIn, op};
use super::request::{Reply, Request, send};
use super::session::{FileSystem, MOST_THREADS, Shared, serves};

/// Entries that a queue has from the beginning: the second is there while a thread is made for a third.
const ENTRIES: usize = 2;

/// Threads without an entry that stay.
const SPARE: usize = 4;

/// How long the kernel may take to know the first entries.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pages that take longer to fill than a processor to wake up.
const LONG: u32 = 64 << 10;

/// Numbers of the requests of our own making; the kernel's own never get this large.
const OUR_NUMBERS: u64 = 1 << 62;

thread_local! {
    /// The request that this thread carries out, and whether it has been answered.
    static CURRENT: Cell<Option<(u64, bool)>> = const { Cell::new(None) };
}

/// The queues of a mount, and those who serve them; without queues everything goes through the device.
#[derive(Debug, Default)]
pub(super) struct Rings {
    pub wanted: bool,
    queues: OnceLock<Vec<Queue>>,
    file_system: OnceLock<Weak<dyn FileSystem>>,
    pool: Mutex<Pool>,
    changed: Condvar,
    /// A file that the kernel knows.
    file: AtomicU64,
    number: AtomicU64,
    stirring: Mutex<Vec<u32>>,
    seats: Seats,
}

#[derive(Debug, Default)]
struct Queue {
    /// Entries that wait for a request.
    idle: AtomicUsize,
}

#[derive(Debug, Default)]
struct Pool {
    work: VecDeque<Work>,
    /// Threads that wait for work, and those that are about to.
    waiting: usize,
    starting: usize,
    /// Threads, without those that wait for the kernel.
    threads: usize,
    /// First entries that the kernel knows, or refused.
    known: usize,
    refused: usize,
    over: bool,
}

/// What a thread without an entry can do.
#[derive(Debug)]
enum Work {
    /// Serve a queue with a new entry; true for one of the first.
    Enter(u16, bool),
    /// Give the answer that is in this one, and serve its queue with it.
    Answer(Arc<Entry>),
}

/// What became of a request through an entry.
enum After {
    /// Its answer is in the entry.
    Answered,
    /// Somebody else answers it, and has the entry.
    Left,
}

impl Pool {
    /// How much work there is that nobody comes for.
    fn left_over(&self) -> usize {
        let coming = self.waiting + self.starting;
        self.work.len().saturating_sub(coming)
    }
}

impl Rings {
    pub fn new(wanted: bool) -> Rings {
        Rings {
            wanted,
            ..Rings::default()
        }
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, number: u16) -> Option<&Queue> {
        self.queues.get()?.get(usize::from(number))
    }

    /// The mount is over.
    pub fn end(&self) {
        self.pool().over = true;
        self.changed.notify_all();
    }

    /// Whether all threads are gone.
    pub fn is_empty(&self) -> bool {
        self.pool().threads == 0
    }

    /// A thread waits for the kernel, or does so no longer: it does not count meanwhile.
    pub fn leaves(shared: &Arc<Shared>) {
        shared.rings.pool().threads -= 1;
        let queues = shared.rings.queues.get().into_iter().flatten();
        for (number, queue) in queues.enumerate() {
            if queue.idle.load(Ordering::SeqCst) == 0 {
                push(shared, Work::Enter(number as u16, false));
            }
        }
    }

    /// The end of [`Rings::leaves`].
    pub fn returns(shared: &Arc<Shared>) {
        shared.rings.pool().threads += 1;
    }

    /// Answers a request whose answer is in its entry: by this thread, when it is done with it, if it is the
    /// one that carries it out and has nothing else to do; else by another.
    pub fn answer(shared: &Arc<Shared>, entry: Arc<Entry>, unique: u64, more_to_do: bool) {
        let own = CURRENT.get().is_some_and(|(current, _)| current == unique);
        if own && !more_to_do {
            CURRENT.set(Some((unique, true)));
        } else {
            push(shared, Work::Answer(entry));
        }
    }

    /// What this thread does next may take its time.
    pub fn takes_time(&self) {
        self.seats.leave();
    }

    /// A request of our own making for a queue whose entries had run out: with its answer the kernel looks
    /// for others that wait. It comes to the queue of the processor that this thread is on.
    fn stir(shared: &Arc<Shared>, queue: u16) {
        let rings = &shared.rings;
        let file = rings.file.load(Ordering::Relaxed);
        let what = abi::NotifyRetrieve {
            notify_unique: OUR_NUMBERS + rings.number.fetch_add(2, Ordering::Relaxed),
            nodeid: file,
            ..abi::NotifyRetrieve::default()
        };
        let tell = || send(shared, 0, abi::NOTIFY_RETRIEVE, &[what.as_bytes()]);
        if file != 0 && rings.seats.on(queue, tell) {
            return;
        }
        // No file is known to the kernel, or not any more. Then as any program would, for which the call waits.
        let ours = shared.clone();
        let ask = move || {
            let thread = rustix::thread::gettid().as_raw_nonzero().get();
            ours.rings.stirring().push(thread as u32);
            ours.rings
                .seats
                .on(queue, || rustix::fs::statfs(&ours.dir).is_ok());
            ours.rings.stirring().retain(|one| *one != thread as u32);
        };
        let thread = std::thread::Builder::new().name("fuse-stir".into());
        if let Err(error) = thread.spawn(ask) {
            tracing::warn!("requests may wait for others to end: {error}");
        }
    }

    /// Threads whose requests are of our own making.
    fn stirring(&self) -> MutexGuard<'_, Vec<u32>> {
        self.stirring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes sure that there can be rings, before the kernel is told so. What it gives starts them.
pub(super) fn prepare(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) -> Option<Prepared> {
    let tried = possible_processors().and_then(|count| {
        // Calls are made on all of them, and we must be able to.
        shared.rings.seats.look()?;
        Ok((count, Port::new(&shared.device)?))
    });
    match tried {
        Ok((processors, port)) => {
            let queues = std::iter::repeat_with(Queue::default).take(processors);
            let _ = shared.rings.queues.set(queues.collect());
            let _ = shared.rings.file_system.set(Arc::downgrade(file_system));
            Some(Prepared { port })
        }
        Err(error) => {
            tracing::debug!("no io_uring for requests: {error}");
            None
        }
    }
}

/// A ring that is only there to tell the kernel that there will be none after all.
pub(super) struct Prepared {
    port: Port,
}

impl Prepared {
    /// Once the kernel has been told: it holds requests back until every queue has an entry.
    pub fn start(mut self, shared: &Arc<Shared>) {
        let rings = &shared.rings;
        let queues = rings.queues.get().map_or(0, Vec::len);
        for queue in 0..queues {
            for _ in 0..ENTRIES {
                push(shared, Work::Enter(queue as u16, true));
            }
        }
        let end = Instant::now() + PATIENCE;
        let mut pool = rings.pool();
        while pool.known < queues * ENTRIES && pool.refused == 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = rings.changed.wait_timeout(pool, left);
            pool = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if pool.known < queues * ENTRIES {
            drop(pool);
            tracing::debug!(
                "requests come through /dev/fuse: the kernel has not taken to the rings"
            );
            self.port.give_up();
        }
    }
}

/// Finds a thread for a piece of work, or makes one.
fn push(shared: &Arc<Shared>, work: Work) {
    let rings = &shared.rings;
    let mut pool = rings.pool();
    if pool.over {
        return;
    }
    let may_grow = pool.threads < MOST_THREADS;
    pool.work.push_back(work);
    let is_left = pool.left_over() > 0;
    if is_left && !may_grow && matches!(pool.work.back(), Some(Work::Enter(..))) {
        pool.work.pop_back();
        return;
    }
    drop(pool);
    if is_left {
        more_threads(shared);
    } else {
        rings.changed.notify_all();
    }
}

/// As many threads as there is work that nobody waits for; what finds none is tried again by those who watch.
pub(super) fn more_threads(shared: &Arc<Shared>) {
    let mut pool = shared.rings.pool();
    let Some(file_system) = shared.rings.file_system.get().and_then(Weak::upgrade) else {
        return;
    };
    for _ in 0..pool.left_over() {
        let (ours, fs) = (shared.clone(), file_system.clone());
        let thread = std::thread::Builder::new().name("fuse-ring".into());
        pool.threads += 1;
        pool.starting += 1;
        if let Err(error) = thread.spawn(move || serve(&ours, &fs)) {
            pool.threads -= 1;
            pool.starting -= 1;
            tracing::warn!("no thread for more requests: {error}");
            drop(pool);
            shared.requests.worry();
            return;
        }
    }
}

/// Whether there is work that no thread was found for.
pub(super) fn is_short_of_threads(shared: &Shared) -> bool {
    let pool = shared.rings.pool();
    !pool.over && pool.left_over() > 0
}

fn serve(shared: &Arc<Shared>, file_system: &Arc<dyn FileSystem>) {
    let rings = &shared.rings;
    rings.seats.run_anywhere();
    let port = Port::new(&shared.device);
    rings.pool().starting -= 1;
    match port {
        Ok(mut port) => {
            serves(shared, file_system, true);
            let mut scratch = Vec::new();
            while let Some(work) = next_work(rings) {
                let Some(entry) = begin(shared, &mut port, work) else {
                    continue;
                };
                if !carry_out_all(shared, file_system, &mut port, entry, &mut scratch) {
                    break;
                }
            }
        }
        Err(error) => {
            tracing::warn!("no io_uring for more requests: {error}");
            rings.pool().refused += 1;
        }
    }
    rings.pool().threads -= 1;
    rings.changed.notify_all();
    shared.ring_thread_ended();
}

/// Waits for something to do; `None` where enough others do.
fn next_work(rings: &Rings) -> Option<Work> {
    let mut pool = rings.pool();
    loop {
        if pool.over {
            return None;
        }
        if let Some(work) = pool.work.pop_front() {
            return Some(work);
        }
        if pool.waiting >= SPARE {
            return None;
        }
        pool.waiting += 1;
        pool = rings
            .changed
            .wait(pool)
            .unwrap_or_else(PoisonError::into_inner);
        pool.waiting -= 1;
    }
}

/// Gives the kernel an entry, new or with an answer.
fn begin(shared: &Arc<Shared>, port: &mut Port, work: Work) -> Option<Arc<Entry>> {
    let rings = &shared.rings;
    match work {
        Work::Answer(entry) => {
            rings
                .queue(entry.queue)?
                .idle
                .fetch_add(1, Ordering::SeqCst);
            port.commit(&entry);
            Some(entry)
        }
        Work::Enter(queue, first) => {
            let entry = Arc::new(Entry::new(queue, shared.slot()));
            rings.queue(queue)?.idle.fetch_add(1, Ordering::SeqCst);
            let registered = port.register(&entry);
            if let Err(error) = &registered {
                tracing::warn!("queue {queue} of the kernel: {error}");
            }
            if first {
                let mut pool = rings.pool();
                match registered {
                    Ok(()) => pool.known += 1,
                    Err(_) => pool.refused += 1,
                }
                drop(pool);
                rings.changed.notify_all();
            } else {
                Rings::stir(shared, queue);
            }
            registered.is_ok().then_some(entry)
        }
    }
}

/// Carries out what comes to an entry until it is left to somebody else; false when the mount is over.
fn carry_out_all(
    shared: &Arc<Shared>,
    file_system: &Arc<dyn FileSystem>,
    port: &mut Port,
    entry: Arc<Entry>,
    scratch: &mut Vec<u8>,
) -> bool {
    let Some(queue) = shared.rings.queue(entry.queue) else {
        return false;
    };
    let mut ahead = false;
    loop {
        // The next one is most often like the last one.
        if ahead {
            shared.rings.seats.leave();
        } else {
            shared.rings.seats.take(entry.queue);
        }
        let come = port.wait();
        let left = queue.idle.fetch_sub(1, Ordering::SeqCst) - 1;
        if let Err(errno) = come {
            let error = io::Error::from_raw_os_error(errno);
            tracing::debug!("queue {}: {error}", entry.queue);
            // Refused, or over: the device tells which.
            return errno == libc::ENOENT;
        }
        let (header, ..) = entry.request();
        if left == 0 && header.opcode != op::NOTIFY_REPLY {
            push(shared, Work::Enter(entry.queue, false));
        }
        ahead = is_ahead(&entry);
        match carry_out(shared, file_system, &entry, scratch) {
            After::Left => return true,
            After::Answered => {
                queue.idle.fetch_add(1, Ordering::SeqCst);
                port.commit(&entry);
            }
        }
    }
}

fn carry_out(
    shared: &Arc<Shared>,
    file_system: &Arc<dyn FileSystem>,
    entry: &Arc<Entry>,
    scratch: &mut Vec<u8>,
) -> After {
    let (header, arguments, length) = entry.request();
    let InHeader { opcode, unique, .. } = header;
    // SAFETY: a request has come, and its answer is not before `handle` is done with the bytes, or has said
    // that it is.
    let bytes: &[u8] = unsafe { entry.bytes(length) };
    let in_place = matches!(opcode, op::READ | op::WRITE);
    let data = if in_place {
        bytes
    } else {
        scratch.clear();
        scratch.extend_from_slice(bytes);
        &scratch[..]
    };
    if in_place || opcode == op::OPEN {
        shared.rings.file.store(header.nodeid, Ordering::Relaxed);
    }
    CURRENT.set(Some((unique, false)));
    if !in_place {
        shared.rings.seats.leave();
    }
    let reply = Reply::through(shared.clone(), entry.clone(), &header, in_place);
    match opcode {
        op::NOTIFY_REPLY | op::DESTROY => {
            reply.done();
        }
        op::STATFS if shared.rings.stirring().contains(&header.pid) => {
            reply.error(libc::ENOSYS);
        }
        _ => {
            let request = Request {
                header,
                body: &arguments,
                data: Some(data),
            };
            // Its entry would be lost with the thread. The reply says EIO as it goes.
            let handle = AssertUnwindSafe(|| file_system.handle(request, reply));
            let _ = std::panic::catch_unwind(handle);
        }
    }
    let answered = CURRENT.take() == Some((unique, true));
    if !answered && shared.requests.was_interrupted(unique) {
        file_system.interrupted(unique);
    }
    if answered {
        After::Answered
    } else {
        After::Left
    }
}

/// Whether nobody waits yet for what is asked: a long piece of pages.
fn is_ahead(entry: &Entry) -> bool {
    let (header, arguments, _) = entry.request();
    header.opcode == op::READ
        && ReadIn::read_from_prefix(&arguments)
            .is_ok_and(|(what, _)| what.read_flags & abi::READ_LOCKOWNER == 0 && what.size >= LONG)
}

/// Processors that there can be: each has a queue.
fn possible_processors() -> io::Result<usize> {
    let all = seat::processors("possible")?;
    Ok(all.last().map_or(0, |last| last + 1))
}
