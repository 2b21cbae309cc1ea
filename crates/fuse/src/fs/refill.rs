//! What was written past the kernel's cache is put into it afterwards, when nobody needs the processors.
//!
//! Writing through the cache would make writes half as fast: the kernel makes a page for every 4 KiB on the
//! writer's time. Not doing it at all would make whoever reads the file next wait for these pages. So a
//! thread of the lowest priority does it when the file has been closed, unless somebody is quicker.
//! Only for bytes that servers of this host have in memory: others would have to come back over the network.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use trireme::{File, TransferOptions};
use trireme_proto::message::meta::{OpenMode, Place};

use super::node::{Node, Version, version};
use super::{Inner, Outcome, library_errno};
use crate::buffer::with_buffer;
use crate::kernel::abi::InHeader;
use crate::kernel::{Notifier, waiting_for_kernel};

/// Less is read in no time.
const LEAST: u64 = 1 << 20;
/// Bytes fetched at a time.
const FETCH: usize = 1 << 20;
/// Bytes given to the kernel at a time: whoever wants to change the file waits for no more than this.
const GIVE: usize = 128 << 10;
/// Files that wait for their turn; the oldest are let go.
const QUEUE: usize = 64;
/// Threads that fill at a time, where there are as many processors.
const THREADS: usize = 4;
const PAGE: u64 = 4096;
/// How long a fill waits for those who read past the cache, and how often it looks.
const WAIT: Duration = Duration::from_secs(10);
const WAIT_STEP: Duration = Duration::from_millis(10);
/// The lowest priority that still makes some progress beside others: what is being given to the kernel at
/// this moment may be waited for.
const NICE: i32 = 19;

/// Bytes that were written past the kernel's cache.
#[derive(Debug, Default, Clone)]
pub(super) struct Written {
    /// From the first to behind the last of them.
    range: Range<u64>,
    /// How many, those that were written twice twice.
    bytes: u64,
}

impl Written {
    pub fn add(&mut self, offset: u64, length: u64) {
        let end = offset.saturating_add(length);
        self.range = if self.bytes == 0 {
            offset..end
        } else {
            self.range.start.min(offset)..self.range.end.max(end)
        };
        self.bytes = self.bytes.saturating_add(length);
    }

    /// What of it the kernel shall have, if it is worth the trouble: whole pages, and not the first of the
    /// file, so that whoever reads it from the beginning still makes a request and is seen to read.
    fn worth_having(&self, size: u64) -> Option<Range<u64>> {
        let end = self.range.end.min(size);
        let start = self.range.start.next_multiple_of(PAGE).max(PAGE);
        let end = if end == size { end } else { end / PAGE * PAGE };
        let length = end.checked_sub(start).filter(|length| *length >= LEAST)?;
        (self.bytes >= length / 2).then_some(start..end)
    }
}

/// A file on its way into the kernel's cache.
#[derive(Debug)]
pub(super) struct Fill {
    /// What the file is while these are its bytes.
    pub version: Version,
    /// The kernel shall take it for something in use.
    in_use: bool,
    /// Held for reading while bytes are given to the kernel; true when no more must be.
    stopped: RwLock<bool>,
}

impl Fill {
    fn is_stopped(&self) -> bool {
        *self.stopped.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whoever is just giving bytes may wait for pages that are being read.
    pub fn stop(&self) {
        let stop = || *self.stopped.write().unwrap_or_else(PoisonError::into_inner) = true;
        waiting_for_kernel(stop);
    }
}

#[derive(Debug)]
struct Job {
    inode: u64,
    version: Version,
    range: Range<u64>,
}

/// Files that were written and closed.
#[derive(Debug, Default)]
pub(super) struct Refill {
    queue: Mutex<VecDeque<Job>>,
    changed: Condvar,
}

impl Refill {
    /// Nothing more will come.
    pub fn end(&self) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.clear();
        drop(queue);
        self.changed.notify_all();
    }
}

/// Starts the thread.
pub(super) fn start(inner: &Arc<Inner>) {
    if !inner.caches() {
        return;
    }
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-refill".into())
        .spawn(move || {
            if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                tracing::debug!("the kernel's cache is filled at full priority: {error}");
            }
            while let Some(job) = inner.next_refill() {
                if let Err(errno) = inner.refill(&job) {
                    let error = std::io::Error::from_raw_os_error(errno);
                    tracing::debug!("file {} is not cached: {error}", job.inode);
                }
            }
        });
    if let Err(error) = thread {
        tracing::warn!("what is written is not cached: {error}");
    }
}

