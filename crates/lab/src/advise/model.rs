//! From a machine, a workload and a configuration to a queueing network and its predictions.
//!
//! A job is one stripe unit on its way. It visits a client's processor and link, a server's
//! processor and link, and a disk; how long at each depends on the method. Clients, servers and
//! disks are symmetric, so one class whose jobs choose among them with equal probability is enough,
//! and exact analysis costs next to nothing.

use serde::Serialize;
use trireme_policy::schedule::Schedule;
use trireme_policy::transfer::{Transfer, Window};
use trireme_sim::time::Time;

use super::description::{MachineDescription, Operation, WorkloadDescription};
use crate::error::Error;
use crate::papers::scheduling::writes::{Costs, makespan};
use crate::queueing::event::{Service, Span, simulate};
use crate::queueing::{Centre, CentreKind, Class, Network};

/// How a collective is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each process for itself.
    Independent,
    /// Processes exchange data to a conforming distribution, then make large requests.
    TwoPhase,
    /// Servers direct the transfer.
    DiskDirected,
}

impl Method {
    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::TwoPhase => "two-phase",
            Self::DiskDirected => "disk-directed",
        }
    }
}

/// The knobs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Configuration {
    /// Bytes of a stripe unit, which is also the block and the schedule block.
    pub unit: u64,
    /// I/O servers.
    pub servers: u32,
    /// Blocks in flight per client and server (disk-directed: buffers per disk).
    pub buffers: u32,
    /// The method.
    pub method: Method,
}

/// What a configuration is predicted to do.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// MB/s (10^6) over one step, start and end included, as the analysis says.
    pub mb_s: f64,
    /// The name of the busiest resource.
    pub bottleneck: String,
    /// Busy share of each kind of resource.
    pub utilisation: Vec<(String, f64)>,
    /// Memory that buffers take on one server, MB.
    pub buffers_mb: f64,
}

/// The kinds of resources, in the order a written block meets them.
const KINDS: [&str; 5] = [
    "client processor",
    "client link",
    "server link",
    "server processor",
    "disk",
];

/// Most jobs that are analysed: beyond it the bottleneck is long saturated.
const JOBS_MAX: u64 = 4096;

/// The model of one machine and workload.
#[derive(Clone, Copy)]
pub struct Model<'a> {
    /// The machine.
    pub machine: &'a MachineDescription,
    /// The workload.
    pub workload: &'a WorkloadDescription,
}

