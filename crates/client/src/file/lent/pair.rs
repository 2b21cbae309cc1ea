//! A second thread for long transfers to and from lent files, which takes some of their parts.
//!
//! A processor that sleeps takes longer to wake up than such a part takes to copy, above all on virtual machines.
//! So the second thread stays awake for a moment after each transfer: in a stream it is there at once. When others
//! want the processors it notices that it was not let run, and is left alone for a while.

mod left;

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use left::Left;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Transfers that follow each other within this time are one stream.
const STREAM: Duration = Duration::from_millis(2);

/// Who did not run for this long, and did not sleep, had to leave its processor to somebody; the kernel's own work
/// is shorter.
const AWAY: Duration = Duration::from_millis(1);

/// It has to share its processor with programs that compute when it was kept from it for this long, more than for
/// one part in so many of the time. Everybody is now and then.
const SHARES: Duration = Duration::from_millis(20);
const NOW_AND_THEN: u32 = 5;

/// How long it is then left alone, at first; and at most, if it is so again and again.
const REST: Duration = Duration::from_millis(50);
const LONG_REST: Duration = Duration::from_secs(2);

/// Who has been undisturbed for so many times as long as it rested begins anew.
const UNDISTURBED: u32 = 20;

/// How often a place in memory is looked at before the time is.
const LOOKS: usize = 32;

/// A part takes this long if nothing is the matter; whoever waits for one looks this often from then on.
const PATIENCE: Duration = Duration::from_micros(300);

// What becomes of a piece of work.
/// There is none, or not any more.
const NONE: u8 = 0;
/// The second thread may take it.
const POSTED: u8 = 1;
/// It has.
const TAKEN: u8 = 2;
/// The same of work that nobody waits for.
const LEFT: u8 = 3;
const LEFT_TAKEN: u8 = 4;

/// Whoever calls, and a second thread.
pub(super) struct Pair {
    /// Somebody is using it.
    used: AtomicBool,
    state: AtomicU8,
    work: UnsafeCell<Option<&'static (dyn Fn() + Sync)>>,
    /// What nobody waits for.
    left: Mutex<Option<Left>>,
    /// `None` where there can be none, or where it would have no processor.
    second: OnceLock<Option<Thread>>,
    asleep: AtomicBool,
    /// When it was last used, and when it may be woken again: nanoseconds since `begin`.
    last: AtomicU64,
    rests: AtomicU64,
    begin: OnceLock<Instant>,
}

// SAFETY: `work` is written by the one who uses the pair, before the work is posted, and read by the second thread
// between taking it and saying that it is done; the state changes in between order the two.
unsafe impl Sync for Pair {}

/// This process's.
pub(super) static PAIR: Pair = Pair::new();

impl Pair {
    const fn new() -> Pair {
        Pair {
            used: AtomicBool::new(false),
            state: AtomicU8::new(NONE),
            work: UnsafeCell::new(None),
            left: Mutex::new(None),
            second: OnceLock::new(),
            asleep: AtomicBool::new(true),
            last: AtomicU64::new(0),
            rests: AtomicU64::new(0),
            begin: OnceLock::new(),
        }
    }

    /// Carries out `work`, which shares itself out among all who do: here and, if it is there, by the second
    /// thread, which is done with its part when this returns.
    pub fn together(&'static self, work: &(dyn Fn() + Sync)) {
        self.hurry();
        if self.used.swap(true, Ordering::Acquire) {
            work();
            return;
        }
        let posted = self.post(work);
        work();
        drop(posted);
    }

