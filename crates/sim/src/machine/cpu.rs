//! One processor: two queues (interrupts before threads), no preemption, and its accounts.

use crate::time::Time;
use std::collections::VecDeque;

/// A span in which a processor was idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its beginning.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// A processor with its pending work.
#[derive(Clone, Debug)]
pub struct Cpu<J> {
    present: Option<(Time, J)>,
    interrupts: VecDeque<(Time, J)>,
    threads: VecDeque<(Time, J)>,
    /// How long the processor was busy so far.
    pub busy: Time,
    idle_since: Time,
    /// Gaps longer than `.0`, if anybody wants them.
    gaps: Option<(Time, Vec<Gap>)>,
}

impl<J> Default for Cpu<J> {
    /// An idle processor.
    fn default() -> Cpu<J> {
        Cpu {
            present: None,
            interrupts: VecDeque::new(),
            threads: VecDeque::new(),
            busy: Time::ZERO,
            idle_since: Time::ZERO,
            gaps: None,
        }
    }
}

impl<J: Copy> Cpu<J> {
    /// Adds work; true when the processor was idle and starts on it at once.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Time, cost: Time, job: J, interrupt: bool) -> bool {
        self.busy += cost;
        if self.present.is_some() {
            let queue = if interrupt {
                &mut self.interrupts
            } else {
                &mut self.threads
            };
            queue.push_back((cost, job));
            return false;
        }
        if let Some((shortest, gaps)) = &mut self.gaps
            && now - self.idle_since > *shortest
        {
            gaps.push(Gap {
                start: self.idle_since,
                end: now,
            });
        }
        self.present = Some((now, job));
        true
    }

    /// The present work is done: what it was, and the cost of the next one.
    #[inline]
    pub(super) fn finish(&mut self, now: Time) -> (J, Option<Time>) {
        let (_, done) = self.present.take().expect("a busy processor");
        let next = self
            .interrupts
            .pop_front()
            .or_else(|| self.threads.pop_front());
        if let Some((cost, job)) = next {
            self.present = Some((now, job));
            (done, Some(cost))
        } else {
            self.idle_since = now;
            (done, None)
        }
    }

    pub(super) fn present(&self) -> (Time, J) {
        self.present.expect("a busy processor")
    }

    pub(super) fn watch(&mut self, shortest: Time) {
        self.gaps = Some((shortest, vec![]));
    }

    pub(super) fn gaps(&mut self, end: Time) -> Vec<Gap> {
        let Some((shortest, mut gaps)) = self.gaps.take() else {
            return vec![];
        };
        if self.present.is_none() && end.saturating_sub(self.idle_since) > shortest {
            gaps.push(Gap {
                start: self.idle_since,
                end,
            });
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_run_before_threads_but_do_not_preempt() {
        let mut cpu = Cpu::default();
        cpu.watch(Time(5));
        assert!(cpu.enqueue(Time(10), Time(3), 'a', false));
        assert!(!cpu.enqueue(Time(11), Time(4), 'b', false));
        assert!(!cpu.enqueue(Time(12), Time(1), 'c', true));
        assert_eq!(cpu.finish(Time(13)), ('a', Some(Time(1))));
        assert_eq!(cpu.finish(Time(14)), ('c', Some(Time(4))));
        assert_eq!(cpu.finish(Time(18)), ('b', None));
        assert_eq!(cpu.busy, Time(8));
        let gaps = cpu.gaps(Time(30));
        assert_eq!(
            gaps[0],
            Gap {
                start: Time(0),
                end: Time(10)
            }
        );
        assert_eq!(
            gaps[1],
            Gap {
                start: Time(18),
                end: Time(30)
            }
        );
    }
}
