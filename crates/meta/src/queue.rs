//! The commit queue: many transactions, one engine commit, one fsync.
//!
//! One thread takes everything that waits and runs each transaction against the engine plus what the
//! batch wrote so far; another commits the batch and only then answers, so that whoever got an answer,
//! also "exists already", saw nothing that a power cut could take back. While one batch is committed, the
//! next is run on top of it, and the one after that gathers: the busier, the larger, and nobody waits for
//! a timer. Should a commit fail, what was run on top of it is run again without it.
//!
//! A transaction that need not be safe from a power cut before it is answered, and that finds nothing else
//! under way, is run and committed by the thread that brings it: waking another one costs more than that.
//!
//! Over an engine that others write to as well, one batch comes after the other. A conflict (somebody
//! else wrote) runs the whole batch again, which is why a transaction is a function that may be called
//! more than once.

use crate::cache::Cache;
use crate::failure::{Errno, Failure};
use crate::kv::{Commit, Outcome};
use crate::txn::{Batch, Txn, engine_failure};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
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

struct Waiting {
    jobs: VecDeque<Box<dyn Job>>,
    /// The turn to run transactions, while nobody has it.
    turn: Option<Ahead>,
    stop: bool,
    /// A batch that was run, for the thread that commits.
    handed: Option<Handed>,
    /// That thread has not come to its end with it.
    committing: bool,
    /// How that ended, for the thread that runs.
    committed: Option<Result<(), Failure>>,
    /// Nothing will be handed over any more.
    over: bool,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            jobs: VecDeque::new(),
            turn: Some(Ahead::default()),
            stop: false,
            handed: None,
            committing: false,
            committed: None,
            over: false,
        }
    }
}

impl Waiting {
    /// The turn, for a soft transaction that nothing comes before or has to be told first.
    fn turn_at_once(&mut self) -> Option<Ahead> {
        let quiet = self.jobs.is_empty() && !self.committing && self.committed.is_none();
        self.turn.take_if(|ahead| quiet && !ahead.is_overdue())
    }
}

struct Handed {
    commit: Arc<Commit>,
    jobs: Vec<Box<dyn Job>>,
}

struct Shared {
    cache: Arc<Cache>,
    waiting: Mutex<Waiting>,
    /// Something for the thread that runs: jobs, the end of a commit, the end of all.
    arrived: Condvar,
    /// Something for the thread that commits.
    handed: Condvar,
    clock: Box<dyn Fn() -> Time + Send + Sync>,
}

/// The queue and its threads. Dropping it answers everything that waits, then stops.
pub struct Queue {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
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
            handed: Condvar::new(),
            clock: Box::new(clock),
        });
        let start = |name: &str, work: fn(&Shared)| {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || work(&shared))
                .expect("a thread for the commit queue")
        };
        let threads = vec![start("run", run_batches), start("commit", commit_batches)];
        Self { shared, threads }
    }

    /// Queues a transaction; `done` is called on one of the queue's threads once it is durable or failed,
    /// and must not block.
    pub fn submit<T: Send + 'static>(
        &self,
        body: impl FnMut(&mut Txn<'_>) -> Result<T, Failure> + Send + 'static,
        done: impl FnOnce(Result<T, Failure>) + Send + 'static,
    ) {
        self.submit_as(false, body, done);
    }

    /// The same; when `soft`, the answer may come before the change is safe from a power cut, and all of it
    /// may happen before this returns.
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
        let mut waiting = self.shared.waiting();
        if waiting.stop {
            drop(waiting);
            job.finish(Some(&stopped()));
            return;
        }
        if soft
            && self.shared.cache.is_exclusive()
            && let Some(ahead) = waiting.turn_at_once()
        {
            drop(waiting);
            self.shared.run_here(ahead, job);
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
        self.shared.waiting().stop = true;
        self.shared.arrived.notify_all();
        // The last one to hold the manager may be a transaction on one of the queue's own threads.
        let own = std::thread::current().id();
        if self
            .threads
            .iter()
            .all(|thread| thread.thread().id() != own)
        {
            for thread in self.threads.drain(..) {
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most jobs of one batch.
    fn most(&self) -> usize {
        BATCH_LIMIT.min((self.cache.engine().limits().writes / TXN_WRITES).max(1))
    }

    /// Runs and commits one transaction on the thread that brought it.
    fn run_here(&self, ahead: Ahead, job: Box<dyn Job>) {
        let mut turn = Turn {
            shared: self,
            ahead,
        };
        let mut jobs = vec![job];
        let batch = run(self, &mut jobs, None);
        hand_over(self, &mut turn.ahead, batch, jobs);
    }
}

/// The turn of a thread that is not the queue's own: goes back when it is dropped, after a panic as well.
struct Turn<'a> {
    shared: &'a Shared,
    ahead: Ahead,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut waiting = self.shared.waiting();
        // Whoever sleeps without knowing of soft commits must learn when they have to be durable.
        let news = !waiting.jobs.is_empty() || waiting.stop || self.ahead.is_first;
        self.ahead.is_first = false;
        waiting.turn = Some(std::mem::take(&mut self.ahead));
        drop(waiting);
        if news {
            self.shared.arrived.notify_one();
        }
    }
}

