//! The commit queue: many transactions, one engine commit, one fsync.
//!
//! One thread takes everything that waits, runs each transaction against the engine plus what the
//! batch wrote so far, commits once, and only then answers, so that whoever got an answer, also
//! "exists already", saw nothing that a power cut could take back. While the disk syncs, the next
//! batch gathers: the busier, the larger, and nobody waits for a timer.
//!
//! A conflict (somebody else wrote to a shared engine) runs the whole batch again, which is why a
//! transaction is a function that may be called more than once.

use crate::cache::Cache;
use crate::failure::{Errno, Failure};
use crate::kv::Outcome;
use crate::txn::{Batch, Txn, engine_failure};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use trireme_proto::message::meta::Time;

/// Most transactions in one commit: bounds how long the first of a batch waits for the last.
pub const BATCH_LIMIT: usize = 512;
/// Most keys one transaction writes (an inode with all its extended attributes counts as few).
const TXN_WRITES: usize = 16;
/// Runs of one batch before giving up: each one means that another writer made progress.
const ATTEMPTS: usize = 64;

/// A soft commit is made durable after this time at the latest.
const SOFT_TIME: Duration = Duration::from_secs(1);

trait Job: Send {
    fn is_soft(&self) -> bool;
    fn run(&mut self, txn: Txn<'_>);
    fn finish(self: Box<Self>, failed: Option<&Failure>);
}

struct Work<T, F, D> {
    soft: bool,
    body: F,
    done: D,
    result: Option<Result<T, Failure>>,
}

impl<T, F, D> Job for Work<T, F, D>
where
    T: Send,
    F: FnMut(&mut Txn<'_>) -> Result<T, Failure> + Send,
    D: FnOnce(Result<T, Failure>) + Send,
{
    fn is_soft(&self) -> bool {
        self.soft
    }

    fn run(&mut self, mut txn: Txn<'_>) {
        let result = (self.body)(&mut txn);
        if result.is_ok() {
            txn.keep();
        }
        self.result = Some(result);
    }

    fn finish(self: Box<Self>, failed: Option<&Failure>) {
        let own = self.result.unwrap_or_else(|| Err(stopped()));
        // When the commit failed nobody knows what stuck, so everybody hears of it.
        (self.done)(failed.map_or(own, |failure| Err(failure.clone())));
    }
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Box<dyn Job>>,
    stop: bool,
}

struct Shared {
    cache: Arc<Cache>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
}

/// The queue and its thread. Dropping it answers everything that waits, then stops.
pub struct Queue {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

fn stopped() -> Failure {
    Failure {
        errno: Errno::Io,
        what: "the metadata manager is stopping".into(),
    }
}

impl Queue {
    /// Starts the thread. `clock` stamps transactions.
    pub fn start(cache: Arc<Cache>, clock: impl Fn() -> Time + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared {
            cache,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            clock: Box::new(clock),
        });
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("commit".into())
                .spawn(move || work(&shared))
        };
        Self {
            shared,
            thread: Some(thread.expect("a thread for the commit queue")),
        }
    }

    /// Queues a transaction; `done` is called on the queue's thread once it is durable or failed,
    /// and must not block.
    pub fn submit<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Txn<'_>) -> Result<T, Failure> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        self.submit_as(false, body, done);
    }

    /// The same; when `soft`, the answer may come before the change is safe from a power cut.
    pub fn submit_as<T: Send + 'static>(
        &self,
        soft: bool,
        body: impl FnMut(&mut Txn<'_>) -> Result<T, Failure> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        let job = Box::new(Work {
            soft,
            body,
            done,
            result: None,
        });
        let mut waiting = self
            .shared
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if waiting.stop {
            drop(waiting);
            job.finish(Some(&stopped()));
            return;
        }
        waiting.jobs.push_back(job);
        if waiting.jobs.len() == 1 {
            self.shared.arrived.notify_one();
        }
    }

    /// Runs a transaction and waits until it is durable.
    pub fn run<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Txn<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let (send, receive) = std::sync::mpsc::sync_channel(1);
        self.submit(body, move |result| {
            // The waiter cannot have gone: it blocks just below.
            let _ = send.send(result);
        });
        receive.recv().unwrap_or_else(|_| Err(stopped()))
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shared
            .waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stop = true;
        self.shared.arrived.notify_all();
        // The last one to hold the manager may be a transaction on the queue's own thread.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

fn work(shared: &Shared) {
    // When the first soft commit was made that is not durable yet.
    let mut soft_since: Option<Instant> = None;
    let most = BATCH_LIMIT.min((shared.cache.engine().limits().writes / TXN_WRITES).max(1));
    loop {
        let mut batch: Vec<Box<dyn Job>> = {
            let mut waiting = shared
                .waiting
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            while waiting.jobs.is_empty() {
                if waiting.stop {
                    if soft_since.is_some()
                        && let Err(failure) = commit(shared, &mut [], false, true)
                    {
                        tracing::error!(%failure, "the last metadata commits may be lost");
                    }
                    return;
                }
                let Some(since) = soft_since else {
                    waiting = shared
                        .arrived
                        .wait(waiting)
                        .unwrap_or_else(PoisonError::into_inner);
                    continue;
                };
                let left = SOFT_TIME.saturating_sub(since.elapsed());
                if left.is_zero() {
                    break;
                }
                waiting = shared
                    .arrived
                    .wait_timeout(waiting, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            let count = waiting.jobs.len().min(most);
            waiting.jobs.drain(..count).collect()
        };
        let overdue = soft_since.is_some_and(|since| since.elapsed() >= SOFT_TIME);
        let soft = !overdue && !batch.is_empty() && batch.iter().all(|job| job.is_soft());
        let failed = commit(shared, &mut batch, soft, soft_since.is_some()).err();
        soft_since = match failed {
            _ if soft => soft_since.or_else(|| Some(Instant::now())),
            // Tried again with the next commit, or after the time.
            Some(_) => soft_since.map(|_| Instant::now()),
            None => None,
        };
        if let Some(failure) = &failed {
            tracing::error!(%failure, "a metadata commit failed");
        }
        for job in batch {
            job.finish(failed.as_ref());
        }
    }
}

/// Runs jobs and commits them together; `owed`: earlier soft commits are to become durable, unless
/// this one is soft as well.
fn commit(
    shared: &Shared,
    jobs: &mut [Box<dyn Job>],
    soft: bool,
    owed: bool,
) -> Result<(), Failure> {
    for _ in 0..ATTEMPTS {
        let mut batch = Batch::default();
        batch.commit.soft = soft;
        batch.commit.base = shared
            .cache
            .engine()
            .revision()
            .map_err(|e| engine_failure(&e))?;
        let now = (shared.clock)();
        for job in &mut *jobs {
            job.run(Txn::new(&shared.cache, &mut batch, now));
        }
        // Nothing to write: what was read was committed, so the answers stand as they are.
        if batch.commit.writes.is_empty() && (soft || !owed) {
            return Ok(());
        }
        match shared
            .cache
            .commit(&batch.commit)
            .map_err(|e| engine_failure(&e))?
        {
            Outcome::Done { .. } => return Ok(()),
            Outcome::Conflict { .. } => {}
        }
    }
    Err(Failure {
        errno: Errno::Busy,
        what: format!("{ATTEMPTS} attempts to commit met other writers; try again"),
    })
}
