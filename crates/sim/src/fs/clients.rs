//! The compute processors of traditional caching: they ask for their chunks one block at a time,
//! with at most one request outstanding per disk. Two-phase I/O adds an exchange of data.

use super::caching::Thread;
use super::costs::Costs;
use super::traditional::Job;
use crate::machine::{Machine, MachineSpec, Node};
use crate::random::Stream;
use crate::time::Time;
use trireme_policy::plan::{Exchange, Request};

/// What clients do, in order, with a barrier between two stages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Requests to the I/O processors.
    Io,
    /// The exchange among clients.
    Exchange,
}

/// All compute processors.
pub struct Clients {
    cps: Vec<Cp>,
    stages: Vec<Stage>,
    stage: usize,
    at_barrier: usize,
    finished: usize,
    exchange: Vec<Vec<Exchange>>,
    costs: Costs<Time>,
    piece: Time,
    write: bool,
    disks: u64,
    iops: u64,
    jitter: f64,
    /// When the last client finished.
    pub done: Option<Time>,
}

struct Cp {
    requests: Vec<Request>,
    next: usize,
    outstanding: Vec<bool>,
    in_flight: u32,
    /// Whether the processor is at work on issuing a request.
    issuing: bool,
    /// Whether the current call still waits for its replies.
    draining: bool,
    finished: bool,
    packed: usize,
    unpacked: usize,
    stream: Stream,
}

/// What the clients are to do.
pub struct Work {
    /// Per client, its requests.
    pub requests: Vec<Vec<Request>>,
    /// The stages.
    pub stages: Vec<Stage>,
    /// What each client passes to each other one, `[from][to]`.
    pub exchange: Vec<Vec<Exchange>>,
    /// Cost of finding a piece's address in the exchange.
    pub piece: Time,
    /// Direction.
    pub write: bool,
    /// Clients begin within this span.
    pub spread: Time,
    /// Relative variation of the cost of issuing a request.
    pub jitter: f64,
    /// The seed of the clients' streams.
    pub seed: u64,
}

impl Clients {
    /// Prepares the clients and wakes each at its own time.
    pub fn new(
        machine: &mut Machine<Job>,
        spec: &MachineSpec,
        costs: Costs<Time>,
        work: Work,
    ) -> Clients {
        let cps = work.requests.into_iter().enumerate().map(|(cp, requests)| {
            let mut stream = Stream::indexed(work.seed, "cp", cp);
            machine.wake(cp as Node, stream.time_below(work.spread), Job::Begin);
            Cp {
                requests,
                next: 0,
                outstanding: vec![false; spec.disks],
                in_flight: 0,
                issuing: false,
                draining: false,
                finished: false,
                packed: 0,
                unpacked: 0,
                stream,
            }
        });
        Clients {
            cps: cps.collect(),
            stages: work.stages,
            stage: 0,
            at_barrier: 0,
            finished: 0,
            exchange: work.exchange,
            costs,
            piece: work.piece,
            write: work.write,
            disks: spec.disks as u64,
            iops: spec.iops as u64,
            jitter: work.jitter,
            done: None,
        }
    }

    /// The number of compute processors.
    pub fn count(&self) -> usize {
        self.cps.len()
    }

    /// Whether all clients have all answers to all their requests.
    pub fn io_finished(&self) -> bool {
        self.finished == self.cps.len()
    }

    pub(super) fn arrived(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        match job {
            Job::Begin => self.begin_stage(machine, node),
            Job::Reply(_) => machine.interrupt(node, self.costs.cp_reply, job),
            _ => machine.interrupt(node, self.costs.interrupt, job),
        }
    }

