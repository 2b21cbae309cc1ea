//! The requests of a mount that are being carried out, and the signals that came for them.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::abi::InHeader;
use super::ring::Entry;

/// A request that is being carried out.
#[derive(Debug)]
pub(super) struct Working {
    pub opcode: u32,
    /// When a signal came for it.
    pub signal: Option<Instant>,
    /// If it did not come through the device.
    pub ring: Option<InRing>,
}

impl Working {
    pub fn is_in_place(&self) -> bool {
        self.ring.as_ref().is_some_and(|ring| ring.in_place)
    }
}

/// What is to be known of a request that came through a ring.
#[derive(Debug)]
pub(super) struct InRing {
    /// Where its answer goes.
    pub entry: Arc<Entry>,
    /// Bytes are moved to or from there right now.
    in_place: bool,
    /// Who waits for it, when that began, and when to look whether there is a signal for them.
    thread: u32,
    begin: Instant,
    next_look: Instant,
}

/// Signals for requests that nobody has seen yet, at most: that is a matter of an instant.
const EARLY_SIGNALS: usize = 256;

/// All of them, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Requests {
    table: Mutex<HashMap<u64, Working>>,
    /// Those that a signal came for before they did themselves.
    early: Mutex<VecDeque<u64>>,
    /// How often there was something to look after for those who watch.
    worries: AtomicU64,
    changed: Condvar,
}

/// Who has waited for this long may have a signal that the kernel does not tell of; and the longer they wait
/// the less often they are looked at, down to once in [`LOOK_SELDOM`].
pub(super) const LOOK: Duration = Duration::from_secs(1);
const LOOK_SELDOM: Duration = Duration::from_secs(10);

