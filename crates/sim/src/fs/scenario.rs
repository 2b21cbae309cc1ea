//! One run: a machine, a file, a pattern, a method; and what came out.

use super::caching::Servers;
use super::clients::{Clients, Stage, Work};
use super::costs::Costs;
use super::directed::{Directed, Setup};
use super::disk_queue::DiskQueues;
use super::layout::Layout;
use super::traditional::Traditional;
use crate::machine::{Gap, Machine, MachineSpec};
use crate::random::Stream;
use crate::time::Time;
use crate::trace::Trace;
use trireme_partition::{Part, Partition};
use trireme_policy::plan::{self, Conforming, Step};

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Traditional caching: every member for itself.
    Traditional,
    /// Disk-directed, blocks in file order.
    Directed,
    /// Disk-directed, blocks sorted by their place on the disk.
    DirectedSorted,
    /// Two-phase, with this conforming distribution.
    TwoPhase(Conforming),
}

impl Method {
    /// All methods with the names that users write.
    pub const NAMED: &[(&str, Method)] = &[
        ("tc", Method::Traditional),
        ("dd", Method::Directed),
        ("dds", Method::DirectedSorted),
        ("two-phase", Method::TwoPhase(Conforming::Cyclic)),
        ("two-phase-block", Method::TwoPhase(Conforming::Block)),
    ];
}

/// How the platters of the disks stand to each other at time zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// All alike, at an angle that the seed decides.
    Common,
    /// Each at its own angle.
    Own,
}

/// Everything that one run depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The hardware.
    pub machine: MachineSpec,
    /// Processor costs.
    pub costs: Costs,
    /// Processor speed relative to 50 MHz.
    pub cpu_speed: f64,
    /// File system.
    pub method: Method,
    /// Access pattern, by the paper's short name (`rb`, `wcc`, ...).
    pub pattern: String,
    /// Bytes of a record.
    pub record: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Where blocks lie on the disks.
    pub layout: Layout,
    /// Cache buffers per disk (traditional); the papers have two per compute processor.
    pub cache_buffers: usize,
    /// Buffers per disk (disk-directed).
    pub buffers: usize,
    /// Compute processors begin within this many microseconds.
    pub start_spread_us: f64,
    /// Relative variation of the cost of issuing a request.
    pub jitter: f64,
    /// Whether a traditional run ends only when the disks' own buffers are on the media.
    pub settle: bool,
    /// Rotational phases.
    pub phase: Phase,
    /// Idle gaps of I/O processors longer than this are kept; none if `None`.
    pub watch_idle: Option<Time>,
    /// The seed of layout, phases and jitter.
    pub seed: u64,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            machine: MachineSpec::default(),
            costs: Costs::default(),
            cpu_speed: 1.0,
            method: Method::Traditional,
            pattern: "rb".into(),
            record: 8192,
            file_bytes: 10 << 20,
            block_bytes: 8192,
            layout: Layout::Contiguous,
            cache_buffers: 32,
            buffers: 2,
            start_spread_us: 50.0,
            jitter: 0.5,
            settle: true,
            phase: Phase::Common,
            watch_idle: None,
            seed: 0,
        }
    }
}

/// A scenario that cannot run: the key at fault, its value, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key} = {value}` is not allowed: {reason}")]
pub struct ScenarioError {
    /// The parameter's name.
    pub key: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From the start until all data is where it belongs.
    pub elapsed: Time,
    /// Bytes moved to or from members.
    pub bytes: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Events of the simulation.
    pub events: u64,
    /// Per I/O processor, the gaps in its work.
    pub gaps: Vec<Vec<Gap>>,
    /// Busy share of each I/O processor.
    pub iop_busy: Vec<f64>,
    /// What happened, if asked for.
    pub trace: Option<Box<Trace>>,
}

impl Outcome {
    /// Throughput in MB/s (2^20 bytes).
    pub fn throughput(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.elapsed.seconds()
    }
}

/// What an I/O processor's idle time is worth to a computation on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Availability {
    /// Share of the processor without barriers.
    pub free: f64,
    /// Share with a barrier among all I/O processors after each `interval` of work.
    pub with_barriers: f64,
}

