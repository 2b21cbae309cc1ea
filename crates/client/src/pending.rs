//! Operations that run while the caller computes: the papers' readstart and readend, as plain calls
//! ([`Pending::wait`]) and as futures.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::{Error, Result};

/// Operations of one client that run at the same time; more wait for their turn.
const WORKERS: usize = 16;

/// How long a thread without work stays.
const LINGER: Duration = Duration::from_secs(5);

type Work = Box<dyn FnOnce() + Send>;

/// Threads that carry out started operations, made when needed.
#[derive(Default)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    more: Condvar,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    threads: usize,
    idle: usize,
}

impl std::fmt::Debug for Workers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Workers")
    }
}

impl Workers {
    /// Runs `work` on some thread.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Pending<T> {
        let (state, task) = prepare(work);
        let mut queue = self.shared.queue.lock().expect("no panic under this lock");
        queue.work.push_back(task);
        if queue.idle < queue.work.len() && queue.threads < WORKERS {
            let shared = self.shared.clone();
            let spawned = std::thread::Builder::new()
                .name("trireme-io".into())
                .spawn(move || shared.run());
            if spawned.is_ok() {
                queue.threads += 1;
            } else if queue.threads == 0 {
                // No thread to be had: do it here, later is better than never.
                let work = queue.work.pop_back();
                drop(queue);
                if let Some(work) = work {
                    work();
                }
                return Pending { state };
            }
        }
        drop(queue);
        self.shared.more.notify_one();
        Pending { state }
    }
}

/// Runs `work` on a thread of its own.
pub(crate) fn start_apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Pending<T> {
    let (state, task) = prepare(work);
    let spawned = std::thread::Builder::new()
        .name("trireme-group".into())
        .spawn(task);
    if let Err(source) = spawned {
        let what = "no thread for the operation".into();
        state.finish(Err(Error::Local { what, source }));
    }
    Pending { state }
}

/// The operation's state, and the task that fills it.
fn prepare<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> (Arc<State<T>>, Work) {
    let state = Arc::new(State {
        slot: Mutex::new(Slot::default()),
        done: Condvar::new(),
    });
    let ours = state.clone();
    let task: Work = Box::new(move || {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work))
            .unwrap_or_else(|_| Err(Error::Invalid("the operation panicked".into())));
        ours.finish(result);
    });
    (state, task)
}

impl Shared {
    fn run(&self) {
        let mut queue = self.queue.lock().expect("no panic under this lock");
        loop {
            while let Some(work) = queue.work.pop_front() {
                drop(queue);
                work();
                queue = self.queue.lock().expect("no panic under this lock");
            }
            queue.idle += 1;
            let (back, wait) = self
                .more
                .wait_timeout(queue, LINGER)
                .expect("no panic under this lock");
            queue = back;
            queue.idle -= 1;
            if wait.timed_out() && queue.work.is_empty() {
                queue.threads -= 1;
                return;
            }
        }
    }
}

/// An operation that was started. [`Pending::wait`] for it, or `.await` it; dropping it
/// does not stop it.
#[must_use = "a started operation may fail: wait for it"]
pub struct Pending<T> {
    state: Arc<State<T>>,
}

struct State<T> {
    slot: Mutex<Slot<T>>,
    done: Condvar,
}

struct Slot<T> {
    result: Option<Result<T>>,
    waker: Option<Waker>,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot {
            result: None,
            waker: None,
        }
    }
}

impl<T> State<T> {
    fn finish(&self, result: Result<T>) {
        let mut slot = self.slot.lock().expect("no panic under this lock");
        slot.result = Some(result);
        let waker = slot.waker.take();
        drop(slot);
        self.done.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Pending<T> {
    /// Waits for the end; every operation has a deadline, so this returns.
    pub fn wait(self) -> Result<T> {
        let mut slot = self.state.slot.lock().expect("no panic under this lock");
        loop {
            if let Some(result) = slot.result.take() {
                return result;
            }
            slot = self
                .state
                .done
                .wait(slot)
                .expect("no panic under this lock");
        }
    }

    /// Whether it has ended.
    pub fn is_done(&self) -> bool {
        self.state
            .slot
            .lock()
            .expect("no panic under this lock")
            .result
            .is_some()
    }
}

impl<T> std::fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pending")
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let mut slot = self.state.slot.lock().expect("no panic under this lock");
        if let Some(result) = slot.result.take() {
            return Poll::Ready(result);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
