//! Progress of a long run: how many pieces of work are done, and the time left.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Called after each piece of work.
type Listener = Box<dyn Fn(&Snapshot) + Send + Sync>;

/// Counts pieces of work; experiments announce them and tick them off, from any thread.
pub struct Progress {
    started: Instant,
    total: AtomicU64,
    done: AtomicU64,
    listener: Option<Listener>,
}

/// The state of a run at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Snapshot {
    /// Units of work done.
    pub done: u64,
    /// Units of work announced.
    pub total: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// The time left at the present pace, once something is done.
    pub left: Option<Duration>,
}

impl Progress {
    /// Tells `listener` after each piece of work.
    pub fn new(listener: impl Fn(&Snapshot) + Send + Sync + 'static) -> Progress {
        Progress {
            listener: Some(Box::new(listener)),
            ..Progress::silent()
        }
    }

    /// Tells nobody.
    pub fn silent() -> Progress {
        Progress {
            started: Instant::now(),
            total: AtomicU64::new(0),
            done: AtomicU64::new(0),
            listener: None,
        }
    }

    /// Announces `units` of further work; weigh long pieces with more units.
    pub fn expect(&self, units: u64) {
        self.total.fetch_add(units, Ordering::Relaxed);
        self.tell();
    }

    /// Ticks off `units` of work.
    pub fn done(&self, units: u64) {
        self.done.fetch_add(units, Ordering::Relaxed);
        self.tell();
    }

    /// How the run stands.
    pub fn snapshot(&self) -> Snapshot {
        let (done, total) = (
            self.done.load(Ordering::Relaxed),
            self.total.load(Ordering::Relaxed),
        );
        let elapsed = self.started.elapsed();
        let left =
            (done > 0).then(|| elapsed.mul_f64(total.saturating_sub(done) as f64 / done as f64));
        Snapshot {
            done,
            total,
            elapsed,
            left,
        }
    }

    fn tell(&self) {
        if let Some(listener) = &self.listener {
            listener(&self.snapshot());
        }
    }
}