impl Outcome {
    /// The computation's share, if each idle gap loses `switch` to the context switch.
    pub fn availability(&self, switch: Time, interval: Time) -> Availability {
        let usable = |gap: &Gap| (gap.end - gap.start).saturating_sub(switch);
        let total: Time = self.gaps.iter().flatten().map(usable).sum();
        let elapsed = self.elapsed.0 as f64;
        let free = total.0 as f64 / elapsed / self.gaps.len().max(1) as f64;
        let rounds = self.rounds(switch, interval);
        Availability {
            free,
            with_barriers: (interval * rounds).0 as f64 / elapsed,
        }
    }

    /// How often all processes get `interval` of processor time, each round beginning together.
    fn rounds(&self, switch: Time, interval: Time) -> u64 {
        let mut next = vec![0; self.gaps.len()];
        let (mut start, mut rounds) = (Time::ZERO, 0);
        loop {
            let mut last = start;
            for (gaps, next) in self.gaps.iter().zip(&mut next) {
                let mut needed = interval;
                loop {
                    let Some(gap) = gaps.get(*next) else {
                        return rounds;
                    };
                    let from = (gap.start + switch).max(start);
                    let available = gap.end.saturating_sub(from);
                    if available >= needed {
                        last = last.max(from + needed);
                        break;
                    }
                    needed = needed - available;
                    *next += 1;
                }
            }
            rounds += 1;
            start = last;
        }
    }
}

impl Scenario {
    /// Refuses what cannot run, by key.
    pub fn check(&self) -> Result<(), ScenarioError> {
        let refuse = |key, value: String, reason: &str| {
            Err(ScenarioError {
                key,
                value,
                reason: reason.into(),
            })
        };
        let m = &self.machine;
        if m.cps == 0 || m.cps > 4096 {
            return refuse("cps", m.cps.to_string(), "allowed: 1 to 4096");
        }
        if m.iops == 0 || m.iops > 4096 {
            return refuse("iops", m.iops.to_string(), "allowed: 1 to 4096");
        }
        if m.disks < m.iops || m.disks > 16384 {
            return refuse(
                "disks",
                m.disks.to_string(),
                "allowed: from the number of iops to 16384",
            );
        }
        if let Err(error) = m.drive.check() {
            return refuse("drive", m.drive.name().into(), &error.to_string());
        }
        let sector = m.drive.sector_bytes();
        if self.block_bytes == 0 || !self.block_bytes.is_multiple_of(sector) {
            let reason = format!("allowed: a multiple of the drive's sector, {sector}");
            return refuse("block_bytes", self.block_bytes.to_string(), &reason);
        }
        if self.file_bytes == 0 || !self.file_bytes.is_multiple_of(self.block_bytes) {
            let reason = format!("allowed: a multiple of block_bytes = {}", self.block_bytes);
            return refuse("file_bytes", self.file_bytes.to_string(), &reason);
        }
        let capacity = m.drive.capacity() * sector / self.block_bytes;
        let on_disk = (self.file_bytes / self.block_bytes).div_ceil(m.disks as u64);
        if on_disk > capacity / 2 {
            let reason = "the file would fill more than half of the disks; allowed: less";
            return refuse("file_bytes", self.file_bytes.to_string(), reason);
        }
        if self.record == 0 || !self.file_bytes.is_multiple_of(self.record) {
            return refuse(
                "record",
                self.record.to_string(),
                "allowed: a divisor of file_bytes",
            );
        }
        if self.buffers == 0 || self.buffers > 1024 {
            return refuse("buffers", self.buffers.to_string(), "allowed: 1 to 1024");
        }
        if self.cache_buffers < 2 || self.cache_buffers > 1 << 16 {
            return refuse(
                "cache_buffers",
                self.cache_buffers.to_string(),
                "allowed: 2 to 65536",
            );
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return refuse("jitter", self.jitter.to_string(), "allowed: 0 to 1");
        }
        if !(self.cpu_speed > 0.0 && self.cpu_speed <= 1e6) {
            return refuse(
                "cpu_speed",
                self.cpu_speed.to_string(),
                "allowed: above 0, to 1000000",
            );
        }
        if !(0.0..=1e9).contains(&self.start_spread_us) {
            return refuse(
                "start_spread_us",
                self.start_spread_us.to_string(),
                "allowed: 0 to 1e9",
            );
        }
        self.parts().map(|_| ())
    }

