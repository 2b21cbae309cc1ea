//! The I/O processors of traditional caching: a thread per request, an LRU cache, one block of
//! prefetch, write-behind of full blocks. The rules are `policy::cache`; this is their timing.

use super::costs::Costs;
use super::disk_queue::{DiskQueues, Queued};
use super::traditional::Job;
use crate::machine::{Machine, MachineSpec, Node};
use crate::time::Time;
use std::collections::VecDeque;
use trireme_policy::cache::{BlockCache, Claim, Slot, State, next_on_disk};

/// A request, and the thread that serves it.
#[derive(Clone, Copy, Debug)]
pub struct Thread {
    /// The client.
    pub cp: u16,
    /// The file block; the cache slot once the thread has one to copy into.
    pub block: u32,
    /// Bytes of the block.
    pub bytes: u32,
}

/// All I/O processors.
pub struct Servers {
    iops: Vec<Iop>,
    queues: DiskQueues,
    costs: Costs<Time>,
    write: bool,
    cps: usize,
    disks: u64,
    blocks: u64,
    flushed: bool,
    /// Blocks read ahead, for reports.
    pub prefetches: u64,
}

struct Iop {
    cache: BlockCache,
    /// Per slot, threads that wait for its transfer.
    waiters: Vec<Vec<Thread>>,
    /// Threads that wait for any buffer.
    stalled: VecDeque<Thread>,
}

impl Servers {
    /// Idle servers with empty caches of `buffers` per disk.
    pub fn new(
        spec: &MachineSpec,
        costs: Costs<Time>,
        queues: DiskQueues,
        buffers: usize,
        block_bytes: u64,
        blocks: u64,
        write: bool,
    ) -> Servers {
        let iop = |iop: usize| {
            let disks = (0..spec.disks)
                .filter(|disk| spec.iop_of_disk(*disk) == iop)
                .count();
            Iop {
                cache: BlockCache::new(buffers * disks, block_bytes as u32),
                waiters: vec![vec![]; buffers * disks],
                stalled: VecDeque::new(),
            }
        };
        Servers {
            iops: (0..spec.iops).map(iop).collect(),
            queues,
            costs,
            write,
            cps: spec.cps,
            disks: spec.disks as u64,
            blocks,
            flushed: false,
            prefetches: 0,
        }
    }

    pub(super) fn arrived(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        machine.interrupt(node, self.costs.interrupt + self.costs.thread_create, job);
    }

    pub(super) fn ran(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        match job {
            Job::Request(thread) => {
                machine.work(node, self.costs.cache_lookup, Job::Lookup(thread));
            }
            Job::Lookup(thread) if self.write => self.look_to_write(machine, node, thread),
            Job::Lookup(thread) => self.look_to_read(machine, node, thread),
            Job::Copy(thread) => self.copied(machine, node, thread),
            // Readers woken by their block answer; whoever was stalled for a buffer looks again.
            Job::Woken(thread) if self.write => self.look_to_write(machine, node, thread),
            Job::Woken(thread) => self.look_to_read(machine, node, thread),
            Job::Answer(thread) => self.answer(machine, node, thread),
            Job::Prefetch(block) => self.prefetch(machine, node, u64::from(block)),
            Job::DiskIssue(disk) => self.queues.issue(machine, disk as usize),
            Job::DiskDone(disk) => self.transferred(machine, node, disk as usize),
            _ => unreachable!("{job:?} is the clients' affair"),
        }
    }

    pub(super) fn disk_done(&mut self, machine: &mut Machine<Job>, disk: usize) {
        self.queues
            .interrupt(machine, disk, Job::DiskDone(disk as u16));
    }

    /// Writes out what is left when all clients are done.
    pub(super) fn flush(&mut self, machine: &mut Machine<Job>) {
        if std::mem::replace(&mut self.flushed, true) {
            return;
        }
        for iop in 0..self.iops.len() {
            for slot in self.iops[iop].cache.dirty() {
                self.write_behind(machine, iop, slot);
            }
        }
    }

    fn look_to_read(&mut self, machine: &mut Machine<Job>, node: Node, thread: Thread) {
        let iop = node as usize - self.cps;
        let block = u64::from(thread.block);
        match self.iops[iop].cache.look(block) {
            Some((slot, State::Filling)) => self.iops[iop].waiters[slot as usize].push(thread),
            Some(_) => {
                machine.work(node, self.costs.send, Job::Answer(thread));
                self.wake_stalled(machine, node);
            }
            None => match self.iops[iop].cache.claim(block, State::Filling) {
                Claim::Buffer(slot) => {
                    self.iops[iop].waiters[slot as usize].push(thread);
                    self.fetch(machine, slot, block);
                }
                claim => self.stall(machine, iop, thread, claim),
            },
        }
    }