    fn post(&'static self, work: &(dyn Fn() + Sync)) -> Posted {
        // SAFETY: only its lifetime is changed. Nobody has it any more when `Posted` is gone, and the caller keeps
        // both until then, also when it panics.
        let work =
            unsafe { std::mem::transmute::<&(dyn Fn() + Sync), &'static (dyn Fn() + Sync)>(work) };
        // SAFETY: one at a time gets here, and what was posted before is over.
        unsafe { *self.work.get() = Some(work) };
        self.state.store(POSTED, Ordering::SeqCst);
        let posted = Posted(self);
        if self.asleep.load(Ordering::SeqCst) {
            self.wake();
        }
        posted
    }

    /// Wakes the second thread up if that is worth it.
    fn wake(&'static self) {
        let now = self.now();
        let last = self.last.load(Ordering::Relaxed);
        let follows = last > 0 && now.saturating_sub(last) < nanoseconds(STREAM);
        if !follows || now < self.rests.load(Ordering::Relaxed) {
            return;
        }
        let second = self.second.get_or_init(|| {
            // It would be in the way of whom it is to help.
            if processors() < 2 {
                return None;
            }
            let thread = std::thread::Builder::new().name("second".into());
            let started = thread.spawn(|| self.serve());
            started.ok().map(|handle| handle.thread().clone())
        });
        if let Some(second) = second {
            second.unpark();
        }
    }

    fn now(&self) -> u64 {
        nanoseconds(self.begin.get_or_init(Instant::now).elapsed())
    }

    fn serve(&self) {
        run_anywhere();
        let (mut rest, mut rested) = (REST, Instant::now());
        let mut kept = Kept::default();
        loop {
            self.asleep.store(false, Ordering::SeqCst);
            if self.stay_awake(&mut kept) {
                let undisturbed = rested.elapsed() > rest * UNDISTURBED;
                rest = if undisturbed {
                    REST
                } else {
                    LONG_REST.min(rest * 2)
                };
                rested = Instant::now() + rest;
                kept = Kept::default();
                let rests = self.now() + nanoseconds(rest);
                self.rests.store(rests, Ordering::Relaxed);
            }
            self.asleep.store(true, Ordering::SeqCst);
            // Whoever posted something before that line believed that it was awake.
            if !matches!(self.state.load(Ordering::SeqCst), POSTED | LEFT) {
                std::thread::park();
            }
        }
    }

    /// Works, and waits for work without sleeping; true when others want the processor, false when there is
    /// nothing to do.
    fn stay_awake(&self, kept: &mut Kept) -> bool {
        let mut since = Instant::now();
        let mut seen = since;
        let mut before = times_put_off();
        loop {
            if self.help() {
                since = Instant::now();
                seen = since;
            }
            for _ in 0..LOOKS {
                std::hint::spin_loop();
            }
            let now = Instant::now();
            if now - seen > AWAY {
                // A virtual machine's host takes its time, too: that is not ours to give.
                let times = times_put_off();
                if std::mem::replace(&mut before, times) < times && kept.away(seen, now) {
                    return true;
                }
            }
            if now - since > STREAM {
                return false;
            }
            seen = now;
        }
    }

    /// Does its part if there is something to do.
    fn help(&self) -> bool {
        let (order, other) = (Ordering::SeqCst, Ordering::Relaxed);
        let state = self.state.load(other);
        if state == LEFT && (self.state.compare_exchange(LEFT, LEFT_TAKEN, order, other)).is_ok() {
            self.help_left();
            return true;
        }
        let posted = state == POSTED;
        if !posted || (self.state.compare_exchange(POSTED, TAKEN, order, other)).is_err() {
            return false;
        }
        // SAFETY: taken, and not done.
        if let Some(work) = unsafe { *self.work.get() } {
            // What panics is not counted as done by those who share the work.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
        self.state.store(NONE, Ordering::Release);
        true
    }
}

/// Work that the second thread may have; dropped when it has not any more.
struct Posted(&'static Pair);

impl Drop for Posted {
    fn drop(&mut self) {
        let pair = self.0;
        let (order, other) = (Ordering::SeqCst, Ordering::Acquire);
        let taken = pair.state.compare_exchange(POSTED, NONE, order, other);
        if taken.is_err() {
            let begin = Instant::now();
            while pair.state.load(Ordering::Acquire) != NONE {
                // A write may have to wait for the disk.
                if begin.elapsed() > PATIENCE {
                    std::thread::sleep(PATIENCE);
                }
                std::hint::spin_loop();
            }
        }
        pair.last.store(pair.now().max(1), Ordering::Relaxed);
        pair.used.store(false, Ordering::Release);
    }
}

/// For how long a thread was kept from its processor, less what everybody is now and then.
#[derive(Debug, Default)]
struct Kept {
    time: Duration,
    last: Option<Instant>,
}

impl Kept {
    /// It was, from one moment to another; true when that is too much.
    fn away(&mut self, from: Instant, to: Instant) -> bool {
        let since = to.saturating_duration_since(self.last.unwrap_or(to));
        let away = to.saturating_duration_since(from);
        self.time = self.time.saturating_sub(since / NOW_AND_THEN) + away;
        self.last = Some(to);
        self.time > SHARES
    }
}

/// Where the process may run, which is where its first thread may: others may have a processor of their own.
fn anywhere() -> Option<CpuSet> {
    sched_getaffinity(Some(rustix::process::getpid())).ok()
}

fn processors() -> u32 {
    anywhere().map_or(1, |all| all.count())
}

/// Lets this thread run wherever the process may, though it was started by one that may not.
fn run_anywhere() {
    if let Some(all) = anywhere() {
        let _ = sched_setaffinity(None, &all);
    }
}

/// How often this thread's processor was given to others that wanted it.
fn times_put_off() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is the kernel's to fill, and zeroes are one.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_nivcsw
    }
}

fn nanoseconds(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Work in parts that take a few microseconds each, and who has done them.
    #[derive(Default)]
    pub struct Parts {
        next: AtomicUsize,
        under_way: AtomicUsize,
        pub done: [AtomicUsize; 8],
        pub by_others: AtomicUsize,
    }

    impl Parts {
        pub fn share(&self, first: std::thread::ThreadId) {
            self.under_way.fetch_add(1, Ordering::SeqCst);
            while let Some(one) = self.done.get(self.next.fetch_add(1, Ordering::SeqCst)) {
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_micros(10) {
                    std::hint::spin_loop();
                }
                one.fetch_add(1, Ordering::SeqCst);
                let other = std::thread::current().id() != first;
                self.by_others
                    .fetch_add(usize::from(other), Ordering::SeqCst);
            }
            self.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Has parts done; gives how many the second thread did.
    fn stream(pair: &'static Pair) -> usize {
        let parts = Parts::default();
        let first = std::thread::current().id();
        pair.together(&|| parts.share(first));
        assert_eq!(parts.under_way.into_inner(), 0, "somebody is still at it");
        assert_eq!(parts.done.map(AtomicUsize::into_inner), [1; 8]);
        parts.by_others.into_inner()
    }

    /// Until something is so.
    pub fn wait_for(mut what: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_mins(1);
        while !what() {
            assert!(Instant::now() < end, "not in a minute");
        }
    }

    #[test]
    fn who_is_kept_away_now_and_then_shares_with_nobody() {
        let ms = Duration::from_millis;
        let mut at = Instant::now();
        let mut kept = Kept::default();
        for _ in 0..1000 {
            let from = at + ms(27);
            at = from + ms(3);
            assert!(!kept.away(from, at), "3 of 30 ms");
        }
        // A program that computes has half of it.
        let half = (0..1000).position(|_| {
            let from = at + ms(3);
            at = from + ms(3);
            kept.away(from, at)
        });
        assert!((5..30).contains(&half.expect("noticed")), "{half:?}");
    }

    pub fn one_processor() -> bool {
        processors() < 2
    }

    #[test]
    fn the_second_thread_may_run_where_the_one_that_starts_it_may_not() {
        static PAIR: Pair = Pair::new();
        if one_processor() {
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let all = anywhere().expect("known");
                let mut one = CpuSet::new();
                let first = (0..CpuSet::MAX_CPU).find(|number| all.is_set(*number));
                one.set(first.expect("there is one"));
                sched_setaffinity(None, &one).expect("may run there");
                let mut parts = 0;
                wait_for(|| {
                    parts += stream(&PAIR);
                    parts > 100
                });
            });
        });
    }

