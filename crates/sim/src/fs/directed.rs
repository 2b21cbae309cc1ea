//! Disk-directed I/O: one request to each I/O processor, which then visits its blocks in its own
//! order with two buffers per disk, and moves each member's pieces itself.

use super::costs::Costs;
use super::disk_queue::{DiskQueues, Queued};
use crate::machine::{Machine, MachineSpec, Node, Program};
use crate::time::Time;
use std::collections::VecDeque;
use trireme_policy::plan::{Share, Step};

/// The program that runs a disk-directed collective.
pub struct Directed {
    queues: DiskQueues,
    costs: Costs<Time>,
    write: bool,
    piece: Time,
    memget_reply: Time,
    cps: usize,
    iops: Vec<Iop>,
    buffers: Vec<Buffer>,
    plans: Vec<VecDeque<Step>>,
    shares: Vec<Vec<Share>>,
    reports: usize,
    /// When compute processor 0 had the reports of all I/O processors.
    pub finished: Option<Time>,
}

struct Iop {
    entries: u64,
    /// Buffers that still have blocks to move.
    active: usize,
}

/// One of the buffers of a disk, and the block that it carries.
struct Buffer {
    disk: usize,
    node: Node,
    block: u64,
    /// Pieces not yet asked for or sent, per share; and whose turn it is.
    left: Vec<u32>,
    turn: usize,
    unsent: u32,
    unanswered: u32,
}

/// Pieces of work and messages.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// CP 0 sends the collective request to an I/O processor.
    Ask(u16),
    /// The request, at an I/O processor.
    Start,
    /// Issue a disk request.
    Issue(u16),
    /// A disk's interrupt.
    Disk(u16),
    /// A buffer's thread runs.
    Resume(u32),
    /// Send the next Memput or Memget of a buffer.
    Piece(u32),
    /// A Memput or Memget at a member, for this buffer, with these bytes.
    Member(u32, u32),
    /// Acknowledgement or data for a buffer.
    Answer(u32),
    /// An I/O processor tells CP 0 that it is done.
    Report,
    /// The report, at CP 0.
    Done,
}

/// What a disk-directed run needs.
pub struct Setup {
    /// Per disk, the blocks in the order of the plan.
    pub plans: Vec<Vec<Step>>,
    /// Per block, the members' shares.
    pub shares: Vec<Vec<Share>>,
    /// Direction.
    pub write: bool,
    /// Whether a piece's address needs two dimensions.
    pub two_dimensional: bool,
    /// Buffers per disk.
    pub buffers: usize,
    /// When the last member is ready.
    pub start: Time,
}

impl Directed {
    /// Prepares the program and wakes CP 0.
    pub fn new(
        machine: &mut Machine<Job>,
        spec: &MachineSpec,
        costs: Costs<Time>,
        queues: DiskQueues,
        setup: Setup,
    ) -> Directed {
        let mut buffers = vec![];
        let mut iops: Vec<Iop> = (0..spec.iops)
            .map(|_| Iop {
                entries: 0,
                active: 0,
            })
            .collect();
        for (disk, plan) in setup.plans.iter().enumerate() {
            let iop = spec.iop_of_disk(disk);
            iops[iop].entries += plan.len() as u64;
            iops[iop].active += setup.buffers;
            for _ in 0..setup.buffers {
                buffers.push(Buffer {
                    disk,
                    node: (spec.cps + iop) as Node,
                    block: 0,
                    left: vec![],
                    turn: 0,
                    unsent: 0,
                    unanswered: 0,
                });
            }
        }
        for iop in 0..spec.iops {
            machine.wake(0, setup.start, Job::Ask(iop as u16));
        }
        let two = setup.two_dimensional;
        let extra = if two {
            costs.memget_reply_2d
        } else {
            Time::ZERO
        };
        Directed {
            queues,
            write: setup.write,
            piece: if two { costs.piece_2d } else { costs.piece_1d } + costs.send,
            memget_reply: costs.memget_reply + extra,
            cps: spec.cps,
            iops,
            buffers,
            plans: setup.plans.into_iter().map(VecDeque::from).collect(),
            shares: setup.shares,
            reports: 0,
            finished: None,
            costs,
        }
    }

    /// A buffer takes the next block of its disk, or retires.
    fn begin(&mut self, machine: &mut Machine<Job>, id: u32) {
        let buffer = &mut self.buffers[id as usize];
        let Some(step) = self.plans[buffer.disk].pop_front() else {
            let iop = &mut self.iops[buffer.node as usize - self.cps];
            iop.active -= 1;
            if iop.active == 0 {
                machine.work(buffer.node, self.costs.send, Job::Report);
            }
            return;
        };
        buffer.block = step.block;
        if self.write {
            self.move_pieces(machine, id);
        } else {
            self.queue(machine, id);
        }
    }

