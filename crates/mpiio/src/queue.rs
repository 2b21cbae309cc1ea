//! Work that goes on while the program computes: collectives one after the other, everything else on a
//! few threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::mpi;

type Job = Box<dyn FnOnce() + Send>;

/// How often a thread that waits lets MPI move messages.
const TICK: Duration = Duration::from_millis(1);

/// Threads that take jobs in the order they come in.
#[derive(Debug)]
pub struct Queue {
    threads: usize,
    /// The file's own communicator.
    pub comm: Handle,
    sender: Mutex<Option<Sender<Job>>>,
    pending: Arc<(Mutex<usize>, Condvar)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// With one thread, jobs run one after the other. Threads start with the first job.
    pub fn new(threads: usize, comm: Handle) -> Queue {
        Queue {
            threads,
            comm,
            sender: Mutex::default(),
            pending: Arc::default(),
        }
    }

    /// Hands over a job.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut sender = lock(&self.sender);
        if sender.is_none() {
            let (to, from) = channel();
            let from = Arc::new(Mutex::new(from));
            for _ in 0..self.threads {
                let (from, pending) = (from.clone(), self.pending.clone());
                std::thread::Builder::new()
                    .name("trireme-mpi".into())
                    .spawn(move || work(&from, &pending))
                    .map_err(|error| {
                        Failure::new(Class::NoMem, format!("no thread can be started: {error}"))
                    })?;
            }
            *sender = Some(to);
        }
        *lock(&self.pending.0) += 1;
        let sent = sender.as_ref().map(|sender| sender.send(Box::new(job)));
        if !matches!(sent, Some(Ok(()))) {
            *lock(&self.pending.0) -= 1;
            return Err(Failure::new(Class::Intern, "the worker threads are gone"));
        }
        Ok(())
    }

    /// Waits until everything handed over has been done. Every job ends, by an error if what it waits for
    /// has died.
    pub fn drain(&self) {
        wait(&self.pending.0, &self.pending.1, self.comm, |pending| {
            (*pending == 0).then_some(())
        });
    }
}

/// Waits until there is something, on a thread of the program's that is inside a routine of MPI's: the
/// others may need its messages before they come to what is waited for here.
fn wait<T, R>(
    state: &Mutex<T>,
    changed: &Condvar,
    comm: Handle,
    look: impl Fn(&T) -> Option<R>,
) -> R {
    let mut held = lock(state);
    loop {
        if let Some(found) = look(&held) {
            return found;
        }
        held = changed
            .wait_timeout(held, TICK)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        if look(&held).is_none() {
            drop(held);
            mpi::progress(comm);
            held = lock(state);
        }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>, pending: &(Mutex<usize>, Condvar)) {
    loop {
        let job = lock(jobs).recv();
        let Ok(job) = job else { return };
        // A panic inside must not keep the others waiting for ever.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        *lock(&pending.0) -= 1;
        pending.1.notify_all();
    }
}

/// The result of a job, for whoever waits for it.
#[derive(Debug)]
pub struct Promise<T> {
    value: Mutex<Option<T>>,
    there: Condvar,
}

impl<T> Default for Promise<T> {
    fn default() -> Self {
        Promise {
            value: Mutex::new(None),
            there: Condvar::new(),
        }
    }
}

impl<T: Clone> Promise<T> {
    pub fn keep(&self, value: T) {
        *lock(&self.value) = Some(value);
        self.there.notify_all();
    }

    pub fn look(&self) -> Option<T> {
        lock(&self.value).clone()
    }

    pub fn wait(&self, comm: Handle) -> T {
        wait(&self.value, &self.there, comm, Clone::clone)
    }
}
