//! Schedulers that decide as requests come and servers become free, run event by event.

use std::collections::VecDeque;

use trireme_policy::schedule::Schedule;
use trireme_policy::schedule::aggregate::{self, Aggregator};
use trireme_policy::schedule::lard::{self, Lard};
use trireme_policy::schedule::positioning::Queue;
use trireme_policy::transfer::{Blocks, Transfer, Window};
use trireme_sim::agenda::Agenda;
use trireme_sim::time::Time;

use super::machine::{Equipment, Outcome, Servers};
use super::workload::Workload;

/// A scheduler as the event loop sees it.
pub trait Scheduler {
    /// The next request that a client issues now, if it may.
    fn issue(&mut self, client: u32) -> Option<u32>;
    /// A request has been issued: queue it, and name the servers at which it may be served.
    fn arrive(&mut self, request: u32, servers: &mut Vec<u32>);
    /// What a free server serves next, as one access; empty if it has nothing.
    fn take(&mut self, server: u32, requests: &mut Vec<u32>);
    /// A request has been served.
    fn finished(&mut self, request: u32, server: u32);
    /// Messages used so far in order to schedule.
    fn messages(&self) -> u64;
}

/// Runs a workload under a scheduler.
pub fn run(workload: &Workload, equipment: Equipment, mut scheduler: impl Scheduler) -> Outcome {
    let mut servers = Servers::new(workload, equipment);
    let mut agenda: Agenda<u32> = Agenda::new();
    let mut serving: Vec<Vec<u32>> = vec![Vec::new(); workload.servers as usize];
    let mut completed = vec![Time::ZERO; workload.requests.len()];
    let mut able = Vec::new();
    let mut finished = Vec::new();
    let mut to_issue: Vec<u32> = (0..workload.clients).collect();
    loop {
        for client in to_issue.drain(..) {
            while let Some(request) = scheduler.issue(client) {
                able.clear();
                scheduler.arrive(request, &mut able);
                for &server in &able {
                    let batch = &mut serving[server as usize];
                    if batch.is_empty() {
                        scheduler.take(server, batch);
                        if !batch.is_empty() {
                            agenda.after(servers.serve(server, batch), server);
                        }
                    }
                }
            }
        }
        let Some(server) = agenda.next_event() else {
            break;
        };
        let now = agenda.now();
        finished.clear();
        finished.append(&mut serving[server as usize]);
        for &request in &finished {
            completed[request as usize] = now;
            scheduler.finished(request, server);
            to_issue.push(workload.requests[request as usize].client);
        }
        let batch = &mut serving[server as usize];
        scheduler.take(server, batch);
        if !batch.is_empty() {
            agenda.after(servers.serve(server, batch), server);
        }
    }
    Outcome::of(workload, &completed, scheduler.messages())
}

/// first, random or hash: each client for itself, one request in flight, queues at the servers.
pub struct Decentralised {
    clients: Vec<Transfer<Wanted>>,
    queues: Vec<VecDeque<u32>>,
    home: Vec<u32>,
    clients_of: Vec<u32>,
}

/// A client's requests by server; the file order is the order in which they are wanted. Only servers
/// that it wants something of are counted: most clients of a large machine need few of its servers.
pub struct Wanted {
    servers: Vec<u32>,
    /// Where each of these servers' requests start in `numbers`, and the end.
    starts: Vec<u32>,
    numbers: Vec<u32>,
}

impl Wanted {
    fn new(workload: &Workload, client: u32) -> Self {
        let mut numbers: Vec<u32> = workload.of(client).collect();
        let home = |number: u32| workload.requests[number as usize].home;
        numbers.sort_by_key(|&number| home(number));
        let (mut servers, mut starts) = (Vec::new(), Vec::new());
        for (at, &number) in numbers.iter().enumerate() {
            if servers.last() != Some(&home(number)) {
                servers.push(home(number));
                starts.push(at as u32);
            }
        }
        starts.push(numbers.len() as u32);
        Self {
            servers,
            starts,
            numbers,
        }
    }

    fn number(&self, server: u32, block: u32) -> u32 {
        self.numbers[(self.starts[server as usize] + block) as usize]
    }
}

impl Blocks for Wanted {
    fn servers(&self) -> u32 {
        self.servers.len() as u32
    }

    fn count(&self, server: u32) -> u32 {
        self.starts[server as usize + 1] - self.starts[server as usize]
    }

    fn position(&self, server: u32, block: u32) -> u64 {
        u64::from(self.number(server, block))
    }
}