    /// Runs the scenario.
    pub fn run(&self) -> Result<Outcome, ScenarioError> {
        self.run_traced(None)
    }

    /// Runs the scenario and records at most `limit` events of each kind.
    pub fn run_traced(&self, limit: Option<usize>) -> Result<Outcome, ScenarioError> {
        self.check()?;
        let parts = self.parts()?;
        match self.method {
            Method::Traditional | Method::TwoPhase(_) => Ok(self.run_traditional(&parts, limit)),
            Method::Directed | Method::DirectedSorted => Ok(self.run_directed(&parts, limit)),
        }
    }

    fn parts(&self) -> Result<Vec<Part>, ScenarioError> {
        let refuse = |error: String| ScenarioError {
            key: "pattern",
            value: self.pattern.clone(),
            reason: error,
        };
        if !self.pattern.starts_with(['r', 'w']) {
            let reason = "allowed: r or w, then a, n, b, c or two of n, b, c; such as rb or wcc";
            return Err(refuse(reason.into()));
        }
        let cps = self.machine.cps as u32;
        let partition = Partition::named(&self.pattern, self.record, self.file_bytes, cps)
            .map_err(|error| refuse(error.to_string()))?;
        let parts: Vec<Part> = (0..partition.parts())
            .map(|part| {
                partition
                    .part(part)
                    .map_err(|error| refuse(error.to_string()))
            })
            .collect::<Result<_, _>>()?;
        self.check_grid(&parts).map_err(refuse)?;
        Ok(parts)
    }

    /// Refuses a pattern whose grid of processors is larger than its matrix of records. A last
    /// BLOCK may be short or empty, as HPF has it; a CYCLIC processor without a record means that
    /// the pattern does not fit.
    fn check_grid(&self, parts: &[Part]) -> Result<(), String> {
        let divided = |letter: char| self.pattern[1..].contains(letter);
        let records = self.file_bytes / self.record;
        let cps = self.machine.cps as u64;
        let idle = parts.iter().filter(|part| part.is_empty()).count();
        let too_many = (divided('b') || divided('c')) && records < cps;
        if idle > 0 && (too_many || divided('c')) {
            return Err(format!(
                "it does not fit: {idle} of {cps} compute processors would own none of the \
                 {records} records; allowed: fewer cps, or a record smaller than {} bytes",
                self.record
            ));
        }
        Ok(())
    }

    fn write(&self) -> bool {
        self.pattern.starts_with('w')
    }

    fn blocks(&self) -> u64 {
        self.file_bytes / self.block_bytes
    }

    fn two_dimensional(&self) -> bool {
        self.pattern.len() > 2
    }

    fn new_machine<J: Copy>(&self, limit: Option<usize>) -> Machine<J> {
        // Longer than a turn of any drive; the disk reduces it to an angle.
        let turn = Time::ms(60);
        let common = Stream::new(self.seed, "phase").time_below(turn);
        let mut machine = Machine::new(&self.machine, |disk| match self.phase {
            Phase::Common => common,
            Phase::Own => Stream::indexed(self.seed, "phase", disk).time_below(turn),
        });
        if let Some(shortest) = self.watch_idle {
            let first = self.machine.cps;
            machine.watch_idle(first..first + self.machine.iops, shortest);
        }
        machine.trace = limit.map(|limit| Box::new(Trace::new(limit)));
        machine
    }

    fn queues(&self, costs: Costs<Time>) -> DiskQueues {
        let m = &self.machine;
        let sectors = self.block_bytes / m.drive.sector_bytes();
        let places = self
            .layout
            .place(&m.drive, m.disks, self.blocks(), sectors, self.seed);
        DiskQueues::new(m, places, self.block_bytes, costs)
    }

