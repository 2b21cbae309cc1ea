//! Work that goes on while the program computes: collectives one after the other, everything else on a
//! few threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::class::{Class, Failure, Result};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs in the order they come in.
#[derive(Debug)]
pub struct Queue {
    threads: usize,
    sender: Mutex<Option<Sender<Job>>>,
    pending: Arc<(Mutex<usize>, Condvar)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// With one thread, jobs run one after the other. Threads start with the first job.
    pub fn new(threads: usize) -> Queue {
        Queue {
            threads,
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

    /// Waits until everything handed over has been done. Every job ends: its calls have deadlines.
    pub fn drain(&self) {
        let mut pending = lock(&self.pending.0);
        while *pending > 0 {
            pending = self
                .pending
                .1
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
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

    pub fn wait(&self) -> T {
        let mut value = lock(&self.value);
        loop {
            if let Some(value) = value.as_ref() {
                return value.clone();
            }
            value = self
                .there
                .wait(value)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
