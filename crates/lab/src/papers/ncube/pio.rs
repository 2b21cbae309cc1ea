//! PIO READ and PIO WRITE on a simulated nCUBE 2: finite requests, C blocks of buffer per disk.
//!
//! Which block goes out when is decided by `policy::transfer`, the same code that the real client
//! runs; here its sends become events. A write passes CPU, routing and I/O node and comes back as a
//! status; a read goes out as a small request and passes I/O node, routing (the one back, which may
//! be shared differently) and CPU.

use std::collections::VecDeque;

use trireme_policy::schedule::Schedule;
use trireme_policy::transfer::{Striped, Transfer, Window};
use trireme_sim::agenda::Agenda;
use trireme_sim::random::Stream;
use trireme_sim::time::Time;

use super::hypercube::{self, Direction};
use super::model::Demands;
use crate::queueing::event::Service;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// PIO READ.
    Read,
    /// PIO WRITE.
    Write,
}

/// One request and the machine it runs on.
#[derive(Clone, Debug)]
pub struct Request {
    /// Read or write.
    pub operation: Operation,
    /// Service times, and B.
    pub demands: Demands,
    /// Time of the small message (request or status), ms; zero leaves the paper's fourth stage out.
    pub status: f64,
    /// Which routing each of the D I/O nodes is reached through, in the direction of the data.
    pub routings: Vec<usize>,
    /// The paper's C.
    pub buffers: u32,
    /// Bytes of the request.
    pub bytes: u64,
    /// How service times scatter.
    pub service: Service,
    /// The order among disks; the paper's is `first`.
    pub schedule: Schedule,
}

impl Request {
    /// The paper's experiment: 2 MB from one node, `first`, deterministic service.
    pub fn from_node(node: u32, operation: Operation, demands: Demands, buffers: u32) -> Self {
        let direction = match operation {
            Operation::Read => Direction::In,
            Operation::Write => Direction::Out,
        };
        Self {
            operation,
            demands,
            status: 0.015,
            routings: hypercube::routings(node, direction),
            buffers,
            bytes: 2 << 20,
            service: Service::Deterministic,
            schedule: Schedule::First,
        }
    }
}

/// What a request took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Time from the first send to the last acknowledgement.
    pub elapsed: Time,
    /// MB/s.
    pub rate: f64,
    /// Blocks moved.
    pub blocks: u64,
}

/// Simulates one request.
pub fn simulate(request: &Request, seed: u64) -> Outcome {
    let block = u64::from(request.demands.block_kb) * 1024;
    let disks = request.routings.len() as u32;
    let blocks = Striped {
        unit: block,
        servers: disks,
        first: 0,
        offset: 0,
        len: request.bytes,
        block,
    };
    let transfer = Transfer::new(
        blocks,
        Window::per_server(request.buffers),
        request.schedule,
        0,
        seed,
    );
    let stations = 1 + request.routings.iter().max().map_or(0, |most| most + 1) + disks as usize;
    let mut run = Run {
        request,
        transfer,
        agenda: Agenda::new(),
        queues: vec![VecDeque::new(); stations],
        streams: (0..stations)
            .map(|at| Stream::indexed(seed, "station", at))
            .collect(),
        blocks: 0,
    };
    run.send();
    while let Some(event) = run.agenda.next_event() {
        run.step(event);
    }
    assert!(run.transfer.is_done(), "every block was acknowledged");
    let elapsed = run.agenda.now();
    let rate = request.bytes as f64 / f64::from(1 << 20) / elapsed.seconds();
    Outcome {
        elapsed,
        rate,
        blocks: run.blocks,
    }
}

struct Run<'a> {
    request: &'a Request,
    transfer: Transfer<Striped>,
    agenda: Agenda<Event>,
    /// Stations in the order CPU, routings, I/O nodes: who waits or is served there.
    queues: Vec<VecDeque<Visit>>,
    streams: Vec<Stream>,
    blocks: u64,
}

/// A block for `disk` that has made `stage` of its three visits.
#[derive(Clone, Copy)]
struct Visit {
    disk: u32,
    stage: u32,
}

#[derive(Clone, Copy)]
enum Event {
    /// A small message has arrived: the block starts its visits (read) or ends them (write).
    Message(Visit),
    /// The station at hand has served the block at the head of its queue.
    Served { station: u32 },
}

const STAGES: u32 = 3;