    fn run_directed(&self, parts: &[Part], limit: Option<usize>) -> Outcome {
        let costs = self.costs.spans(self.cpu_speed);
        let queues = self.queues(costs);
        let disks = self.machine.disks;
        let presort = self.method == Method::DirectedSorted;
        let plan = |disk: usize| {
            let blocks = (disk as u64..self.blocks()).step_by(disks);
            plan::disk_directed(
                blocks.map(|block| Step {
                    block,
                    position: queues.place(block),
                }),
                presort,
            )
        };
        let block = self.block_bytes;
        let mut ready = Stream::new(self.seed, "ready");
        let setup = Setup {
            plans: (0..disks).map(plan).collect(),
            shares: (0..self.blocks())
                .map(|b| plan::shares(parts, b * block..(b + 1) * block))
                .collect(),
            write: self.write(),
            two_dimensional: self.two_dimensional(),
            buffers: self.buffers,
            start: ready.time_below(Time::from_us(self.start_spread_us)),
        };
        let bytes = setup
            .shares
            .iter()
            .flatten()
            .map(|share| u64::from(share.bytes))
            .sum();
        let mut machine = self.new_machine(limit);
        let mut program = Directed::new(&mut machine, &self.machine, costs, queues, setup);
        machine.run(&mut program);
        let elapsed = program.finished.expect("every I/O processor reports");
        self.outcome(machine, elapsed, bytes)
    }

    fn run_traditional(&self, parts: &[Part], limit: Option<usize>) -> Outcome {
        let costs = self.costs.spans(self.cpu_speed);
        let (block, blocks, cps) = (self.block_bytes, self.blocks(), self.machine.cps as u32);
        let (requests, exchange, stages) = if let Method::TwoPhase(conforming) = self.method {
            let exchange = plan::exchange(parts, conforming, block, self.file_bytes);
            let requests = (0..cps).map(|cp| conforming.requests(cp, cps, blocks, block as u32));
            let stages = if self.write() {
                vec![Stage::Exchange, Stage::Io]
            } else {
                vec![Stage::Io, Stage::Exchange]
            };
            (requests.collect::<Vec<_>>(), exchange, stages)
        } else {
            let requests = parts
                .iter()
                .map(|part| plan::requests(part, block, self.file_bytes))
                .collect();
            (requests, vec![], vec![Stage::Io])
        };
        let bytes = if exchange.is_empty() {
            requests
                .iter()
                .flatten()
                .map(|request| u64::from(request.bytes))
                .sum()
        } else {
            exchange.iter().flatten().map(|load| load.bytes).sum()
        };
        let mut machine = self.new_machine(limit);
        let work = Work {
            requests,
            stages,
            exchange,
            piece: if self.two_dimensional() {
                costs.piece_2d
            } else {
                costs.piece_1d
            },
            write: self.write(),
            spread: Time::from_us(self.start_spread_us),
            jitter: self.jitter,
            seed: self.seed,
        };
        let clients = Clients::new(&mut machine, &self.machine, costs, work);
        let servers = Servers::new(
            &self.machine,
            costs,
            self.queues(costs),
            self.cache_buffers,
            block,
            blocks,
            self.write(),
        );
        let mut program = Traditional { clients, servers };
        let last = machine.run(&mut program);
        assert!(
            program.clients.done.is_some(),
            "a client waits for an answer that never comes"
        );
        let elapsed = if self.settle {
            last.max(machine.settled())
        } else {
            last
        };
        self.outcome(machine, elapsed, bytes)
    }

    fn outcome<J: Copy>(&self, mut machine: Machine<J>, elapsed: Time, bytes: u64) -> Outcome {
        let iops = self.machine.cps..self.machine.cps + self.machine.iops;
        let share = |node| machine.busy(node).0 as f64 / elapsed.0 as f64;
        let iop_busy = iops.clone().map(share).collect();
        let gaps = iops.map(|node| machine.idle_gaps(node, elapsed)).collect();
        let events = machine.events();
        Outcome {
            elapsed,
            bytes,
            file_bytes: self.file_bytes,
            events,
            gaps,
            iop_busy,
            trace: machine.trace.take(),
        }
    }
}
