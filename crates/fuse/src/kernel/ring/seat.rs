//! Which processors a thread that serves a queue may run on.
//!
//! Whoever made a call waits for its answer, so the processor that it was made on is free, and its caches have
//! what the call is about; to wake another one that sleeps takes longer than most calls. But the kernel wakes
//! up others if it may. What it reads ahead nobody waits for yet: that is done beside the program.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Where one thread runs.
#[derive(Debug)]
pub(super) struct Seat {
    /// Where it may run otherwise; unknown where nothing must be changed.
    anywhere: Option<CpuSet>,
    /// The processor that it stays on now.
    fixed: Option<u16>,
}

impl Seat {
    /// The calling thread's.
    pub fn new() -> Seat {
        Seat {
            anywhere: sched_getaffinity(None).ok(),
            fixed: None,
        }
    }

    /// Stays on one processor from now on, if it may run there; or goes wherever it may.
    pub fn choose(&mut self, processor: Option<u16>) {
        if processor == self.fixed {
            return;
        }
        let Some(anywhere) = &self.anywhere else {
            return;
        };
        let chosen = match processor {
            Some(number) if anywhere.is_set(usize::from(number)) => {
                let mut one = CpuSet::new();
                one.set(usize::from(number));
                sched_setaffinity(None, &one)
            }
            _ => sched_setaffinity(None, anywhere),
        };
        match chosen {
            Ok(()) => self.fixed = processor,
            Err(error) => {
                tracing::debug!("threads run where the kernel puts them: {error}");
                self.anywhere = None;
            }
        }
    }
}
