//! A record of one run, for people who want to look at it: processors, disks, messages.

use crate::machine::{DiskRequest, Node};
use crate::time::Time;

/// Everything that happened, up to a limit.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Work on processors: node, label, start, end.
    pub work: Vec<(Node, &'static str, Time, Time)>,
    /// Disk requests.
    pub disks: Vec<DiskSpan>,
    /// Messages: from, to, bytes, sent, arrived.
    pub messages: Vec<(Node, Node, u64, Time, Time)>,
    /// How many of each kind are kept; the rest is counted in `dropped`.
    pub limit: usize,
    /// Records that did not fit.
    pub dropped: u64,
}

/// One disk request.
#[derive(Clone, Copy, Debug)]
pub struct DiskSpan {
    /// The disk.
    pub disk: usize,
    /// What was asked.
    pub request: DiskRequest,
    /// Where the heads were at the end.
    pub cylinder: u64,
    /// From the command to the disk's report.
    pub start: Time,
    /// The report.
    pub end: Time,
}

impl Trace {
    /// A trace that keeps at most `limit` records of each kind.
    pub fn new(limit: usize) -> Trace {
        Trace {
            limit,
            ..Trace::default()
        }
    }

    pub(crate) fn work(&mut self, node: Node, label: &'static str, start: Time, end: Time) {
        if self.work.len() < self.limit {
            self.work.push((node, label, start, end));
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn message(&mut self, from: Node, to: Node, bytes: u64, sent: Time, arrived: Time) {
        if self.messages.len() < self.limit {
            self.messages.push((from, to, bytes, sent, arrived));
        } else {
            self.dropped += 1;
        }
    }

    pub(crate) fn disk(
        &mut self,
        disk: usize,
        request: DiskRequest,
        cylinder: u64,
        start: Time,
        end: Time,
    ) {
        if self.disks.len() < self.limit {
            self.disks.push(DiskSpan {
                disk,
                request,
                cylinder,
                start,
                end,
            });
        } else {
            self.dropped += 1;
        }
    }
}
