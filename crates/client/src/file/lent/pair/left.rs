//! Work that is left to the second thread, and that nobody waits for until there is more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Instant;

use super::{LEFT, LEFT_TAKEN, LOOKS, NONE, PATIENCE, Pair};

/// It shares itself out among all who carry it out, and is over when nobody has it any more.
pub(in super::super) type Left = Arc<dyn Fn() + Send + Sync>;

impl Pair {
    /// Whether the second thread waits for work.
    pub fn is_awake(&self) -> bool {
        !self.asleep.load(Ordering::SeqCst)
    }

    /// There was something to do that the second thread was not there for: it is for what follows, if that comes soon.
    pub fn stir(&'static self) {
        self.wake();
        self.last.store(self.now().max(1), Ordering::Relaxed);
    }

    /// Has the second thread carry out `work`, after what was left to it before. Where that cannot be it is done
    /// here and now.
    pub fn leave(&self, work: Left) {
        self.hurry();
        if self.used.swap(true, Ordering::Acquire) {
            work();
            return;
        }
        let mut left = self.left();
        *left = Some(work);
        self.last.store(self.now().max(1), Ordering::Relaxed);
        self.state.store(LEFT, Ordering::SeqCst);
        drop(left);
        // It may just have gone to sleep, and who wakes it would wait for longer than this takes.
        if self.asleep.load(Ordering::SeqCst) {
            self.hurry();
        }
    }

    /// Does what is to be done still of the work that was left, and waits for the rest.
    pub fn hurry(&self) {
        let Some(work) = self.left().clone() else {
            return;
        };
        work();
        if self.ends_left(&work, LEFT) {
            return;
        }
        let begin = Instant::now();
        while self.is_left(&work) {
            // A write may have to wait for the disk.
            if begin.elapsed() > PATIENCE {
                std::thread::sleep(PATIENCE);
            }
            for _ in 0..LOOKS {
                std::hint::spin_loop();
            }
        }
    }

    /// The second thread's part of it, once taken.
    pub(super) fn help_left(&self) {
        let work = self.left().clone();
        if let Some(work) = work {
            // What panics is not done, as whoever is told of the end hears.
            let _ = catch_unwind(AssertUnwindSafe(|| work()));
            self.ends_left(&work, LEFT_TAKEN);
        }
    }

    fn left(&self) -> MutexGuard<'_, Option<Left>> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_left(&self, work: &Left) -> bool {
        let left = self.left();
        left.as_ref().is_some_and(|left| Arc::ptr_eq(left, work))
    }

    /// Nobody has a part of this to carry out any more, if it is what was left and in this state.
    fn ends_left(&self, work: &Left, state: u8) -> bool {
        let mut left = self.left();
        let same = left.as_ref().is_some_and(|left| Arc::ptr_eq(left, work));
        let order = Ordering::SeqCst;
        if !same || (self.state.compare_exchange(state, NONE, order, order)).is_err() {
            return false;
        }
        // The caller has it still: what happens at its end does not happen under this lock.
        *left = None;
        self.used.store(false, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use super::super::tests::{Parts, one_processor, wait_for};
    use super::*;

    /// Work in parts, of which each is done by the end.
    struct Work {
        parts: Parts,
        ended: Arc<AtomicUsize>,
    }

    impl Drop for Work {
        fn drop(&mut self) {
            let done = self.parts.done.iter_mut().map(|one| *one.get_mut());
            assert!(done.eq([1; 8]), "a part was left out, or done twice");
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Leaves work; what it gives is done in the end.
    fn leave(pair: &'static Pair, ended: &Arc<AtomicUsize>) -> Arc<Work> {
        let work = Arc::new(Work {
            parts: Parts::default(),
            ended: ended.clone(),
        });
        let (ours, first) = (work.clone(), std::thread::current().id());
        pair.leave(Arc::new(move || ours.parts.share(first)));
        work
    }

    /// Keeps the second thread awake.
    fn awaken(pair: &'static Pair) {
        wait_for(|| {
            pair.together(&|| {});
            pair.is_awake()
        });
    }

    #[test]
    fn what_is_left_to_nobody_is_done_by_who_leaves_it() {
        static PAIR: Pair = Pair::new();
        let ended = Arc::default();
        let work = leave(&PAIR, &ended);
        assert_eq!(work.parts.by_others.load(Ordering::SeqCst), 0);
        drop(work);
        assert_eq!(ended.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_is_left_goes_on_while_its_owner_does_something_else() {
        static PAIR: Pair = Pair::new();
        if one_processor() {
            return;
        }
        let ended = Arc::default();
        let mut left = 0;
        wait_for(|| {
            awaken(&PAIR);
            let work = leave(&PAIR, &ended);
            left += 1;
            // Nobody waits for it, and it ends.
            wait_for(|| PAIR.left().is_none());
            let by_others = work.parts.by_others.load(Ordering::SeqCst);
            drop(work);
            wait_for(|| ended.load(Ordering::SeqCst) == left);
            by_others == 8
        });
    }

    #[test]
    fn all_that_many_leave_is_done_once() {
        static PAIR: Pair = Pair::new();
        let ended = Arc::<AtomicUsize>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..500 {
                        drop(leave(&PAIR, &ended));
                        match round % 3 {
                            0 => PAIR.hurry(),
                            1 => PAIR.together(&|| {}),
                            _ => {}
                        }
                    }
                });
            }
        });
        PAIR.hurry();
        wait_for(|| ended.load(Ordering::SeqCst) == 2000);
    }

    #[test]
    fn who_panics_is_not_waited_for_and_leaves_the_pair_as_it_was() {
        static PAIR: Pair = Pair::new();
        if one_processor() {
            return;
        }
        let panicked = Arc::new(AtomicBool::new(false));
        wait_for(|| {
            awaken(&PAIR);
            let (first, ours) = (std::thread::current().id(), panicked.clone());
            PAIR.leave(Arc::new(move || {
                if std::thread::current().id() != first {
                    ours.store(true, Ordering::SeqCst);
                    std::panic::resume_unwind(Box::new(()));
                }
            }));
            PAIR.hurry();
            panicked.load(Ordering::SeqCst)
        });
        let ended = Arc::default();
        drop(leave(&PAIR, &ended));
        PAIR.hurry();
        wait_for(|| ended.load(Ordering::SeqCst) == 1);
    }
}
