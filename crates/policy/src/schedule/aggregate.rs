//! A scheduler for several applications in the manner of aIOLi (Lebre, Denneulin): requests of one
//! file are sorted by offset and merged while they wait, and applications take turns by quantum.
//!
//! The exact rules were not found; these are ours: each application has a quantum of bytes, which
//! doubles up to a limit while it uses it up (its requests are worth merging) and falls back when
//! its queue runs empty (it must not wait long when it returns).

use std::collections::{BTreeMap, VecDeque};

/// One merged access, to be served as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Whose it is.
    pub application: u32,
    /// The file.
    pub file: u64,
    /// Where it starts.
    pub offset: u64,
    /// Bytes in all.
    pub len: u64,
    /// The numbers of the requests it answers.
    pub requests: Vec<u32>,
}

/// The scheduler's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes an application may move per turn at first.
    pub quantum: u64,
    /// The largest quantum.
    pub quantum_max: u64,
    /// The most bytes merged into one access.
    pub batch_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            quantum: 1 << 20,
            quantum_max: 8 << 20,
            batch_max: 4 << 20,
        }
    }
}

/// The queues of one server (or of a central scheduler), per application.
#[derive(Debug, Clone)]
pub struct Aggregator {
    limits: Limits,
    applications: BTreeMap<u32, Application>,
    /// Applications that have requests, in turn.
    round: VecDeque<u32>,
}

#[derive(Debug, Clone)]
struct Application {
    /// Sorted by file and offset; the number makes entries distinct.
    waiting: BTreeMap<(u64, u64, u32), u64>,
    /// After which access the sweep over offsets goes on.
    swept: (u64, u64),
    quantum: u64,
    left: u64,
}

impl Aggregator {
    /// Empty queues.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            applications: BTreeMap::new(),
            round: VecDeque::new(),
        }
    }

    /// A request has arrived.
    pub fn insert(&mut self, application: u32, file: u64, offset: u64, len: u64, request: u32) {
        let quantum = self.limits.quantum;
        let queue = self
            .applications
            .entry(application)
            .or_insert_with(|| Application {
                waiting: BTreeMap::new(),
                swept: (0, 0),
                quantum,
                left: quantum,
            });
        if queue.waiting.is_empty() {
            self.round.push_back(application);
        }
        queue.waiting.insert((file, offset, request), len);
    }

    /// The next access: the neighbours of the application's next offset in its sweep, merged.
    pub fn next_batch(&mut self) -> Option<Batch> {
        let application = *self.round.front()?;
        let queue = self.applications.get_mut(&application)?;
        let batch = queue.take_batch(application, self.limits.batch_max)?;
        let used_up = batch.len >= queue.left;
        queue.left = queue.left.saturating_sub(batch.len);
        if queue.waiting.is_empty() {
            queue.quantum = self.limits.quantum;
            queue.left = queue.quantum;
            self.round.pop_front();
        } else if used_up {
            queue.quantum = (queue.quantum * 2).min(self.limits.quantum_max);
            queue.left = queue.quantum;
            self.round.rotate_left(1);
        }
        Some(batch)
    }
}

impl Application {
    fn take_batch(&mut self, application: u32, batch_max: u64) -> Option<Batch> {
        let from = (self.swept.0, self.swept.1, 0);
        let key = self
            .waiting
            .range(from..)
            .next()
            .or_else(|| self.waiting.iter().next())?
            .0;
        let &(file, offset, request) = key;
        let len = self.waiting.remove(&(file, offset, request))?;
        let mut batch = Batch {
            application,
            file,
            offset,
            len,
            requests: vec![request],
        };
        while let Some((&(file, offset, request), &len)) =
            self.waiting.range((batch.file, batch.offset, 0)..).next()
        {
            let end = batch.offset + batch.len;
            if file != batch.file || offset > end || offset + len - batch.offset > batch_max {
                break;
            }
            self.waiting.remove(&(file, offset, request));
            batch.len = batch.len.max(offset + len - batch.offset);
            batch.requests.push(request);
        }
        self.swept = (batch.file, batch.offset + batch.len);
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_request_is_inside_one_batch(
            raw in prop::collection::vec((0u32..3, 0u64..2, 0u64..50, 1u64..5), 0..60),
            batch_max in 5u64..20, quantum in 1u64..30,
        ) {
            let limits = Limits { quantum, quantum_max: 4 * quantum, batch_max };
            let mut aggregator = Aggregator::new(limits);
            for (number, &(application, file, offset, len)) in raw.iter().enumerate() {
                aggregator.insert(application, file, offset, len, number as u32);
            }
            let mut served = vec![false; raw.len()];
            while let Some(batch) = aggregator.next_batch() {
                prop_assert!(batch.len <= batch_max);
                for number in batch.requests {
                    let (application, file, offset, len) = raw[number as usize];
                    prop_assert_eq!((application, file), (batch.application, batch.file));
                    prop_assert!(offset >= batch.offset);
                    prop_assert!(offset + len <= batch.offset + batch.len);
                    prop_assert!(!std::mem::replace(&mut served[number as usize], true));
                }
            }
            prop_assert!(served.into_iter().all(|done| done));
        }
    }

    #[test]
    fn neighbours_are_merged_whatever_order_they_came_in() {
        let mut aggregator = Aggregator::new(Limits::default());
        for (number, offset) in [30, 10, 0, 20].into_iter().enumerate() {
            aggregator.insert(1, 5, offset, 10, number as u32);
        }
        let batch = aggregator.next_batch().unwrap();
        assert_eq!((batch.offset, batch.len), (0, 40));
        assert_eq!(batch.requests, [2, 1, 3, 0]);
        assert_eq!(aggregator.next_batch(), None);
    }

    #[test]
    fn a_small_application_is_not_kept_waiting_by_a_large_one() {
        let limits = Limits {
            quantum: 100,
            quantum_max: 400,
            batch_max: 100,
        };
        let mut aggregator = Aggregator::new(limits);
        for number in 0..50 {
            aggregator.insert(0, 0, u64::from(number) * 1000, 100, number);
        }
        aggregator.insert(1, 1, 0, 100, 50);
        let order: Vec<_> = std::iter::from_fn(|| aggregator.next_batch())
            .map(|b| b.application)
            .collect();
        assert_eq!(order.len(), 51);
        assert_eq!(order.iter().position(|&a| a == 1), Some(1));
    }
}