impl Run<'_> {
    fn send(&mut self) {
        while let Some(turn) = self.transfer.next_turn() {
            self.blocks += 1;
            let visit = Visit {
                disk: turn.server,
                stage: 0,
            };
            match self.request.operation {
                Operation::Write => self.visit(visit),
                Operation::Read => {
                    self.agenda
                        .after(Time::from_ms(self.request.status), Event::Message(visit));
                }
            }
        }
    }

    fn step(&mut self, event: Event) {
        match event {
            Event::Message(visit) if visit.stage < STAGES => self.visit(visit),
            Event::Message(visit) => self.acknowledge(visit.disk),
            Event::Served { station } => {
                let queue = &mut self.queues[station as usize];
                let mut visit = queue.pop_front().expect("somebody was served");
                if let Some(&next) = queue.front() {
                    self.serve(station as usize, next);
                }
                visit.stage += 1;
                if visit.stage < STAGES {
                    self.visit(visit);
                } else if self.request.operation == Operation::Write {
                    self.agenda
                        .after(Time::from_ms(self.request.status), Event::Message(visit));
                } else {
                    self.acknowledge(visit.disk);
                }
            }
        }
    }

    fn acknowledge(&mut self, disk: u32) {
        self.transfer.acknowledged(disk);
        self.send();
    }

    fn visit(&mut self, visit: Visit) {
        let (station, _) = self.station(visit);
        self.queues[station].push_back(visit);
        if self.queues[station].len() == 1 {
            self.serve(station, visit);
        }
    }

    fn serve(&mut self, station: usize, visit: Visit) {
        let mean = Time::from_ms(self.station(visit).1);
        let time = match self.request.service {
            Service::Deterministic => mean,
            Service::Exponential => self.streams[station].exponential_time(mean),
        };
        self.agenda.after(
            time,
            Event::Served {
                station: station as u32,
            },
        );
    }

    /// Where a block goes at its stage, and the mean time that takes.
    fn station(&self, visit: Visit) -> (usize, f64) {
        let demands = self.request.demands;
        let disk = visit.disk as usize;
        let io_nodes = self.queues.len() - self.request.routings.len();
        let stage = match self.request.operation {
            Operation::Write => visit.stage,
            Operation::Read => STAGES - 1 - visit.stage,
        };
        match stage {
            0 => (0, demands.cpu),
            1 => (1 + self.request.routings[disk], demands.network),
            _ => (io_nodes + disk, demands.io_node),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::{CPU_PRINTED, even_routings};
    use super::*;

    fn request(operation: Operation, routings: usize, buffers: u32) -> Request {
        Request {
            routings: even_routings(routings),
            status: 0.0,
            ..Request::from_node(3, operation, Demands::of(16, CPU_PRINTED).unwrap(), buffers)
        }
    }

    /// The prototype's finite runs: 128 blocks, double buffers, deterministic service.
    #[test]
    fn finite_requests_take_what_the_prototype_took() {
        for (routings, expected) in [(1, 2.07), (4, 5.63), (8, 5.72)] {
            let outcome = simulate(&request(Operation::Write, routings, 2), 1);
            assert_eq!(outcome.blocks, 128);
            assert!(
                (outcome.rate - expected).abs() < 0.02,
                "{routings}: {}",
                outcome.rate
            );
        }
    }

    #[test]
    fn exponential_service_costs_a_finite_request_more() {
        for (routings, expected) in [(1, 2.00), (4, 3.81), (8, 3.94)] {
            let request = Request {
                service: Service::Exponential,
                ..request(Operation::Write, routings, 2)
            };
            let mean = (0..400)
                .map(|seed| simulate(&request, seed).rate)
                .sum::<f64>()
                / 400.0;
            assert!((mean / expected - 1.0).abs() < 0.03, "{routings}: {mean}");
        }
    }

    #[test]
    fn one_block_takes_the_sum_of_its_stages() {
        for operation in [Operation::Read, Operation::Write] {
            let request = Request {
                bytes: 16384,
                status: 0.015,
                ..request(operation, 4, 2)
            };
            let expected = Time::from_ms(0.015 + 1.820 + 7.384 + 20.5);
            assert_eq!(simulate(&request, 1).elapsed, expected);
        }
    }

    #[test]
    fn reads_share_the_routings_back() {
        // Node 35 has four routings out and one in: its reads are as slow as with one routing.
        let demands = Demands::of(16, CPU_PRINTED).unwrap();
        let rate =
            |node, operation| simulate(&Request::from_node(node, operation, demands, 2), 1).rate;
        assert!(rate(35, Operation::Write) > 1.8 * rate(35, Operation::Read));
        assert!(rate(3, Operation::Read) > 1.8 * rate(35, Operation::Read));
    }
}
