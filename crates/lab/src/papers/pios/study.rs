//! What the experiments share: one point of a figure, and running many of them.

use super::io_node::{self, Equipment};
use super::load::{self, LARGE};
use super::network::{IoNodes, Machine, Measured, simulate};
use super::topology::Topology;
use super::traffic::{Mix, Placement, Stochastic};
use crate::error::Error;
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use trireme_sim::replicate::replicate;
use trireme_sim::time::Time;

/// One simulated configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Nodes in all.
    pub nodes: u32,
    /// I/O nodes.
    pub io_nodes: u32,
    /// F/B at each compute node; infinite for no I/O.
    pub flops_per_byte: f64,
    /// I/O size.
    pub io_bytes: u64,
    /// Load of messages between compute nodes.
    pub message_load: f64,
}

impl Point {
    /// I/O only, 32 KB.
    pub fn io_only(nodes: u32, io_nodes: u32, flops_per_byte: f64) -> Self {
        Self {
            nodes,
            io_nodes,
            flops_per_byte,
            io_bytes: LARGE,
            message_load: 0.0,
        }
    }

    /// Requests per second at each I/O node.
    pub fn io_node_rate(&self) -> f64 {
        let per_compute_node = load::requests_per_second(self.flops_per_byte, self.io_bytes);
        per_compute_node * f64::from(self.nodes / 2) / f64::from(self.io_nodes)
    }
}

/// The numbers of I/O nodes that the paper studies: 1/8 to 4/8 of all.
pub fn io_node_counts(nodes: u32) -> [u32; 4] {
    [1, 2, 3, 4].map(|eighths| nodes / 8 * eighths)
}

/// Which form I/O nodes have in the simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Mean times of the queueing model, as the paper did.
    TwoStep,
    /// The queueing model inside the simulation.
    Integrated,
}

/// What does not vary over a figure.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// How I/O nodes are simulated.
    pub form: Form,
    /// The cycle that message loads count in, ns.
    pub load_cycle_ns: f64,
    /// Adapter speed, 10^6 bytes/s.
    pub adapter_mb_s: f64,
    /// Simulated seconds, after a warm-up of a tenth.
    pub seconds: f64,
    /// The seed: the same for all points, so that differences between them are no accident.
    pub seed: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            form: Form::TwoStep,
            load_cycle_ns: load::CYCLE_NS,
            adapter_mb_s: 150.0,
            seconds: 2.0,
            seed: 1,
        }
    }
}

/// The parameters of all network experiments.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::choice(
        "io_node",
        "two-step",
        &["two-step", "integrated"],
        "mean times from the queueing model, as the paper did, or the model inside the simulation",
    ),
    Parameter::choice(
        "load_cycle_ns",
        "13.3",
        &["13.3", "25"],
        "cycle in which message loads count: as stated, or as the paper's rates were computed",
    ),
    Parameter::number(
        "adapter",
        150.0,
        1.0,
        1000.0,
        "speed of a node's adapter, MB/s; the paper says at least 85",
    ),
    Parameter::number("seconds", 2.0, 0.01, 100.0, "simulated time per point, s"),
    Parameter::integer("seed", 1, 0, u64::MAX, "seed of traffic and disks"),
];

impl Setup {
    /// What the user set.
    pub fn of(settings: &Settings) -> Self {
        let form = match settings.choice("io_node").as_str() {
            "integrated" => Form::Integrated,
            _ => Form::TwoStep,
        };
        Self {
            form,
            load_cycle_ns: if settings.choice("load_cycle_ns") == "25" {
                25.0
            } else {
                13.3
            },
            adapter_mb_s: settings.number("adapter"),
            seconds: settings.number("seconds") * if settings.quick { 0.2 } else { 1.0 },
            seed: settings.integer("seed"),
        }
    }

    /// Runs one point.
    pub fn run(&self, point: Point) -> Result<Measured, Error> {
        let equipment = Equipment::default();
        let io_nodes = match self.form {
            Form::Integrated => IoNodes::Integrated(equipment),
            Form::TwoStep if point.flops_per_byte.is_infinite() => {
                IoNodes::TwoStep { read_ms: 0.0 }
            }
            Form::TwoStep => {
                let rate = point.io_node_rate();
                let requests = 100_000;
                let times =
                    io_node::simulate(equipment, rate, point.io_bytes, READS, requests, self.seed);
                let (hit, miss) = (times.read_hit.mean(), times.read_miss.mean());
                IoNodes::TwoStep {
                    read_ms: hit + (miss - hit) * equipment.miss,
                }
            }
        };
        let machine = Machine {
            topology: Topology::paper(point.nodes)?,
            adapter_mb_s: self.adapter_mb_s,
            io_nodes,
        };
        let mix = Mix {
            flops_per_byte: point.flops_per_byte,
            io_bytes: point.io_bytes,
            reads: READS,
            message_load: point.message_load,
            load_cycle_ns: self.load_cycle_ns,
        };
        let placement = Placement::even(point.nodes, point.io_nodes)?;
        let warm_up = Time::from_seconds(self.seconds / 10.0);
        let end = warm_up + Time::from_seconds(self.seconds);
        let mut traffic = Stochastic::new(placement, mix, end, self.seed);
        Ok(simulate(&machine, &mut traffic, warm_up, self.seed))
    }

    /// Runs many points on so many threads, in the order given.
    pub fn run_all(
        &self,
        points: &[Point],
        jobs: usize,
        progress: &Progress,
    ) -> Result<Vec<Measured>, Error> {
        progress.expect(points.len() as u64);
        replicate(jobs, points, |&point| {
            // What is rare needs longer: without messages few requests ever wait.
            let stretch = if point.message_load == 0.0 { 3.0 } else { 1.0 };
            let measured = Self {
                seconds: self.seconds * stretch,
                ..*self
            }
            .run(point);
            progress.done(1);
            measured
        })
        .into_iter()
        .collect()
    }
}

/// Share of reads among I/O requests.
pub const READS: f64 = 0.67;
