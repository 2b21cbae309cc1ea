//! Which processor a thread that serves a queue is woken up on.
//!
//! Whoever made a call waits for its answer, so the processor that it was made on is free, and its caches have
//! what the call is about; to wake another one that sleeps takes longer than most calls. But the kernel wakes
//! up others if it may. What it reads ahead nobody waits for yet: that is done beside the program.
//!
//! To say where a thread may run takes the kernel as long as a short read. So it keeps its seat while it carries out
//! reads and writes that mostly wait for nobody, and leaves it for what takes time: others may need the processor
//! then, and threads that it starts inherit where they may run.

use std::cell::Cell;
use std::io;
use std::sync::OnceLock;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

thread_local! {
    /// The only processor that this thread may run on.
    static SEAT: Cell<Option<u16>> = const { Cell::new(None) };
}

/// Where threads may run; unknown where the kernel does not tell.
#[derive(Debug, Default)]
pub(super) struct Seats(OnceLock<CpuSet>);

impl Seats {
    /// From now on it is known where threads may run: wherever the caller may. An error if that is not
    /// everywhere.
    pub fn look(&self) -> io::Result<()> {
        let anywhere = sched_getaffinity(None)?;
        let online = processors("online")?;
        if let Some(away) = online.into_iter().find(|one| !anywhere.is_set(*one)) {
            let why = format!("this process may not run on processor {away}");
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        let _ = self.0.set(anywhere);
        Ok(())
    }

    /// From now on this thread runs on one processor, if it may run there.
    pub fn take(&self, processor: u16) {
        let number = usize::from(processor);
        if SEAT.get() == Some(processor) || !self.0.get().is_some_and(|all| all.is_set(number)) {
            return;
        }
        let mut one = CpuSet::new();
        one.set(number);
        if sched_setaffinity(None, &one).is_ok() {
            SEAT.set(Some(processor));
        }
    }

    /// From now on it runs anywhere.
    pub fn leave(&self) {
        if SEAT.get().is_some() {
            self.run_anywhere();
        }
    }

    /// The same, for a thread that may have been started by one that had a seat.
    pub fn run_anywhere(&self) {
        let Some(anywhere) = self.0.get() else { return };
        match sched_setaffinity(None, anywhere) {
            Ok(()) => SEAT.set(None),
            Err(error) => tracing::debug!("a thread stays on one processor: {error}"),
        }
    }

    /// Does something on one processor, if this thread may run there.
    pub fn on<T>(&self, processor: u16, act: impl FnOnce() -> T) -> T {
        self.take(processor);
        let result = act();
        self.leave();
        result
    }
}

/// The processors of a kind (`possible`, `online`), in order.
pub(super) fn processors(kind: &str) -> io::Result<Vec<usize>> {
    let path = format!("/sys/devices/system/cpu/{kind}");
    let text = std::fs::read_to_string(&path)?;
    let list = parse(text.trim()).filter(|list| list.last() < Some(&CpuSet::MAX_CPU));
    list.ok_or_else(|| io::Error::other(format!("{path} has {text:?}, not a list of processors")))
}

/// `0-3,8` and the like.
fn parse(list: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        all.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse("0"), Some(vec![0]));
        assert_eq!(parse("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        assert_eq!(parse(""), None);
        assert_eq!(parse("0-x"), None);
        assert!(!processors("online").unwrap().is_empty());
    }

    #[test]
    fn a_thread_is_where_it_is_asked_to_be_and_nowhere_else_later() {
        let seats = Seats::default();
        assert_eq!(seats.on(0, || 7), 7, "before anything is known");
        if seats.look().is_err() {
            // Not everywhere: then there are no rings.
            return;
        }
        let before = sched_getaffinity(None).unwrap();
        let there = (0..CpuSet::MAX_CPU).find(|number| before.is_set(*number));
        let there = there.unwrap();
        let during = seats.on(there as u16, || {
            let now = sched_getaffinity(None).unwrap();
            (now.count(), now.is_set(there))
        });
        assert_eq!(during, (1, true));
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        seats.take(there as u16);
        seats.take(there as u16);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // It does not know of the seat of who started it.
                seats.leave();
                assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
                seats.run_anywhere();
                assert_eq!(sched_getaffinity(None).unwrap(), before);
            });
        });
        seats.leave();
        assert_eq!(sched_getaffinity(None).unwrap(), before);
        // There is no such processor, or we may not use it.
        let away = (0..CpuSet::MAX_CPU).rfind(|number| !before.is_set(*number));
        if let Some(away) = away {
            seats.on(away as u16, || {
                assert_eq!(sched_getaffinity(None).unwrap(), before);
            });
        }
    }
}