/// What the thread that runs knows of the commits so far.
#[derive(Default)]
struct Ahead {
    /// When the first soft commit was made that is not durable yet, the one under way included.
    soft_since: Option<Instant>,
    /// The same without the one under way.
    before: Option<Instant>,
    /// The one that the other thread has.
    commit: Option<Arc<Commit>>,
    /// Soft commits were to become durable because the queue stops.
    last: bool,
    /// The last soft commit is the first one of those that are not durable yet.
    is_first: bool,
}

impl Ahead {
    /// Whether a batch may be answered before it is durable.
    fn allows_soft(&self, jobs: &[Box<dyn Job>]) -> bool {
        !self.is_overdue() && !jobs.is_empty() && jobs.iter().all(|job| job.is_soft())
    }

    /// Whether soft commits should be durable by now.
    fn is_overdue(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }

    fn begun(&mut self, soft: bool) {
        self.before = self.soft_since;
        self.soft_since = self.before.or(Some(Instant::now())).filter(|_| soft);
        self.is_first = soft && self.before.is_none();
    }

    /// The commit has ended. Gives whether it failed.
    fn ended(&mut self, result: Result<(), Failure>) -> bool {
        self.commit = None;
        let Err(failure) = result else {
            return false;
        };
        tracing::error!(%failure, "a metadata commit failed");
        // What was owed still is: tried again with the next commit, or after the time.
        if self.soft_since.is_none() {
            self.soft_since = self.before.map(|_| Instant::now());
        }
        true
    }

    /// Time until the soft commits must become durable, if there are any.
    fn left(&self) -> Option<Duration> {
        Some(SOFT_TIME.saturating_sub(self.soft_since?.elapsed()))
    }
}

fn run_batches(shared: &Shared) {
    let most = shared.most();
    while let Some((mut ahead, mut jobs)) = next_jobs(shared, most) {
        if shared.cache.is_exclusive() {
            let mut batch = run(shared, &mut jobs, ahead.commit.clone());
            if wait_for_commit(shared, &mut ahead) {
                batch = run(shared, &mut jobs, None);
            }
            hand_over(shared, &mut ahead, batch, jobs);
        } else {
            let soft = ahead.allows_soft(&jobs);
            let owed = ahead.soft_since.is_some();
            ahead.begun(soft);
            let result = commit(shared, &mut jobs, soft, owed);
            finish(jobs, result.as_ref().err());
            ahead.ended(result);
        }
        shared.waiting().turn = Some(ahead);
    }
    shared.waiting().over = true;
    shared.handed.notify_all();
}

/// Waits for the turn and for jobs, or until soft commits must become durable, which needs none; `None`: it
/// is over.
fn next_jobs(shared: &Shared, most: usize) -> Option<(Ahead, Vec<Box<dyn Job>>)> {
    let mut waiting = shared.waiting();
    loop {
        let mut left = None;
        if let Some(mut ahead) = waiting.turn.take() {
            if !waiting.jobs.is_empty() {
                let count = waiting.jobs.len().min(most);
                return Some((ahead, waiting.jobs.drain(..count).collect()));
            }
            if let Some(result) = waiting.committed.take() {
                ahead.ended(result);
            }
            left = ahead.left().filter(|_| !waiting.committing);
            if waiting.stop && !waiting.committing {
                let owed = left.is_some() && !ahead.last;
                ahead.last = true;
                return owed.then(|| (ahead, Vec::new()));
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Some((ahead, Vec::new()));
            }
            waiting.turn = Some(ahead);
        }
        waiting = if let Some(left) = left {
            let waited = shared.arrived.wait_timeout(waiting, left);
            waited.unwrap_or_else(PoisonError::into_inner).0
        } else {
            let waited = shared.arrived.wait(waiting);
            waited.unwrap_or_else(PoisonError::into_inner)
        };
    }
}