impl Decentralised {
    /// The clients of a workload under one schedule.
    pub fn new(workload: &Workload, schedule: Schedule, seed: u64) -> Self {
        let transfer = |client: u32| {
            let wanted = Wanted::new(workload, client);
            // `hash` starts at the client's own server, or the next that it needs.
            let own = wanted
                .servers
                .partition_point(|&s| s < client % workload.servers) as u32;
            let seed = seed.wrapping_mul(1 << 32).wrapping_add(u64::from(client));
            Transfer::new(wanted, Window::one_at_a_time(), schedule, own, seed)
        };
        Self {
            clients: (0..workload.clients).map(transfer).collect(),
            queues: vec![VecDeque::new(); workload.servers as usize],
            home: workload
                .requests
                .iter()
                .map(|request| request.home)
                .collect(),
            clients_of: workload
                .requests
                .iter()
                .map(|request| request.client)
                .collect(),
        }
    }
}

impl Scheduler for Decentralised {
    fn issue(&mut self, client: u32) -> Option<u32> {
        let transfer = &mut self.clients[client as usize];
        let turn = transfer.next_turn()?;
        Some(transfer.blocks().number(turn.server, turn.block))
    }

    fn arrive(&mut self, request: u32, servers: &mut Vec<u32>) {
        let server = self.home[request as usize];
        self.queues[server as usize].push_back(request);
        servers.push(server);
    }

    fn take(&mut self, server: u32, requests: &mut Vec<u32>) {
        requests.extend(self.queues[server as usize].pop_front());
    }

    fn finished(&mut self, request: u32, server: u32) {
        let client = &mut self.clients[self.clients_of[request as usize] as usize];
        let own = client.blocks().servers.binary_search(&server);
        client.acknowledged(own.expect("the client wanted something of this server") as u32);
    }

    fn messages(&self) -> u64 {
        0
    }
}

/// Clients that issue their requests in order, some at a time: what the schedulers below assume.
struct InOrder {
    next: Vec<u32>,
    end: Vec<u32>,
    in_flight: Vec<u32>,
    window: u32,
    clients_of: Vec<u32>,
}

impl InOrder {
    fn new(workload: &Workload, window: u32) -> Self {
        Self {
            next: workload.starts[..workload.clients as usize].to_vec(),
            end: workload.starts[1..].to_vec(),
            in_flight: vec![0; workload.clients as usize],
            window,
            clients_of: workload
                .requests
                .iter()
                .map(|request| request.client)
                .collect(),
        }
    }

    fn issue(&mut self, client: u32) -> Option<u32> {
        let client = client as usize;
        if self.in_flight[client] >= self.window || self.next[client] == self.end[client] {
            return None;
        }
        self.in_flight[client] += 1;
        self.next[client] += 1;
        Some(self.next[client] - 1)
    }

    fn finished(&mut self, request: u32) {
        self.in_flight[self.clients_of[request as usize] as usize] -= 1;
    }
}

/// LARD: a front end sends each request on to the server that has its target in its cache.
pub struct FrontEnd<'a> {
    workload: &'a Workload,
    clients: InOrder,
    lard: Lard,
    queues: Vec<VecDeque<u32>>,
    passed: u64,
}

impl<'a> FrontEnd<'a> {
    /// With so many requests in flight per client.
    pub fn new(workload: &'a Workload, window: u32, limits: lard::Limits) -> Self {
        Self {
            workload,
            clients: InOrder::new(workload, window),
            lard: Lard::new(workload.servers, limits),
            queues: vec![VecDeque::new(); workload.servers as usize],
            passed: 0,
        }
    }
}

impl Scheduler for FrontEnd<'_> {
    fn issue(&mut self, client: u32) -> Option<u32> {
        self.clients.issue(client)
    }

    fn arrive(&mut self, request: u32, servers: &mut Vec<u32>) {
        let server = self
            .lard
            .assign(self.workload.requests[request as usize].target());
        self.queues[server as usize].push_back(request);
        self.passed += 1;
        servers.push(server);
    }

    fn take(&mut self, server: u32, requests: &mut Vec<u32>) {
        requests.extend(self.queues[server as usize].pop_front());
    }

    fn finished(&mut self, request: u32, server: u32) {
        self.lard.finished(server);
        self.clients.finished(request);
    }

    /// One hop more for the request and one report of its end.
    fn messages(&self) -> u64 {
        2 * self.passed
    }
}

/// D-SPTF: each request waits at all its replicas until one of them claims it. Claims arrive at once.
pub struct Replicas<'a> {
    workload: &'a Workload,
    clients: InOrder,
    queues: Vec<Queue>,
    messages: u64,
}

