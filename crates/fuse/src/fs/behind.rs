//! Writes that are answered before they are done: the program fills its next buffer while the servers
//! take the last one.
//!
//! A request's bytes stay where the kernel put them until they are written, so this costs no copy. Whoever
//! on this mount reads, cuts, locks, closes or syncs the file waits for what it must see; what failed is
//! told to every opening once, at its next write, sync or close, as local file systems do.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use trireme::File;

/// Writes of one mount that are answered and not done, at most: what a killed mount can lose, and
/// how many threads a server that is away can keep from other requests.
const MOST: usize = 8;

/// Shorter writes are answered when they are done, but for the rest of a long one: those who write
/// little at a time tell others of it.
pub(super) const LONG: usize = 64 << 10;

/// How many writes of the mount are answered and not done.
#[derive(Debug, Default)]
pub(super) struct Quota(Arc<AtomicUsize>);

/// The right to answer one write early; given back when dropped.
#[derive(Debug)]
pub(super) struct Early(Arc<AtomicUsize>);

impl Quota {
    pub fn take(&self) -> Option<Early> {
        let more = |now: usize| (now < MOST).then_some(now + 1);
        let taken = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more);
        taken.is_ok().then(|| Early(self.0.clone()))
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The writes of one file in this mount that are under way.
#[derive(Debug, Default)]
pub(super) struct Behind {
    /// As many as in `state`, for those who only want to know that there are none.
    count: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    under_way: Vec<Range<u64>>,
    /// How many failed after they were answered, and how the last one did.
    failures: u64,
    errno: i32,
}

impl State {
    fn overlaps(&self, range: &Range<u64>) -> bool {
        let overlaps = |one: &Range<u64>| one.start < range.end && range.start < one.end;
        self.under_way.iter().any(overlaps)
    }
}

/// Which failures an opening has heard of.
#[derive(Debug, Default)]
pub(super) struct Heard {
    surely: AtomicU64,
    /// A write was refused for this one.
    by_a_write: AtomicU64,
}

/// A write under way.
#[derive(Debug)]
pub(super) struct Writing {
    file: Arc<Behind>,
    range: Range<u64>,
    /// It begins where one ends that is under way. The kernel cuts a long write from memory that does not
    /// begin on a page into a long request and a very short one.
    pub is_rest: bool,
}

impl Behind {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new opening has nothing to hear of what failed before.
    pub fn heard(&self) -> Heard {
        let failures = self.state().failures;
        Heard {
            surely: AtomicU64::new(failures),
            by_a_write: AtomicU64::new(failures),
        }
    }

    /// Begins a write, after those that it overlaps.
    pub fn begin(self: &Arc<Self>, range: Range<u64>) -> Writing {
        let mut state = self.wait_until_free(&range);
        self.enter(&mut state, range)
    }

    /// The same, if there is nothing to wait for.
    pub fn begin_now(self: &Arc<Self>, range: Range<u64>) -> Option<Writing> {
        let mut state = self.state();
        if state.overlaps(&range) {
            return None;
        }
        Some(self.enter(&mut state, range))
    }

    fn enter(self: &Arc<Self>, state: &mut State, range: Range<u64>) -> Writing {
        let is_rest = state.under_way.iter().any(|one| one.end == range.start);
        state.under_way.push(range.clone());
        self.count.store(state.under_way.len(), Ordering::SeqCst);
        Writing {
            file: self.clone(),
            range,
            is_rest,
        }
    }

    /// Whether no write is under way that overlaps a range.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        self.count.load(Ordering::SeqCst) == 0 || !self.state().overlaps(range)
    }

    /// Waits for the writes that overlap a range.
    pub fn wait_for(&self, range: &Range<u64>) {
        if self.count.load(Ordering::SeqCst) > 0 {
            drop(self.wait_until_free(range));
        }
    }

    /// Waits for all writes that are under way.
    pub fn drain(&self) {
        self.wait_for(&(0..u64::MAX));
    }