impl Inner {
    /// A file was closed by the last of those who wrote to it past the cache; `lent` when all of it is on
    /// this host.
    pub(super) fn offer_refill(&self, inode: u64, lent: bool) {
        let job = self.nodes.with(inode, |node| {
            let written = std::mem::take(&mut node.past_cache);
            let range = written.worth_having(node.attr.size)?;
            let wanted = lent && node.attr.settled && node.lookups > 0 && self.caches();
            wanted.then(|| Job {
                inode,
                version: version(&node.attr),
                range,
            })
        });
        if let Some(job) = job.flatten() {
            self.queue_refill(job);
        }
    }

    /// A file was read past the cache and closed. Whoever reads it again and again had better read from there.
    pub(super) fn was_read_past_cache(&self, inode: u64) {
        let job = self.nodes.with(inode, |node| {
            let version = version(&node.attr);
            let again = node.read_past.replace(version) == Some(version);
            let wanted = again && node.attr.settled && node.lookups > 0 && node.fill.is_none();
            wanted.then_some(Job {
                inode,
                version,
                range: PAGE..node.attr.size,
            })
        });
        if let Some(job) = job.flatten() {
            self.queue_refill(job);
        }
    }

    fn queue_refill(&self, job: Job) {
        let refill = &self.refill;
        let mut queue = refill.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.len() >= QUEUE {
            queue.pop_front();
        }
        queue.push_back(job);
        drop(queue);
        refill.changed.notify_one();
    }