    #[test]
    fn the_second_thread_has_a_part_of_each_stream() {
        static PAIR: Pair = Pair::new();
        if one_processor() {
            return;
        }
        for _ in 0..3 {
            let mut parts = 0;
            wait_for(|| {
                parts += stream(&PAIR);
                parts > 100
            });
            wait_for(|| PAIR.asleep.load(Ordering::SeqCst));
        }
    }

    #[test]
    fn several_at_once_have_all_their_parts_done() {
        static PAIR: Pair = Pair::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..500).for_each(|_| assert!(stream(&PAIR) <= 8)));
            }
        });
    }

    #[test]
    fn who_panics_is_waited_for_and_not_missed() {
        static PAIR: Pair = Pair::new();
        if one_processor() {
            return;
        }
        let panics = |times: &AtomicUsize| {
            let parts = Parts::default();
            let first = std::thread::current().id();
            let work = || {
                parts.share(first);
                times.fetch_add(1, Ordering::SeqCst);
                std::panic::resume_unwind(Box::new(()));
            };
            assert!(catch_unwind(AssertUnwindSafe(|| PAIR.together(&work))).is_err());
            assert_eq!(parts.under_way.into_inner(), 0, "somebody is still at it");
        };
        let (rounds, times) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Until both have, many times.
        wait_for(|| {
            panics(&times);
            let rounds = rounds.fetch_add(1, Ordering::SeqCst) + 1;
            times.load(Ordering::SeqCst) > rounds + 20
        });
        assert!(stream(&PAIR) <= 8, "and is used as before");
    }
}