/// Waits until nothing is being committed. Gives whether the last one failed.
fn wait_for_commit(shared: &Shared, ahead: &mut Ahead) -> bool {
    let mut waiting = shared.waiting();
    while waiting.committing {
        let waited = shared.arrived.wait(waiting);
        waiting = waited.unwrap_or_else(PoisonError::into_inner);
    }
    let result = waiting.committed.take();
    drop(waiting);
    result.is_some_and(|result| ahead.ended(result))
}

/// Has a batch committed while nothing else is: by the other thread if there is more to run meanwhile.
fn hand_over(shared: &Shared, ahead: &mut Ahead, batch: Batch, jobs: Vec<Box<dyn Job>>) {
    let soft = ahead.allows_soft(&jobs);
    // Nothing to write: what was read was committed, so the answers stand as they are.
    if batch.commit.writes.is_empty() && (soft || ahead.soft_since.is_none()) {
        return finish(jobs, None);
    }
    let mut commit = batch.commit;
    commit.soft = soft;
    match shared.cache.engine().revision() {
        Ok(revision) => commit.base = revision,
        Err(error) => return finish(jobs, Some(&engine_failure(&error))),
    }
    ahead.begun(soft);
    let mut waiting = shared.waiting();
    if waiting.jobs.is_empty() {
        drop(waiting);
        let result = commit_one(shared, &commit);
        finish(jobs, result.as_ref().err());
        ahead.ended(result);
        return;
    }
    let commit = Arc::new(commit);
    ahead.commit = Some(commit.clone());
    waiting.committing = true;
    waiting.handed = Some(Handed { commit, jobs });
    shared.handed.notify_one();
}

fn commit_one(shared: &Shared, commit: &Commit) -> Result<(), Failure> {
    match shared.cache.commit(commit) {
        Ok(Outcome::Done { .. }) => Ok(()),
        // Cannot be: nobody else writes.
        Ok(Outcome::Conflict { .. }) => Err(conflicts(1)),
        Err(error) => Err(engine_failure(&error)),
    }
}

fn commit_batches(shared: &Shared) {
    let mut waiting = shared.waiting();
    loop {
        if let Some(Handed { commit, jobs }) = waiting.handed.take() {
            drop(waiting);
            let result = commit_one(shared, &commit);
            let failed = result.as_ref().err().cloned();
            waiting = shared.waiting();
            waiting.committing = false;
            waiting.committed = Some(result);
            drop(waiting);
            shared.arrived.notify_all();
            finish(jobs, failed.as_ref());
            waiting = shared.waiting();
        } else if waiting.over {
            return;
        } else {
            let waited = shared.handed.wait(waiting);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn finish(jobs: Vec<Box<dyn Job>>, failed: Option<&Failure>) {
    for job in jobs {
        job.finish(failed);
    }
}

/// Runs jobs on top of a commit that may still be under way.
fn run(shared: &Shared, jobs: &mut [Box<dyn Job>], ahead: Option<Arc<Commit>>) -> Batch {
    let mut batch = Batch {
        ahead,
        ..Batch::default()
    };
    let now = (shared.clock)();
    for job in jobs {
        job.run(Txn::new(&shared.cache, &mut batch, now));
    }
    batch
}

fn conflicts(attempts: usize) -> Failure {
    Failure {
        errno: Errno::Busy,
        what: format!("{attempts} attempts to commit met other writers; try again"),
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
        let base = shared.cache.engine().revision();
        let base = base.map_err(|e| engine_failure(&e))?;
        let mut batch = run(shared, jobs, None);
        batch.commit.soft = soft;
        batch.commit.base = base;
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
    Err(conflicts(ATTEMPTS))
}

#[cfg(test)]
mod tests;