    fn look_to_write(&mut self, machine: &mut Machine<Job>, node: Node, thread: Thread) {
        let iop = node as usize - self.cps;
        let block = u64::from(thread.block);
        let slot = match self.iops[iop].cache.look(block) {
            Some((slot, State::Filling | State::Flushing)) => {
                self.iops[iop].waiters[slot as usize].push(thread);
                return;
            }
            Some((slot, _)) => {
                self.wake_stalled(machine, node);
                slot
            }
            None => match self.iops[iop].cache.claim(block, State::Dirty) {
                Claim::Buffer(slot) => slot,
                claim => return self.stall(machine, iop, thread, claim),
            },
        };
        // The buffer is dirty from now on, so that nobody takes it during the copy.
        self.iops[iop].cache.written(slot, 0);
        let cost = self.costs.write_extra + self.costs.copy(u64::from(thread.bytes));
        machine.work(
            node,
            cost,
            Job::Copy(Thread {
                block: slot,
                ..thread
            }),
        );
    }

    fn copied(&mut self, machine: &mut Machine<Job>, node: Node, thread: Thread) {
        let iop = node as usize - self.cps;
        let slot: Slot = thread.block;
        let block = self.iops[iop].cache.block(slot) as u32;
        machine.work(
            node,
            self.costs.send,
            Job::Answer(Thread { block, ..thread }),
        );
        if self.iops[iop].cache.written(slot, thread.bytes) {
            self.write_behind(machine, iop, slot);
        }
    }

    fn answer(&mut self, machine: &mut Machine<Job>, node: Node, thread: Thread) {
        let disk = self.queues.disk_of(u64::from(thread.block)) as u16;
        let data = if self.write {
            0
        } else {
            u64::from(thread.bytes)
        };
        machine.send(node, thread.cp, data, Job::Reply(disk));
        // Seeing that the next block is there already is part of the lookup.
        if !self.write && self.to_prefetch(node, u64::from(thread.block)).is_some() {
            machine.work(node, self.costs.prefetch, Job::Prefetch(thread.block));
        }
    }

    /// The block after this one on the same disk, if the file has it and the cache has not.
    fn to_prefetch(&self, node: Node, block: u64) -> Option<u64> {
        let cache = &self.iops[node as usize - self.cps].cache;
        next_on_disk(block, self.disks, self.blocks).filter(|next| !cache.holds(*next))
    }

    fn prefetch(&mut self, machine: &mut Machine<Job>, node: Node, block: u64) {
        let cache = &mut self.iops[node as usize - self.cps].cache;
        let Some(next) = next_on_disk(block, self.disks, self.blocks) else {
            return;
        };
        if cache.holds(next) {
            return;
        }
        // A prefetch never waits for a buffer: somebody who needs one comes first.
        if let Claim::Buffer(slot) = cache.claim(next, State::Filling) {
            self.prefetches += 1;
            self.fetch(machine, slot, next);
        }
    }

    fn fetch(&mut self, machine: &mut Machine<Job>, slot: Slot, block: u64) {
        self.queues.queue(
            machine,
            Queued {
                tag: slot,
                block,
                write: false,
            },
            Job::DiskIssue,
        );
    }

    fn write_behind(&mut self, machine: &mut Machine<Job>, iop: usize, slot: Slot) {
        let cache = &mut self.iops[iop].cache;
        cache.flushing(slot);
        let block = cache.block(slot);
        self.queues.queue(
            machine,
            Queued {
                tag: slot,
                block,
                write: true,
            },
            Job::DiskIssue,
        );
    }

    /// No buffer: the thread waits for one. If all are partly written, the oldest goes to disk.
    fn stall(&mut self, machine: &mut Machine<Job>, iop: usize, thread: Thread, claim: Claim) {
        self.iops[iop].stalled.push_back(thread);
        if let Claim::Flush(slot) = claim {
            self.write_behind(machine, iop, slot);
        }
    }

    /// A disk transfer is over: its buffer is clean, and whoever waited for it goes on.
    fn transferred(&mut self, machine: &mut Machine<Job>, node: Node, disk: usize) {
        let done = self.queues.finish(machine, disk, Job::DiskIssue);
        let iop = &mut self.iops[node as usize - self.cps];
        iop.cache.settled(done.tag);
        for thread in std::mem::take(&mut iop.waiters[done.tag as usize]) {
            machine.work(node, self.costs.thread_switch, Job::Woken(thread));
        }
        self.wake_stalled(machine, node);
    }

    fn wake_stalled(&mut self, machine: &mut Machine<Job>, node: Node) {
        if let Some(thread) = self.iops[node as usize - self.cps].stalled.pop_front() {
            machine.work(node, self.costs.thread_switch, Job::Woken(thread));
        }
    }
}
