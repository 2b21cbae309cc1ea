//! Clients that write large regions at once, each with one block in flight, to servers that serve
//! one request after the other: the paper's synthetic benchmark, driven by `policy::transfer`.

use std::collections::VecDeque;

use trireme_policy::schedule::Schedule;
use trireme_policy::transfer::{Blocks, Striped, Transfer, Window};
use trireme_sim::agenda::Agenda;
use trireme_sim::time::Time;

/// What a request costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Fixed time of a request at its server.
    pub overhead: Time,
    /// Time per byte at the server, ps.
    pub per_byte: f64,
    /// Time from a completion to the client's next request.
    pub turnaround: Time,
}

impl Costs {
    /// The prototype's: 60 us and 75 MB/s at the server, 20 us at the client.
    pub fn cluster() -> Self {
        Self {
            overhead: Time::us(60),
            per_byte: 1e12 / 75e6,
            turnaround: Time::us(20),
        }
    }

    /// One unit per request, whatever its size, and nothing else: what lengths are counted in.
    pub fn unit() -> Self {
        Self {
            overhead: UNIT,
            per_byte: 0.0,
            turnaround: Time::ZERO,
        }
    }
}

/// One unit of length.
pub const UNIT: Time = Time::us(1);

/// The time until the last of these transfers is complete, each client driving its own.
pub fn makespan<B: Blocks>(
    clients: &mut [Transfer<B>],
    bytes: impl Fn(&B, u32, u32) -> u64,
    costs: Costs,
) -> Time {
    #[derive(Clone, Copy)]
    enum Event {
        Ready { client: u32 },
        Served { server: u32 },
    }
    let servers = clients
        .iter()
        .map(|client| client.blocks().servers())
        .max()
        .unwrap_or(0);
    let mut queues: Vec<VecDeque<(u32, Time)>> = vec![VecDeque::new(); servers as usize];
    let mut agenda = Agenda::new();
    for client in 0..clients.len() as u32 {
        agenda.at(Time::ZERO, Event::Ready { client });
    }
    let mut end = Time::ZERO;
    while let Some(event) = agenda.next_event() {
        match event {
            Event::Ready { client } => {
                let transfer = &mut clients[client as usize];
                while let Some(turn) = transfer.next_turn() {
                    let size = bytes(transfer.blocks(), turn.server, turn.block);
                    let time = costs.overhead + Time((size as f64 * costs.per_byte) as u64);
                    let queue = &mut queues[turn.server as usize];
                    queue.push_back((client, time));
                    if queue.len() == 1 {
                        agenda.after(
                            time,
                            Event::Served {
                                server: turn.server,
                            },
                        );
                    }
                }
            }
            Event::Served { server } => {
                end = agenda.now();
                let queue = &mut queues[server as usize];
                let (client, _) = queue.pop_front().expect("somebody was served");
                if let Some(&(_, time)) = queue.front() {
                    agenda.after(time, Event::Served { server });
                }
                clients[client as usize].acknowledged(server);
                agenda.after(costs.turnaround, Event::Ready { client });
            }
        }
    }
    end
}

/// Steps until n clients have each sent one unit to each of n servers.
pub fn length(n: u32, schedule: Schedule, seed: u64) -> u32 {
    let mut clients: Vec<_> = (0..n)
        .map(|own| {
            Transfer::new(
                vec![1; n as usize],
                Window::one_at_a_time(),
                schedule,
                own,
                seed,
            )
        })
        .collect();
    (makespan(&mut clients, |_, _, _| 1, Costs::unit()).0 / UNIT.0) as u32
}

/// The paper's benchmark: MB/s (2^20 bytes) of `clients` that each write `bytes` to a file striped over
/// `servers` in units of 64 KB, every client's region starting on server 0.
pub fn throughput(
    clients: u32,
    servers: u32,
    bytes: u64,
    block: u64,
    schedule: Schedule,
    seed: u64,
) -> f64 {
    let mut transfers: Vec<_> = (0..clients)
        .map(|own| {
            let blocks = Striped {
                unit: 64 << 10,
                servers,
                first: 0,
                offset: u64::from(own) * bytes,
                len: bytes,
                block,
            };
            Transfer::new(blocks, Window::one_at_a_time(), schedule, own, seed)
        })
        .collect();
    let size = |blocks: &Striped, server, block| {
        let range = blocks.range(server, block);
        range.end - range.start
    };
    let time = makespan(&mut transfers, size, Costs::cluster());
    f64::from(clients) * bytes as f64 / f64::from(1 << 20) / time.seconds()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure 1 on two clients and two servers, by clients that decide for themselves.
    #[test]
    fn sched_fig1() {
        assert_eq!(length(2, Schedule::First, 0), 3);
        assert_eq!(length(2, Schedule::Hash, 0), 2);
    }

    #[test]
    fn sched_law_2n_minus_1() {
        for n in [1, 2, 3, 8, 16, 100] {
            assert_eq!(length(n, Schedule::First, 0), 2 * n - 1);
            assert_eq!(length(n, Schedule::Hash, 0), n);
        }
        // Between the two, nearer to first.
        for (n, expected) in [(8, 13.8), (16, 28.7)] {
            let seeds = 400;
            let total: u32 = (0..seeds)
                .map(|seed| length(n, Schedule::Random, seed))
                .sum();
            let mean = f64::from(total) / f64::from(seeds as u32);
            assert!((mean - expected).abs() < 0.2, "{n}: {mean}");
        }
    }

    #[test]
    fn sched_write_ratio() {
        let best = throughput(8, 8, 32 << 20, 4096 << 10, Schedule::Hash, 1);
        let worst = throughput(8, 8, 32 << 20, 4096 << 10, Schedule::First, 1);
        assert!((best / worst - 1.86).abs() < 0.06, "{best} {worst}");
        assert!((worst / 302.0 - 1.0).abs() < 0.02, "{worst}");
    }
}