    pub(super) fn ran(&mut self, machine: &mut Machine<Job>, node: Node, job: Job) {
        match job {
            Job::Issue(thread) => {
                let disk = u64::from(thread.block) % self.disks;
                let iop = (self.cps.len() as u64 + disk % self.iops) as Node;
                let data = if self.write {
                    u64::from(thread.bytes)
                } else {
                    0
                };
                machine.send(node, iop, data, Job::Request(thread));
                self.cps[node as usize].issuing = false;
                self.ask(machine, node);
            }
            Job::Reply(disk) => {
                let cp = &mut self.cps[node as usize];
                cp.outstanding[disk as usize] = false;
                cp.in_flight -= 1;
                if !cp.issuing {
                    self.ask(machine, node);
                }
            }
            Job::Pack(to) => self.packed(machine, node, to),
            Job::Packed(from) => {
                let load = self.exchange_between(from, node);
                machine.work(node, self.handling(load), Job::Unpacked);
            }
            Job::Unpacked => {
                self.cps[node as usize].unpacked += 1;
                self.check_exchange(machine, node);
            }
            Job::Barrier => {
                self.at_barrier += 1;
                if self.at_barrier == self.cps.len() {
                    self.at_barrier = 0;
                    self.stage += 1;
                    for cp in 0..self.cps.len() {
                        machine.send(0, cp as Node, 0, Job::Release);
                    }
                }
            }
            Job::Release => self.begin_stage(machine, node),
            _ => unreachable!("{job:?} is the servers' affair"),
        }
    }

    fn begin_stage(&mut self, machine: &mut Machine<Job>, node: Node) {
        match self.stages.get(self.stage) {
            Some(Stage::Io) => self.ask(machine, node),
            Some(Stage::Exchange) => {
                // Each client begins with its right-hand neighbour, so that ports are shared.
                let to = (node as usize + 1) % self.cps.len();
                let load = self.exchange_between(node, to as u16);
                machine.work(node, self.handling(load), Job::Pack(to as u16));
            }
            None => self.done = Some(machine.now()),
        }
    }

    fn end_stage(&mut self, machine: &mut Machine<Job>, node: Node) {
        if self.stages.len() == 1 {
            self.done = Some(machine.now());
        } else {
            machine.send(node, 0, 0, Job::Barrier);
        }
    }

    /// Issues the next request as soon as its disk and its call allow.
    fn ask(&mut self, machine: &mut Machine<Job>, node: Node) {
        let cp = &mut self.cps[node as usize];
        if cp.draining && cp.in_flight > 0 {
            return;
        }
        cp.draining = false;
        let Some(request) = cp.requests.get(cp.next) else {
            if cp.in_flight == 0 && !cp.finished {
                cp.finished = true;
                self.finished += 1;
                self.end_stage(machine, node);
            }
            return;
        };
        let disk = (request.block % self.disks) as usize;
        if cp.outstanding[disk] {
            return;
        }
        cp.outstanding[disk] = true;
        cp.in_flight += 1;
        cp.next += 1;
        cp.issuing = true;
        cp.draining = request.last;
        let vary = 1.0 + self.jitter * cp.stream.between(-1.0, 1.0);
        let cost = Time((self.costs.cp_issue.0 as f64 * vary) as u64);
        let thread = Thread {
            cp: node,
            block: request.block as u32,
            bytes: request.bytes,
        };
        machine.work(node, cost, Job::Issue(thread));
    }

    /// The cost of packing or unpacking: an address per piece, a copy of every byte.
    fn handling(&self, load: Exchange) -> Time {
        self.piece * load.pieces + self.costs.copy(load.bytes)
    }

    /// What moves between two clients: after reading from the conforming owner to the final one,
    /// before writing the other way round.
    fn exchange_between(&self, from: Node, to: Node) -> Exchange {
        let (from, to) = (from as usize, to as usize);
        if self.write {
            self.exchange[to][from]
        } else {
            self.exchange[from][to]
        }
    }

    fn packed(&mut self, machine: &mut Machine<Job>, node: Node, to: Node) {
        let load = self.exchange_between(node, to);
        if to == node {
            // Its own share needs no message; packing it was the copy.
            self.cps[node as usize].unpacked += 1;
        } else {
            machine.send(node, to, load.bytes, Job::Packed(node));
        }
        let count = self.cps.len();
        let cp = &mut self.cps[node as usize];
        cp.packed += 1;
        if cp.packed < count {
            let next = (to + 1) % count as u16;
            let load = self.exchange_between(node, next);
            machine.work(node, self.handling(load), Job::Pack(next));
        }
        self.check_exchange(machine, node);
    }

    fn check_exchange(&mut self, machine: &mut Machine<Job>, node: Node) {
        let cp = &self.cps[node as usize];
        if cp.packed == self.cps.len() && cp.unpacked == self.cps.len() {
            self.end_stage(machine, node);
        }
    }
}