impl Requests {
    pub fn table(&self) -> MutexGuard<'_, HashMap<u64, Working>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn begin(&self, unique: u64, opcode: u32) {
        let request = Working {
            opcode,
            signal: None,
            ring: None,
        };
        self.table().insert(unique, request);
    }

    pub fn begin_in_ring(&self, header: &InHeader, entry: Arc<Entry>, in_place: bool) {
        let now = Instant::now();
        let mut table = self.table();
        let request = Working {
            opcode: header.opcode,
            signal: self.had_early_signal(header.unique).then_some(now),
            ring: Some(InRing {
                entry,
                in_place,
                thread: header.pid,
                begin: now,
                next_look: now + LOOK,
            }),
        };
        table.insert(header.unique, request);
    }

    fn had_early_signal(&self, unique: u64) -> bool {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if early.is_empty() {
            return false;
        }
        let place = early.iter().position(|one| *one == unique);
        place.and_then(|place| early.remove(place)).is_some()
    }

    /// A signal came for a request that is not being carried out: it will be, or was.
    fn keep_early_signal(&self, unique: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        if early.len() >= EARLY_SIGNALS {
            early.pop_front();
        }
        early.push_back(unique);
    }

    /// Whether a signal came for a request that is not answered yet.
    pub fn was_interrupted(&self, unique: u64) -> bool {
        let table = self.table();
        let request = table.get(&unique);
        request.is_some_and(|request| request.signal.is_some())
    }

    /// Somebody may answer in the place of whoever carries this request out.
    pub fn leaves_place(&self, unique: u64) {
        if let Some(request) = self.table().get_mut(&unique) {
            if let Some(ring) = &mut request.ring {
                ring.in_place = false;
            }
            if request.signal.is_none() {
                return;
            }
        }
        self.worry();
    }

    /// There is something to look after for those who watch.
    pub fn worry(&self) {
        self.worries.fetch_add(1, Ordering::SeqCst);
        // Who is about to wait holds what wakes it.
        drop(self.table());
        self.changed.notify_all();
    }

    /// How often that was so.
    pub fn worries(&self) -> u64 {
        self.worries.load(Ordering::SeqCst)
    }

    /// Waits at most `time`, unless there was something since `worries` were counted.
    pub fn wait(&self, worries: u64, time: Duration) {
        let table = self.table();
        if self.worries() == worries {
            let waited = self.changed.wait_timeout(table, time);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// True for the one who may answer.
    pub fn end(&self, unique: u64) -> bool {
        self.table().remove(&unique).is_some()
    }

    /// A signal came for a request; false when it is not known.
    pub fn signal(&self, unique: u64) -> bool {
        let mut table = self.table();
        let known = table.get_mut(&unique);
        let is_known = known.is_some();
        match known {
            Some(request) => {
                request.signal.get_or_insert_with(Instant::now);
            }
            None => self.keep_early_signal(unique),
        }
        drop(table);
        self.worry();
        is_known
    }

    /// Requests that have been waited for for long, and who does.
    pub fn old(&self, now: Instant) -> Vec<(u64, u32)> {
        let mut table = self.table();
        let unsignalled = table.iter_mut().filter(|(_, one)| one.signal.is_none());
        let due = unsignalled.filter_map(|(unique, request)| {
            let ring = request.ring.as_mut().filter(|ring| ring.next_look <= now)?;
            ring.next_look = now + (now - ring.begin).clamp(LOOK, LOOK_SELDOM);
            Some((*unique, ring.thread))
        });
        due.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::abi::op;
    use super::super::session::{SLOT, Slot};
    use super::*;

    fn header(unique: u64) -> InHeader {
        InHeader {
            unique,
            opcode: op::WRITE,
            pid: 77,
            ..InHeader::default()
        }
    }

    fn entry() -> Arc<Entry> {
        Arc::new(Entry::new(0, Slot::Own(vec![0; SLOT])))
    }

    #[test]
    fn a_signal_that_comes_before_its_request_is_not_lost() {
        let requests = Requests::default();
        assert!(!requests.signal(4));
        for other in 0..EARLY_SIGNALS as u64 - 1 {
            assert!(!requests.signal(1000 + other));
        }
        requests.begin_in_ring(&header(4), entry(), false);
        requests.begin_in_ring(&header(6), entry(), false);
        assert!(requests.was_interrupted(4) && !requests.was_interrupted(6));
        assert!(requests.signal(6) && requests.was_interrupted(6));
        assert!(requests.end(4) && !requests.end(4), "one may answer");
        assert!(!requests.was_interrupted(4));
    }

    #[test]
    fn who_waits_for_long_is_looked_at_now_and_then() {
        let requests = Requests::default();
        requests.begin_in_ring(&header(2), entry(), true);
        requests.begin(3, op::READ);
        let begin = Instant::now();
        assert!(requests.old(begin).is_empty());
        assert_eq!(requests.old(begin + LOOK), [(2, 77)]);
        assert!(requests.old(begin + LOOK).is_empty(), "not again at once");
        assert_eq!(requests.old(begin + 3 * LOOK), [(2, 77)]);
        let late = begin + 100 * LOOK;
        assert_eq!(requests.old(late), [(2, 77)]);
        assert!(requests.old(late + 9 * LOOK).is_empty());
        assert_eq!(requests.old(late + LOOK_SELDOM), [(2, 77)]);
        requests.signal(2);
        assert!(requests.old(late + 100 * LOOK).is_empty(), "it is known");
    }

    #[test]
    fn nobody_sleeps_over_a_worry() {
        let requests = Requests::default();
        let (begin, long) = (Instant::now(), Duration::from_mins(2));
        let worries = requests.worries();
        requests.begin_in_ring(&header(2), entry(), true);
        requests.signal(2);
        requests.wait(worries, long);
        assert!(requests.table()[&2].is_in_place());
        let worries = requests.worries();
        requests.leaves_place(2);
        requests.wait(worries, long);
        assert!(!requests.table()[&2].is_in_place());
        assert!(begin.elapsed() < long);
    }
}