    fn wait_until_free(&self, range: &Range<u64>) -> MutexGuard<'_, State> {
        File::hurry();
        let mut state = self.state();
        while state.overlaps(range) {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// What failed and this opening has not heard of; from now on it has.
    pub fn news(&self, heard: &Heard) -> Result<(), i32> {
        let state = self.state();
        if heard.surely.swap(state.failures, Ordering::SeqCst) == state.failures {
            return Ok(());
        }
        Err(state.errno)
    }

    /// The same for a write. Of one that the kernel has cut into several requests the program hears no error after
    /// the first of them, but that fewer bytes were written; when it comes with the rest it hears.
    pub fn refuses(&self, heard: &Heard) -> Result<(), i32> {
        let state = self.state();
        if heard.surely.load(Ordering::SeqCst) == state.failures {
            return Ok(());
        }
        if heard.by_a_write.swap(state.failures, Ordering::SeqCst) == state.failures {
            heard.surely.store(state.failures, Ordering::SeqCst);
        }
        Err(state.errno)
    }

    /// The same for one of several descriptors of an opening, which is closed: a child that closes what
    /// it inherited must not be the only one to hear.
    pub fn hint(&self, heard: &Heard) -> Result<(), i32> {
        let state = self.state();
        if heard.surely.load(Ordering::SeqCst) == state.failures {
            return Ok(());
        }
        Err(state.errno)
    }
}

impl Writing {
    /// It failed, and whoever asked for it believes otherwise.
    pub fn failed(self, errno: i32) {
        let mut state = self.file.state();
        state.failures += 1;
        state.errno = errno;
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut state = self.file.state();
        if let Some(place) = state.under_way.iter().position(|one| *one == self.range) {
            state.under_way.swap_remove(place);
        }
        self.file
            .count
            .store(state.under_way.len(), Ordering::SeqCst);
        drop(state);
        self.file.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_overlaps_waits_and_others_do_not() {
        let file = Arc::new(Behind::default());
        let first = file.begin(0..10);
        let beside = file.begin(10..20);
        assert!(beside.is_rest && !first.is_rest);
        file.wait_for(&(20..30));
        let released = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                file.wait_for(&(9..11));
                assert!(released.load(Ordering::SeqCst), "two writes are under way");
            });
            scope.spawn(|| {
                drop(file.begin(5..6));
                assert!(released.load(Ordering::SeqCst), "the first is under way");
            });
            drop(beside);
            released.store(true, Ordering::SeqCst);
            drop(first);
        });
        file.drain();
        assert_eq!(file.count.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_failure_is_told_to_every_opening_once() {
        let file = Arc::new(Behind::default());
        let (one, two) = (file.heard(), file.heard());
        file.begin(0..1).failed(libc::ENOSPC);
        let late = file.heard();
        assert_eq!(file.hint(&one), Err(libc::ENOSPC));
        assert_eq!(file.news(&one), Err(libc::ENOSPC));
        assert_eq!(file.hint(&one), Ok(()));
        assert_eq!(file.news(&one), Ok(()));
        assert_eq!(file.news(&two), Err(libc::ENOSPC));
        assert_eq!(file.news(&late), Ok(()));
        file.drain();
    }

    #[test]
    fn a_write_may_not_be_who_hears() {
        let file = Arc::new(Behind::default());
        let (one, two) = (file.heard(), file.heard());
        file.begin(0..1).failed(libc::ENOSPC);
        // The kernel may keep that to itself, but not the next one.
        assert_eq!(file.refuses(&one), Err(libc::ENOSPC));
        assert_eq!(file.refuses(&one), Err(libc::ENOSPC));
        assert_eq!(file.refuses(&one), Ok(()));
        assert_eq!(file.news(&one), Ok(()));
        assert_eq!(file.refuses(&two), Err(libc::ENOSPC));
        assert_eq!(file.news(&two), Err(libc::ENOSPC));
        assert_eq!(file.refuses(&two), Ok(()));
        file.begin(0..1).failed(libc::EIO);
        assert_eq!(file.refuses(&one), Err(libc::EIO));
    }

    #[test]
    fn not_more_than_the_quota_is_answered_early() {
        let quota = Quota::default();
        let mut taken: Vec<_> = std::iter::from_fn(|| quota.take()).collect();
        assert_eq!(taken.len(), MOST);
        assert!(quota.take().is_none(), "asking does not make room");
        taken.pop();
        let again = quota.take();
        assert!(again.is_some() && quota.take().is_none());
    }
}
