//! Numbers for calls that must not be carried out twice.
//!
//! The manager remembers one result per place in a window of [`SERIAL_WINDOW`] places. A place is
//! given to the next call only when its present call is over, so the memory of a call that may
//! still be repeated is never overwritten.

use std::sync::{Condvar, Mutex, PoisonError};
use trireme_proto::message::meta::SERIAL_WINDOW;

/// All numbers of one client.
pub struct Serials {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    free: Vec<u64>,
    round: u64,
}

impl Default for Serials {
    fn default() -> Serials {
        Serials {
            state: Mutex::new(State {
                free: (0..SERIAL_WINDOW).rev().collect(),
                round: 0,
            }),
            freed: Condvar::new(),
        }
    }
}

/// A number in use; dropping it frees its place.
pub struct Serial<'a> {
    serials: &'a Serials,
    serial: u64,
}

impl Serials {
    /// A fresh number, unless all places are taken.
    pub fn take_if_free(&self) -> Option<Serial<'_>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let serial = state.next()?;
        Some(Serial {
            serials: self,
            serial,
        })
    }

    /// A fresh number; waits while all places are taken by calls, each of which has a deadline.
    pub fn take(&self) -> Serial<'_> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(serial) = state.next() {
                return Serial {
                    serials: self,
                    serial,
                };
            }
            state = self
                .freed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    fn next(&mut self) -> Option<u64> {
        let place = self.free.pop()?;
        self.round += 1;
        Some(self.round * SERIAL_WINDOW + place)
    }
}

impl Serial<'_> {
    pub fn serial(&self) -> u64 {
        self.serial
    }
}

impl Drop for Serial<'_> {
    fn drop(&mut self) {
        let mut state = self
            .serials
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.free.push(self.serial % SERIAL_WINDOW);
        self.serials.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn places_in_use_are_distinct_and_numbers_never_come_twice() {
        let serials = Serials::default();
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let held: Vec<_> = (0..SERIAL_WINDOW).map(|_| serials.take()).collect();
            let places: HashSet<_> = held.iter().map(|s| s.serial() % SERIAL_WINDOW).collect();
            assert_eq!(places.len() as u64, SERIAL_WINDOW);
            assert!(
                held.iter()
                    .all(|s| s.serial() != 0 && seen.insert(s.serial()))
            );
        }
    }
}
