//! A simulated multiprocessor: processors, a torus network, buses and disks.
//!
//! The machine owns hardware and time; what runs on it is a [`Program`], which reacts to
//! messages, finished processor work and finished disk requests by asking for more of them.
//! Contention is modelled where it matters: each processor runs one piece of work at a time,
//! each network port carries one message, each bus one transfer, each disk one request.

mod cpu;
mod network;
mod spec;

pub use cpu::{Cpu, Gap};
pub use network::Network;
pub use spec::MachineSpec;

use crate::agenda::Agenda;
use crate::disk::Disk;
use crate::time::Time;
use crate::trace::Trace;

/// Index of a processor: compute processors first, then I/O processors.
pub type Node = u16;

/// What runs on a machine. `Job` is the program's own small description of a piece of work.
pub trait Program {
    /// A piece of work, or the content of a message.
    type Job: Copy;

    /// A message has arrived at a node.
    fn arrived(&mut self, machine: &mut Machine<Self::Job>, node: Node, job: Self::Job);

    /// A node's processor has finished a piece of work.
    fn ran(&mut self, machine: &mut Machine<Self::Job>, node: Node, job: Self::Job);

    /// A disk has finished its request.
    fn disk_done(&mut self, machine: &mut Machine<Self::Job>, disk: usize);

    /// What a piece of work is called in a trace.
    fn label(job: Self::Job) -> &'static str;
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// First sector.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// Direction.
    pub write: bool,
}

/// The machine.
pub struct Machine<J> {
    agenda: Agenda<Event<J>>,
    cpus: Vec<Cpu<J>>,
    network: Network,
    disks: Vec<Unit>,
    /// When each bus becomes free.
    buses: Vec<Time>,
    /// What is recorded, if somebody wants to see the run.
    pub trace: Option<Box<Trace>>,
}

#[derive(Clone, Copy, Debug)]
enum Event<J> {
    /// The present work of a node is finished.
    Cpu(Node),
    /// A message arrives.
    Message(Node, J),
    /// A disk's request enters its next phase.
    Disk(u16),
}

/// A disk with its bus and present request.
struct Unit {
    disk: Disk,
    bus: usize,
    bus_time_per_sector: Time,
    request: Option<DiskRequest>,
    phase: Phase,
    since: Time,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Command,
    Media,
    Bus,
    Report,
}

impl<J: Copy> Machine<J> {
    /// A machine at rest. `phase(d)` is the rotational position of disk `d` at time zero.
    pub fn new(spec: &MachineSpec, phase: impl Fn(usize) -> Time) -> Machine<J> {
        let nodes = spec.cps + spec.iops;
        let sector_time = spec.drive.bus_time(spec.drive.sector_bytes());
        let unit = |d: usize| Unit {
            disk: Disk::new(&spec.drive, phase(d)),
            bus: spec.iop_of_disk(d),
            bus_time_per_sector: sector_time,
            request: None,
            phase: Phase::Command,
            since: Time::ZERO,
        };
        Machine {
            agenda: Agenda::new(),
            cpus: (0..nodes).map(|_| Cpu::default()).collect(),
            network: Network::new(nodes, spec),
            disks: (0..spec.disks).map(unit).collect(),
            buses: vec![Time::ZERO; spec.iops],
            trace: None,
        }
    }

    /// Runs until nothing more happens; the time of the last event.
    pub fn run<P: Program<Job = J>>(&mut self, program: &mut P) -> Time {
        while let Some(event) = self.agenda.next_event() {
            match event {
                Event::Cpu(node) => {
                    let job = self.next_work::<P>(node);
                    program.ran(self, node, job);
                }
                Event::Message(node, job) => program.arrived(self, node, job),
                Event::Disk(disk) => {
                    if self.advance_disk(disk as usize) {
                        program.disk_done(self, disk as usize);
                    }
                }
            }
        }
        self.agenda.now()
    }

    /// The present time.
    pub fn now(&self) -> Time {
        self.agenda.now()
    }

    /// Events so far.
    pub fn events(&self) -> u64 {
        self.agenda.processed()
    }

    /// Work in a node's threads: first come, first served, after all interrupts.
    #[inline]
    pub fn work(&mut self, node: Node, cost: Time, job: J) {
        let cpu = &mut self.cpus[node as usize];
        if cpu.enqueue(self.agenda.now(), cost, job, false) {
            self.agenda.after(cost, Event::Cpu(node));
        }
    }

