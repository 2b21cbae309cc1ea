//! The event kernel: what happens next.
//!
//! A model owns an [`Agenda`] of small `Copy` events, asks for the next one, changes its own
//! state and plans further events. Ties in time are broken by the order of planning, so a run
//! is a pure function of model and seed.

use crate::time::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Pending events in (time, order of planning), and the clock they drive.
#[derive(Clone, Debug)]
pub struct Agenda<E> {
    pending: BinaryHeap<Entry<E>>,
    /// The root of the heap is the event taken last. Nearly every event plans another one, which
    /// then takes its place: one sift instead of two.
    taken: bool,
    now: Time,
    planned: u64,
}

impl<E: Copy> Default for Agenda<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> Agenda<E> {
    /// An empty agenda at time zero.
    pub fn new() -> Self {
        Self {
            pending: BinaryHeap::with_capacity(256),
            taken: false,
            now: Time::ZERO,
            planned: 0,
        }
    }

    /// Plans `event` at the instant `at`, which must not lie in the past.
    #[inline]
    pub fn at(&mut self, at: Time, event: E) {
        debug_assert!(
            at >= self.now,
            "an event planned for {at}, but it is already {}",
            self.now
        );
        self.pending.push(Entry {
            key: key(at, self.planned),
            event,
        });
        self.planned += 1;
    }

    /// Plans `event` after `delay`.
    #[inline]
    pub fn after(&mut self, delay: Time, event: E) {
        self.at(self.now + delay, event);
    }

    /// Takes the next event and moves the clock to it; `None` when nothing is left to happen.
    #[inline]
    pub fn next_event(&mut self) -> Option<E> {
        if self.taken {
            self.pending.pop();
        }
        self.taken = !self.pending.is_empty();
        let entry = self.pending.peek()?;
        self.now = Time((entry.key >> 64) as u64);
        Some(entry.event)
    }

    /// The instant of the event taken last.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events wait.
    pub fn pending(&self) -> usize {
        self.pending.len() - usize::from(self.taken)
    }

    /// How many events were taken so far.
    pub fn processed(&self) -> u64 {
        self.planned - self.pending() as u64
    }
}

#[inline]
fn key(at: Time, sequence: u64) -> u128 {
    u128::from(at.0) << 64 | u128::from(sequence)
}

#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    key: u128,
    event: E,
}

// `BinaryHeap` hands out the greatest entry: the order is turned round, the earliest is greatest.
impl<E> Ord for Entry<E> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

impl<E> PartialOrd for Entry<E> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simultaneous_events_keep_the_order_of_planning() {
        let mut agenda = Agenda::new();
        for (at, event) in [(5, 'c'), (1, 'a'), (5, 'd'), (1, 'b'), (9, 'e')] {
            agenda.at(Time(at), event);
        }
        let order: String = std::iter::from_fn(|| agenda.next_event()).collect();
        assert_eq!(order, "abcde");
        assert_eq!(agenda.now(), Time(9));
        assert_eq!(agenda.processed(), 5);
    }

    #[test]
    fn an_event_may_plan_another_one_for_the_same_instant() {
        let mut agenda = Agenda::new();
        agenda.at(Time(3), 1);
        agenda.at(Time(3), 2);
        let mut seen = vec![];
        while let Some(event) = agenda.next_event() {
            seen.push(event);
            if event == 1 {
                agenda.after(Time::ZERO, 3);
            }
        }
        assert_eq!(seen, [1, 2, 3]);
    }
}