    fn next_refill(&self) -> Option<Job> {
        let refill = &self.refill;
        let mut queue = refill.queue.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if self.over.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(job) = queue.pop_front() {
                return Some(job);
            }
            queue = refill
                .changed
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The file is about to change, or has: nothing more of what it was goes into the kernel's cache once
    /// this returns.
    pub(super) fn stop_refill(&self, inode: u64) {
        let fill = self.nodes.with(inode, |node| node.fill.take()).flatten();
        if let Some(fill) = fill {
            fill.stop();
        }
    }

    fn refill(&self, job: &Job) -> Outcome<()> {
        let length = job.range.end - job.range.start;
        if length > memory("MemAvailable:") / 4 {
            return Ok(());
        }
        let fill = Arc::new(Fill {
            version: job.version,
            // Where memory is short, what nobody has read must not drive out what is in use.
            in_use: length <= memory("MemFree:") / 4,
            stopped: RwLock::new(false),
        });
        let known = self.nodes.with(job.inode, |node| {
            let same = version(&node.attr) == job.version;
            if same {
                node.fill = Some(fill.clone());
            }
            same
        });
        // Whoever opens it for writing is found here, or finds the fill and stops it.
        if known == Some(true) && self.handles.writers(job.inode).is_empty() {
            let done = self.fill(job, &fill);
            self.end_fill(job.inode, &fill);
            return done;
        }
        self.end_fill(job.inode, &fill);
        Ok(())
    }

    fn end_fill(&self, inode: u64, fill: &Arc<Fill>) {
        self.nodes.with(inode, |node| {
            if node.fill.as_ref().is_some_and(|one| Arc::ptr_eq(one, fill)) {
                node.fill = None;
            }
        });
    }

    fn fill(&self, job: &Job, fill: &Fill) -> Outcome<()> {
        let Some(notifier) = self.notifier.get() else {
            return Ok(());
        };
        let access = OpenMode {
            read: true,
            write: false,
        };
        let nobody = InHeader::default();
        let place = Place::inode(job.inode);
        let opened = self.open_at_manager(&nobody, place, access, None, false)?;
        let attr = opened.opened.entry.attr.clone();
        let file = File::adopt(&self.cluster, opened).map_err(|error| library_errno(&error))?;
        // Nobody waits for this, so nobody else's time is to be spent on it.
        file.set_transfer(TransferOptions {
            second: false,
            ..file.transfer()
        });
        if !attr.settled || version(&attr) != job.version {
            return Ok(());
        }
        // Unless somebody has opened it meanwhile: then the kernel began anew with this version.
        self.renew_pages(job.inode, Some(job.version));
        self.nodes.with(job.inode, Node::gets_pages);
        // Making pages takes most of the time, and is done on all processors at once.
        let next = AtomicU64::new(job.range.start);
        let give = || -> Outcome<Vec<Edge>> {
            let mut edges = Vec::new();
            loop {
                let at = next.fetch_add(FETCH as u64, Ordering::Relaxed);
                let length = job.range.end.saturating_sub(at).min(FETCH as u64) as usize;
                let piece = (at, length);
                if length == 0
                    || !self.when_idle(fill)
                    || !give_piece(notifier, fill, job.inode, &file, piece, &mut edges)?
                {
                    return Ok(edges);
                }
            }
        };
        let edges = std::thread::scope(|scope| {
            let helpers: Vec<_> = (1..threads()).map(|_| scope.spawn(give)).collect();
            let mut all = vec![give()];
            all.extend(
                helpers
                    .into_iter()
                    .map(|helper| helper.join().unwrap_or(Err(libc::EIO))),
            );
            all.into_iter().collect::<Outcome<Vec<_>>>()
        })?;
        if fill.in_use {
            let mut edges = edges.iter().flatten();
            edges.all(|(place, bytes)| give_bytes(notifier, fill, job.inode, *place, bytes));
        }
        Ok(())
    }
}

impl Inner {
    /// Waits while somebody reads past the cache, who needs the processors now; false when that takes long.
    fn when_idle(&self, fill: &Fill) -> bool {
        let end = Instant::now() + WAIT;
        while self.programs.is_reading() {
            if fill.is_stopped() || self.over.load(Ordering::SeqCst) || Instant::now() > end {
                return false;
            }
            std::thread::sleep(WAIT_STEP);
        }
        true
    }
}

/// The last byte of a page and the first of the next, and where they are.
type Edge = (u64, [u8; 2]);

/// Gives one piece of a file to the kernel; false when no more is wanted.
///
/// The kernel takes pages that were just made for used once, and moves each to those in use when it is used
/// again, which takes a quarter of a first read's time. So they are used again when all are there, by the bytes
/// that `edges` gets: one edge touches two pages.
fn give_piece(
    notifier: &Notifier,
    fill: &Fill,
    inode: u64,
    file: &File,
    (at, length): (u64, usize),
    edges: &mut Vec<Edge>,
) -> Outcome<bool> {
    with_buffer(length, |bytes| {
        match file.read_at(bytes, at) {
            Ok(got) if got == length => {}
            Ok(_) => return Ok(false),
            Err(error) => return Err(library_errno(&error)),
        }
        let page = PAGE as usize;
        edges.extend((page..length).step_by(2 * page).map(|edge| {
            let place = at + edge as u64 - 1;
            (place, [bytes[edge - 1], bytes[edge]])
        }));
        let places = (at..).step_by(GIVE);
        let mut pieces = bytes.chunks(GIVE).zip(places);
        Ok(pieces.all(|(piece, place)| give_bytes(notifier, fill, inode, place, piece)))
    })
}

/// Gives bytes to the kernel, unless that has been stopped.
fn give_bytes(notifier: &Notifier, fill: &Fill, inode: u64, place: u64, bytes: &[u8]) -> bool {
    let stopped = fill.stopped.read().unwrap_or_else(PoisonError::into_inner);
    !*stopped && notifier.store_data(inode, place, bytes)
}

fn threads() -> usize {
    let processors = std::thread::available_parallelism();
    processors.map_or(1, |count| count.get().min(THREADS))
}

/// Bytes of memory of a kind that the kernel counts.
fn memory(kind: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(kind));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(pieces: &[(u64, u64)]) -> Written {
        let mut written = Written::default();
        for (offset, length) in pieces {
            written.add(*offset, *length);
        }
        written
    }

    #[test]
    fn all_but_the_first_page_of_a_new_file_is_worth_having() {
        let size = (4 << 20) + 77;
        let whole = written(&[(0, 2 << 20), (2 << 20, (2 << 20) + 77)]);
        assert_eq!(whole.worth_having(size), Some(PAGE..size));
        // Somebody cut it.
        assert_eq!(whole.worth_having(2 << 20), Some(PAGE..2 << 20));
        assert_eq!(whole.worth_having(0), None);
    }

    #[test]
    fn pages_that_were_not_written_whole_are_left_out() {
        let amid = written(&[(10_000, 3 << 20)]);
        let range = amid.worth_having(1 << 30).unwrap();
        assert_eq!(range, 12_288..(10_000 + (3 << 20)) / PAGE * PAGE);
    }

    #[test]
    fn little_and_scattered_writes_are_not_worth_it() {
        assert_eq!(written(&[(0, 1000)]).worth_having(1000), None);
        let scattered = written(&[(0, 1 << 20), (1 << 30, 1 << 20)]);
        assert_eq!(scattered.worth_having(1 << 40), None);
        assert_eq!(Written::default().worth_having(1 << 30), None);
    }
}