    /// Work in a node's interrupt handler: before all threads, but it does not preempt.
    #[inline]
    pub fn interrupt(&mut self, node: Node, cost: Time, job: J) {
        let cpu = &mut self.cpus[node as usize];
        if cpu.enqueue(self.agenda.now(), cost, job, true) {
            self.agenda.after(cost, Event::Cpu(node));
        }
    }

    /// Sends a message with `bytes` of data; the network adds its header.
    #[inline]
    pub fn send(&mut self, from: Node, to: Node, bytes: u64, job: J) {
        let now = self.agenda.now();
        let arrival = self.network.send(now, from as usize, to as usize, bytes);
        if let Some(trace) = &mut self.trace {
            trace.message(from, to, bytes, now, arrival);
        }
        self.agenda.at(arrival, Event::Message(to, job));
    }

    /// Delivers a job to a node after a delay, without a message (a program's own clock).
    pub fn wake(&mut self, node: Node, delay: Time, job: J) {
        self.agenda.after(delay, Event::Message(node, job));
    }

    /// Hands a request to an idle disk.
    pub fn disk(&mut self, disk: usize, request: DiskRequest) {
        let now = self.agenda.now();
        let unit = &mut self.disks[disk];
        assert!(unit.request.is_none(), "disk {disk} has a request already");
        unit.request = Some(request);
        unit.phase = Phase::Command;
        unit.since = now;
        self.agenda
            .after(unit.disk.command_time(), Event::Disk(disk as u16));
    }

    /// When everything written is on the media of all disks.
    pub fn settled(&self) -> Time {
        self.disks
            .iter()
            .map(|unit| unit.disk.settled())
            .max()
            .unwrap_or(Time::ZERO)
    }

    /// Keeps a record of idle gaps longer than `shortest` on these nodes.
    pub fn watch_idle(&mut self, nodes: std::ops::Range<usize>, shortest: Time) {
        self.cpus[nodes]
            .iter_mut()
            .for_each(|cpu| cpu.watch(shortest));
    }

    /// Closes the accounts of a node at `end`, and hands over its idle gaps.
    pub fn idle_gaps(&mut self, node: usize, end: Time) -> Vec<Gap> {
        self.cpus[node].gaps(end)
    }

    /// How long a node was busy.
    pub fn busy(&self, node: usize) -> Time {
        self.cpus[node].busy
    }

    #[inline]
    fn next_work<P: Program<Job = J>>(&mut self, node: Node) -> J {
        let now = self.agenda.now();
        let cpu = &mut self.cpus[node as usize];
        if let Some(trace) = &mut self.trace {
            let (started, job) = cpu.present();
            trace.work(node, P::label(job), started, now);
        }
        let (job, next) = cpu.finish(now);
        if let Some(cost) = next {
            self.agenda.after(cost, Event::Cpu(node));
        }
        job
    }

    /// One phase of a disk request; true when it is finished.
    fn advance_disk(&mut self, disk: usize) -> bool {
        let now = self.agenda.now();
        let unit = &mut self.disks[disk];
        let request = unit.request.expect("a disk event belongs to a request");
        let bus = |buses: &mut [Time]| {
            let start = now.max(buses[unit.bus]);
            buses[unit.bus] = start + unit.bus_time_per_sector * request.sectors;
            buses[unit.bus]
        };
        let (phase, at) = match (unit.phase, request.write) {
            (Phase::Command, false) => (
                Phase::Media,
                unit.disk.read(now, request.sector, request.sectors),
            ),
            (Phase::Media, _) | (Phase::Command, true) => (Phase::Bus, bus(&mut self.buses)),
            (Phase::Bus, true) => (
                Phase::Report,
                unit.disk.write(now, request.sector, request.sectors),
            ),
            (Phase::Bus, false) | (Phase::Report, _) => {
                unit.request = None;
                if let Some(trace) = &mut self.trace {
                    trace.disk(disk, request, unit.disk.cylinder(), unit.since, now);
                }
                return true;
            }
        };
        unit.phase = phase;
        self.agenda.at(at, Event::Disk(disk as u16));
        false
    }
}