impl Model<'_> {
    /// Times of one stripe unit at one resource of each kind, ms, and the pure delay.
    pub fn demands(&self, configuration: Configuration) -> ([f64; 5], f64) {
        let (m, w) = (self.machine, self.workload);
        let unit = configuration.unit as f64;
        let ms_at = |mb_s: f64| unit / mb_s / 1e3;
        let us = |us: f64| us / 1e3;
        // Several processes of a client share its link; pieces are per process.
        let pieces = (unit / w.piece_bytes as f64).max(1.0);
        let members = pieces.min(f64::from(w.processes));
        let positioning = m.disk.positioning_ms;
        let disk = ms_at(m.disk.rate_mb_s);
        let copy = ms_at(m.copy_mb_s);
        let (client_cpu, client_link, server_cpu, disk) = match configuration.method {
            // One request per piece; the server's cache assembles units, in order of arrival.
            Method::Independent => (
                pieces * us(m.client_request_us),
                ms_at(m.client_link_mb_s),
                pieces * us(m.server_request_us) + copy,
                positioning + disk,
            ),
            // Data crosses the client links twice and is copied out of and into place.
            Method::TwoPhase => (
                2.0 * copy
                    + us(m.client_request_us) * (1.0 + 2.0 * members.min(f64::from(m.clients))),
                2.0 * ms_at(m.client_link_mb_s),
                us(m.server_request_us) + copy,
                positioning + disk,
            ),
            // One transfer per member and block, gathered by the server, blocks in disk order: the
            // head moves on, it does not seek, but for one block in ten.
            Method::DiskDirected => (
                0.0,
                ms_at(m.client_link_mb_s),
                members * us(m.server_request_us) + copy,
                0.1 * positioning + disk,
            ),
        };
        // Several processors count as one that is so many times as fast.
        let client_cpu = client_cpu / f64::from(m.client_processors);
        let server_cpu = server_cpu / f64::from(m.server_processors);
        let times = [
            client_cpu,
            client_link,
            ms_at(m.server_link_mb_s),
            server_cpu,
            disk,
        ];
        // Independent pieces go one after the other: each is a round trip of its own.
        let trips = if configuration.method == Method::Independent {
            pieces
        } else {
            1.0
        };
        (times, 2.0 * trips * us(m.latency_us))
    }

    /// Stripe units in flight at most.
    pub fn jobs(&self, configuration: Configuration) -> u32 {
        let per_server = match configuration.method {
            Method::DiskDirected => self.machine.disk.per_server * configuration.buffers,
            _ => self.active_clients() * configuration.buffers,
        };
        let units = self.workload.total_bytes().div_ceil(configuration.unit);
        let flying = u64::from(per_server) * u64::from(configuration.servers);
        flying.min(units).clamp(1, JOBS_MAX) as u32
    }

    fn active_clients(&self) -> u32 {
        self.machine.clients.min(self.workload.processes)
    }

    fn counts(&self, configuration: Configuration) -> [u32; 5] {
        let servers = configuration.servers;
        let clients = self.active_clients();
        [
            clients,
            clients,
            servers,
            servers,
            servers * self.machine.disk.per_server,
        ]
    }

    /// The network of a configuration with its true routes, for the event simulation. A unit of
    /// independent and two-phase transfers goes from one client to one server and disk, `buffers` of
    /// them per pair; a disk-directed one belongs to a disk and takes its pieces from all clients.
    pub fn network(&self, configuration: Configuration) -> Network {
        let (times, delay) = self.demands(configuration);
        let counts = self.counts(configuration).map(|count| count as usize);
        let mut centres = vec![Centre {
            name: "latency".into(),
            kind: CentreKind::Delay,
        }];
        let mut first = [0; 5];
        for ((kind, count), first) in KINDS.iter().zip(counts).zip(&mut first) {
            *first = centres.len();
            centres.extend((0..count).map(|number| Centre {
                name: format!("{kind} {number}"),
                kind: CentreKind::Queueing,
            }));
        }
        let disks = self.machine.disk.per_server as usize;
        let servers = configuration.servers as usize;
        let directed = configuration.method == Method::DiskDirected;
        let clients = counts[0];
        let others = if directed { disks } else { clients };
        let classes = (0..servers * others).map(|at| {
            let (server, other) = (at % servers, at / servers);
            let mut demands = vec![0.0; centres.len()];
            demands[0] = delay;
            for kind in 0..2 {
                if directed {
                    let share = times[kind] / clients as f64;
                    demands[first[kind]..][..clients].fill(share);
                } else {
                    demands[first[kind] + other] = times[kind];
                }
            }
            demands[first[2] + server] = times[2];
            demands[first[3] + server] = times[3];
            demands[first[4] + server * disks + other % disks] = times[4];
            Class {
                name: String::new(),
                population: configuration.buffers,
                demands,
            }
        });
        let classes = classes.collect();
        Network { centres, classes }
    }

    /// What exact analysis predicts. Symmetric resources are analysed once and counted.
    pub fn predict(&self, configuration: Configuration) -> Prediction {
        let (times, delay) = self.demands(configuration);
        let counts = self.counts(configuration);
        let (throughput, _) = symmetric(&times, &counts, delay, self.jobs(configuration));
        let utilisation: Vec<(String, f64)> = KINDS
            .iter()
            .zip(times.iter().zip(counts))
            .map(|(kind, (&time, count))| ((*kind).into(), throughput * time / f64::from(count)))
            .collect();
        let (bottleneck, _) = utilisation
            .iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .expect("there are resources");
        let mb_s = self.over_a_step(throughput, configuration);
        Prediction {
            mb_s,
            bottleneck: bottleneck.clone(),
            utilisation: utilisation.clone(),
            buffers_mb: self.buffers_mb(configuration),
        }
    }

    /// The same machine simulated with true routes and service times that do not scatter, MB/s over
    /// one step.
    pub fn simulate(&self, configuration: Configuration) -> Result<f64, Error> {
        let (times, delay) = self.demands(configuration);
        let counts = self.counts(configuration);
        let (throughput, response) = symmetric(&times, &counts, delay, self.jobs(configuration));
        // Long enough for some thousand units, and for every job to circulate a few times.
        let length = (4000.0 / throughput).max(20.0 * response);
        let network = self.network(configuration);
        let run = simulate(&network, Service::Deterministic, Span::of_ms(length), 1)?;
        Ok(self.over_a_step(run.total.mean(), configuration))
    }

    /// One step moves a finite number of units: the pipeline has to fill and to drain, which takes
    /// one unit's way past everything but the bottleneck.
    fn over_a_step(&self, units_per_ms: f64, configuration: Configuration) -> f64 {
        let (times, delay) = self.demands(configuration);
        let cycle = times.iter().sum::<f64>() + delay;
        let slowest = times.iter().copied().fold(0.0, f64::max);
        let bytes = self.workload.total_bytes() as f64;
        let units = (bytes / configuration.unit as f64).max(1.0);
        bytes / 1e3 / ((units / units_per_ms).max(slowest) + cycle - slowest)
    }

    /// Memory for buffers on one server, MB.
    pub fn buffers_mb(&self, configuration: Configuration) -> f64 {
        let blocks = match configuration.method {
            Method::DiskDirected => self.machine.disk.per_server * configuration.buffers,
            _ => self.active_clients() * configuration.buffers,
        };
        f64::from(blocks) * configuration.unit as f64 / 1e6
    }

    /// Event simulation of the three schedules on the client's own transfer code, with the slower of
    /// link, processor and disks as a FIFO server and `buffers` blocks in flight per sender in all:
    /// where the order matters most. MB/s. For reads the roles of clients and servers are exchanged.
    pub fn schedules(&self, configuration: Configuration) -> [(Schedule, f64); 3] {
        let (times, delay) = self.demands(configuration);
        let disks = f64::from(self.machine.disk.per_server);
        let service = times[2].max(times[3]).max(times[4] / disks);
        let costs = Costs {
            overhead: Time::from_ms(service),
            per_byte: 0.0,
            turnaround: Time::from_ms(delay + times[0].max(times[1])),
        };
        let (mut senders, mut receivers) = (self.active_clients(), configuration.servers);
        if self.workload.operation == Operation::Read {
            std::mem::swap(&mut senders, &mut receivers);
        }
        // A sample of the step: enough for the start-up convoy of `first` to count as it does.
        let units = self.workload.total_bytes().div_ceil(configuration.unit);
        let each = (units / u64::from(senders * receivers)).clamp(1, 64) as u32;
        Schedule::ALL.map(|schedule| {
            let mut clients: Vec<_> = (0..senders)
                .map(|own| {
                    let window = Window {
                        per_server: configuration.buffers,
                        total: configuration.buffers,
                    };
                    Transfer::new(vec![each; receivers as usize], window, schedule, own, 1)
                })
                .collect();
            let time = makespan(&mut clients, |_, _, _| 1, costs);
            let bytes = f64::from(senders * receivers * each) * configuration.unit as f64;
            (schedule, bytes / 1e6 / time.seconds())
        })
    }
}