    fn queue(&mut self, machine: &mut Machine<Job>, id: u32) {
        let block = self.buffers[id as usize].block;
        self.queues.queue(
            machine,
            Queued {
                tag: id,
                block,
                write: self.write,
            },
            Job::Issue,
        );
    }

    /// Starts the Memputs or Memgets of a buffer's block.
    fn move_pieces(&mut self, machine: &mut Machine<Job>, id: u32) {
        let buffer = &mut self.buffers[id as usize];
        let shares = &self.shares[buffer.block as usize];
        buffer.left.clear();
        buffer.left.extend(shares.iter().map(|share| share.pieces));
        buffer.turn = 0;
        buffer.unsent = buffer.left.iter().sum();
        buffer.unanswered = buffer.unsent;
        if buffer.unsent == 0 {
            self.moved(machine, id);
        } else {
            machine.work(buffer.node, self.piece, Job::Piece(id));
        }
    }

    /// Sends one Memput or Memget; members take turns, as their pieces do in the block.
    fn send_piece(&mut self, machine: &mut Machine<Job>, id: u32) {
        let buffer = &mut self.buffers[id as usize];
        let shares = &self.shares[buffer.block as usize];
        while buffer.left[buffer.turn] == 0 {
            buffer.turn = (buffer.turn + 1) % shares.len();
        }
        let share = shares[buffer.turn];
        buffer.left[buffer.turn] -= 1;
        buffer.turn = (buffer.turn + 1) % shares.len();
        buffer.unsent -= 1;
        let bytes = share.bytes / share.pieces;
        let data = if self.write { 0 } else { u64::from(bytes) };
        machine.send(
            buffer.node,
            share.member as Node,
            data,
            Job::Member(id, bytes),
        );
        if buffer.unsent > 0 {
            machine.work(buffer.node, self.piece, Job::Piece(id));
        }
    }

    /// All pieces of a buffer's block are where they belong.
    fn moved(&mut self, machine: &mut Machine<Job>, id: u32) {
        if self.write {
            self.queue(machine, id);
        } else {
            self.begin(machine, id);
        }
    }
}

impl Program for Directed {
    type Job = Job;

    fn arrived(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        let cost = match job {
            Job::Ask(_) => return machine.work(node, self.costs.send, job),
            Job::Start => {
                let entries = self.iops[node as usize - self.cps].entries;
                self.costs.interrupt + self.costs.thread_create + self.costs.list_entry * entries
            }
            Job::Member(..) => self.costs.member_service,
            Job::Answer(_) if self.write => self.memget_reply,
            _ => self.costs.interrupt,
        };
        machine.interrupt(node, cost, job);
    }

    fn ran(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        match job {
            Job::Ask(iop) => machine.send(node, (self.cps as u16) + iop, 0, Job::Start),
            Job::Start => {
                for id in 0..self.buffers.len() {
                    if self.buffers[id].node == node {
                        self.begin(machine, id as u32);
                    }
                }
            }
            Job::Issue(disk) => self.queues.issue(machine, disk as usize),
            Job::Disk(disk) => {
                let done = self.queues.finish(machine, disk as usize, Job::Issue);
                machine.work(node, self.costs.thread_switch, Job::Resume(done.tag));
            }
            Job::Resume(id) if self.write => self.begin(machine, id),
            Job::Resume(id) => self.move_pieces(machine, id),
            Job::Piece(id) => self.send_piece(machine, id),
            Job::Member(id, bytes) => {
                let data = if self.write { u64::from(bytes) } else { 0 };
                machine.send(node, self.buffers[id as usize].node, data, Job::Answer(id));
            }
            Job::Answer(id) => {
                let buffer = &mut self.buffers[id as usize];
                buffer.unanswered -= 1;
                if buffer.unanswered == 0 {
                    self.moved(machine, id);
                }
            }
            Job::Report => machine.send(node, 0, 0, Job::Done),
            Job::Done => {
                self.reports += 1;
                if self.reports == self.iops.len() {
                    self.finished = Some(machine.now());
                }
            }
        }
    }

    fn disk_done(&mut self, machine: &mut Machine<Job>, disk: usize) {
        self.queues.interrupt(machine, disk, Job::Disk(disk as u16));
    }

    fn label(job: Job) -> &'static str {
        match job {
            Job::Ask(_) => "send request",
            Job::Start => "make plan",
            Job::Issue(_) => "issue disk request",
            Job::Disk(_) => "disk interrupt",
            Job::Resume(_) => "buffer thread",
            Job::Piece(_) => "send piece",
            Job::Member(..) => "serve piece",
            Job::Answer(_) => "piece answered",
            Job::Report | Job::Done => "report",
        }
    }
}
