//! The nCUBE 2 as a closed queueing network: demands, routings and the quantities of the tables.

use crate::error::Error;
use crate::queueing::{Centre, CentreKind, Class, Network, Solution};

/// The CPU demand at 16 KB that the paper prints, ms.
pub const CPU_PRINTED: f64 = 1.820;
/// The CPU demand at 16 KB that reproduces the paper's tables, ms: the printed one is a misprint or
/// a rounded measurement.
pub const CPU_CORRECTED: f64 = 1.807;

/// Service times of one block, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demands {
    /// Block size in KB.
    pub block_kb: u32,
    /// Copy and placement rule on the compute node.
    pub cpu: f64,
    /// Transfer over one routing.
    pub network: f64,
    /// File server and disk.
    pub io_node: f64,
}

impl Demands {
    /// The paper's measurements for blocks of 4, 8 or 16 KB; `cpu_16` stands in for the disputed one.
    pub fn of(block_kb: u32, cpu_16: f64) -> Result<Self, Error> {
        let (cpu, network, io_node) = match block_kb {
            4 => (0.800, 1.854, 17.3),
            8 => (1.065, 3.697, 19.5),
            16 => (cpu_16, 7.384, 20.5),
            _ => {
                return Err(Error::value(
                    "block_kb",
                    block_kb,
                    "not measured",
                    "4, 8, 16",
                ));
            }
        };
        Ok(Self {
            block_kb,
            cpu,
            network,
            io_node,
        })
    }
}

/// How the paper spreads its eight I/O nodes over 1, 4 or 8 routings: evenly.
pub fn even_routings(count: usize) -> Vec<usize> {
    (0..8).map(|io_node| io_node * count / 8).collect()
}

/// The network of Figure 6 without its last stage: class i visits the CPU, routing `routings[i]` and
/// I/O node i, with `buffers` (the paper's C) jobs per class.
pub fn network(demands: Demands, routings: &[usize], buffers: u32) -> Network {
    let count = routings.iter().max().map_or(0, |most| most + 1);
    let names = std::iter::once("cpu".to_string())
        .chain((0..count).map(|routing| format!("routing {routing}")))
        .chain((0..routings.len()).map(|io_node| format!("I/O node {io_node}")));
    let centres: Vec<Centre> = names
        .map(|name| Centre {
            name,
            kind: CentreKind::Queueing,
        })
        .collect();
    let classes = routings
        .iter()
        .enumerate()
        .map(|(io_node, &routing)| {
            let mut times = vec![0.0; centres.len()];
            times[0] = demands.cpu;
            times[1 + routing] = demands.network;
            times[1 + count + io_node] = demands.io_node;
            Class {
                name: format!("I/O node {io_node}"),
                population: buffers,
                demands: times,
            }
        })
        .collect();
    Network { centres, classes }
}

/// The columns of Tables 2 to 4.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Columns {
    /// System response time per I/O request, ms.
    pub response: f64,
    /// Residence time at the CPU, ms.
    pub cpu: f64,
    /// Residence time in the network, ms.
    pub network: f64,
    /// Mean number of messages in the network.
    pub messages: f64,
    /// Utilisation of an I/O node, %.
    pub utilisation: f64,
    /// Operational transfer rate, MB/s, computed as the authors did: from the response time rounded
    /// to 0.01 ms.
    pub rate: f64,
}

impl Columns {
    /// Reads the columns off a solution.
    pub fn of(network: &Network, solution: &Solution, block_kb: u32) -> Self {
        let centres = network.centres.len();
        let io_nodes = network.classes.len();
        let routing = 1..centres - io_nodes;
        let jobs: u32 = network.classes.iter().map(|class| class.population).sum();
        let response = solution.response(0);
        Self {
            response,
            cpu: solution.residence[0][0],
            network: solution.residence[0][routing.clone()].iter().sum(),
            messages: solution.queue[routing].iter().sum(),
            utilisation: 100.0 * solution.utilisation(network, centres - io_nodes),
            rate: rate(jobs, block_kb, (response * 100.0).round() / 100.0),
        }
    }
}

/// MB/s of `jobs` blocks per `response` ms.
pub fn rate(jobs: u32, block_kb: u32, response_ms: f64) -> f64 {
    f64::from(jobs * block_kb) / 1024.0 / (response_ms / 1000.0)
}

/// MB/s at which a network moves blocks, whatever its classes' shares.
pub fn throughput_mb_s(blocks_per_ms: f64, block_kb: u32) -> f64 {
    blocks_per_ms * 1000.0 * f64::from(block_kb) / 1024.0
}
