//! The disk threads of an I/O processor: one queue per disk, first come, first served.

use super::costs::Costs;
use crate::machine::{DiskRequest, Machine, MachineSpec, Node};
use crate::time::Time;
use std::collections::VecDeque;

/// One request in a disk's queue; `tag` tells its owner what it was for.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    /// What the owner wants to be told on completion (a cache slot, a buffer).
    pub tag: u32,
    /// The file block.
    pub block: u64,
    /// Direction.
    pub write: bool,
}

/// All disk queues of a machine.
pub struct DiskQueues {
    queues: Vec<Queue>,
    places: Vec<u64>,
    sectors: u64,
    nodes: Vec<Node>,
    costs: Costs<Time>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Queued>,
    present: Option<Queued>,
    /// From the decision to issue until the interrupt is handled.
    active: bool,
}

impl DiskQueues {
    /// Idle disks; `places` is the first sector of each block.
    pub fn new(
        spec: &MachineSpec,
        places: Vec<u64>,
        block_bytes: u64,
        costs: Costs<Time>,
    ) -> DiskQueues {
        DiskQueues {
            queues: (0..spec.disks).map(|_| Queue::default()).collect(),
            places,
            sectors: block_bytes / spec.drive.sector_bytes(),
            nodes: (0..spec.disks)
                .map(|d| (spec.cps + spec.iop_of_disk(d)) as Node)
                .collect(),
            costs,
        }
    }

    /// The disk of a block.
    pub fn disk_of(&self, block: u64) -> usize {
        (block % self.queues.len() as u64) as usize
    }

    /// First sector of a block.
    pub fn place(&self, block: u64) -> u64 {
        self.places[block as usize]
    }

    /// Queues a request; an idle disk's thread starts to issue it (`issue` is the job's name).
    pub fn queue<J: Copy>(
        &mut self,
        machine: &mut Machine<J>,
        request: Queued,
        issue: fn(u16) -> J,
    ) {
        let disk = self.disk_of(request.block);
        let queue = &mut self.queues[disk];
        queue.waiting.push_back(request);
        if !queue.active {
            queue.active = true;
            machine.work(self.nodes[disk], self.costs.disk_issue, issue(disk as u16));
        }
    }

    /// The issuing work is done: the request goes to the disk.
    pub fn issue<J: Copy>(&mut self, machine: &mut Machine<J>, disk: usize) {
        let queue = &mut self.queues[disk];
        let request = queue
            .waiting
            .pop_front()
            .expect("issued because something waits");
        queue.present = Some(request);
        let (sector, sectors) = (self.places[request.block as usize], self.sectors);
        machine.disk(
            disk,
            DiskRequest {
                sector,
                sectors,
                write: request.write,
            },
        );
    }

    /// The disk is done: its interrupt is taken by the node that it hangs on.
    pub fn interrupt<J: Copy>(&self, machine: &mut Machine<J>, disk: usize, job: J) {
        let cost = self.costs.interrupt + self.costs.thread_switch;
        machine.interrupt(self.nodes[disk], cost, job);
    }

    /// The interrupt is handled: the next request is issued; what was finished.
    pub fn finish<J: Copy>(
        &mut self,
        machine: &mut Machine<J>,
        disk: usize,
        issue: fn(u16) -> J,
    ) -> Queued {
        let queue = &mut self.queues[disk];
        let done = queue.present.take().expect("the disk had a request");
        if queue.waiting.is_empty() {
            queue.active = false;
        } else {
            machine.work(self.nodes[disk], self.costs.disk_issue, issue(disk as u16));
        }
        done
    }
}