impl<'a> Replicas<'a> {
    /// With so many requests in flight per client.
    pub fn new(workload: &'a Workload, window: u32) -> Self {
        Self {
            workload,
            clients: InOrder::new(workload, window),
            queues: vec![Queue::default(); workload.servers as usize],
            messages: 0,
        }
    }

    fn servers(&self, request: u32) -> impl Iterator<Item = u32> + use<> {
        let request = &self.workload.requests[request as usize];
        let (home, servers) = (request.home, self.workload.servers);
        (0..request.replicas).map(move |k| (home + k) % servers)
    }
}

impl Scheduler for Replicas<'_> {
    fn issue(&mut self, client: u32) -> Option<u32> {
        self.clients.issue(client)
    }

    fn arrive(&mut self, request: u32, servers: &mut Vec<u32>) {
        let position = self.workload.requests[request as usize].position(self.workload.servers);
        for server in self.servers(request) {
            self.queues[server as usize].insert(request, position);
            servers.push(server);
        }
        self.messages += servers.len() as u64 - 1;
    }

    fn take(&mut self, server: u32, requests: &mut Vec<u32>) {
        let Some(claim) = self.queues[server as usize].claim() else {
            return;
        };
        for other in self.servers(claim.request).filter(|&other| other != server) {
            let waited = self.queues[other as usize].withdraw(claim.request, claim.position);
            debug_assert!(waited, "a claim reaches the others at once");
            self.messages += 1;
        }
        requests.push(claim.request);
    }

    fn finished(&mut self, request: u32, _: u32) {
        self.clients.finished(request);
    }

    fn messages(&self) -> u64 {
        self.messages
    }
}

/// aIOLi-like: at each server, neighbouring requests of an application are merged and applications
/// take turns.
pub struct Merged<'a> {
    workload: &'a Workload,
    clients: InOrder,
    aggregators: Vec<Aggregator>,
    passed: u64,
}

impl<'a> Merged<'a> {
    /// With so many requests in flight per client and these limits, counted in blocks.
    pub fn new(workload: &'a Workload, window: u32, limits: aggregate::Limits) -> Self {
        Self {
            workload,
            clients: InOrder::new(workload, window),
            aggregators: vec![Aggregator::new(limits); workload.servers as usize],
            passed: 0,
        }
    }
}

impl Scheduler for Merged<'_> {
    fn issue(&mut self, client: u32) -> Option<u32> {
        self.clients.issue(client)
    }

    fn arrive(&mut self, number: u32, servers: &mut Vec<u32>) {
        let request = &self.workload.requests[number as usize];
        let aggregator = &mut self.aggregators[request.home as usize];
        let position = request.position(self.workload.servers);
        aggregator.insert(
            request.application,
            u64::from(request.file),
            position,
            1,
            number,
        );
        self.passed += 1;
        servers.push(request.home);
    }

    fn take(&mut self, server: u32, requests: &mut Vec<u32>) {
        if let Some(batch) = self.aggregators[server as usize].next_batch() {
            requests.extend(batch.requests);
        }
    }

    fn finished(&mut self, request: u32, _: u32) {
        self.clients.finished(request);
    }

    /// Each request asks the library and is told when to go.
    fn messages(&self) -> u64 {
        2 * self.passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scheduler_serves_every_request() {
        let workload = Workload::mixed(64, 8, 10, 1);
        let limits = aggregate::Limits {
            quantum: 4,
            quantum_max: 16,
            batch_max: 8,
        };
        let unit = Equipment::unit();
        let outcomes = [
            run(
                &workload,
                unit,
                Decentralised::new(&workload, Schedule::First, 1),
            ),
            run(
                &workload,
                unit,
                Decentralised::new(&workload, Schedule::Random, 1),
            ),
            run(
                &workload,
                unit,
                Decentralised::new(&workload, Schedule::Hash, 1),
            ),
            run(
                &workload,
                unit,
                FrontEnd::new(&workload, 4, lard::Limits::default()),
            ),
            run(&workload, unit, Replicas::new(&workload, 4)),
            run(&workload, unit, Merged::new(&workload, 4, limits)),
        ];
        for outcome in &outcomes {
            // 640 units over 8 servers take at least 80.
            assert!(
                outcome.length >= 80.0 && outcome.length < 160.0,
                "{outcome:?}"
            );
            assert!((outcome.throughput * outcome.length - 640.0).abs() < 1e-6);
            assert!(outcome.fairness > 0.0 && outcome.fairness <= 1.0 + 1e-12);
        }
        assert!(
            outcomes[4].length <= outcomes[2].length,
            "a choice of servers does not hurt"
        );
        assert_eq!(outcomes[0].messages, 0);
        assert_eq!(outcomes[3].messages, 1280);
    }
}