/// Exact mean value analysis of one class over groups of equal centres: throughput and response.
fn symmetric(times: &[f64; 5], counts: &[u32; 5], delay: f64, jobs: u32) -> (f64, f64) {
    let mut queue = [0.0; 5];
    let (mut throughput, mut response) = (0.0, 0.0);
    for job in 1..=jobs {
        // A job visits one centre of a group; what waits there is the group's queue by its count.
        let residence: [f64; 5] =
            std::array::from_fn(|k| times[k] * (1.0 + queue[k] / f64::from(counts[k])));
        response = residence.iter().sum::<f64>() + delay;
        throughput = f64::from(job) / response;
        queue = residence.map(|time| throughput * time);
    }
    (throughput, response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queueing::exact;

    /// Counting equal centres once is the same as writing them all down.
    #[test]
    fn symmetric_analysis_is_exact_analysis() {
        let times = [0.5, 2.0, 1.0, 0.7, 9.0];
        let counts = [3, 3, 2, 2, 4];
        let (throughput, response) = symmetric(&times, &counts, 4.0, 17);
        let mut centres = vec![Centre {
            name: "delay".into(),
            kind: CentreKind::Delay,
        }];
        let mut demands = vec![4.0];
        for (time, count) in times.into_iter().zip(counts) {
            for number in 0..count {
                centres.push(Centre {
                    name: number.to_string(),
                    kind: CentreKind::Queueing,
                });
                demands.push(time / f64::from(count));
            }
        }
        let classes = vec![Class {
            name: "c".into(),
            population: 17,
            demands,
        }];
        let solution = exact::solve(&Network { centres, classes }).unwrap();
        assert!((solution.total() - throughput).abs() < 1e-12);
        assert!((solution.response(0) - response).abs() < 1e-9);
    }
}
