//! Heuristics of a scheduler that sees every request: FCFS, HDF, HCDF (Jain, Somalwar, Werth,
//! Browne: "Heuristics for Scheduling I/O Operations").
//!
//! Each costs one message per request to the scheduler and one answer.

use super::matching::{Calendar, Degrees, Plan, Request, Requests, Taken};
use crate::random::Random;

/// First come, first served, stopping at the first request that conflicts: a phase is a run of
/// consecutive requests. What the literature means when it says that FCFS schedules are long.
pub fn fcfs_strict(requests: &Requests) -> Plan {
    let mut plan = central(requests);
    let mut taken = Taken::new(requests.clients(), requests.servers());
    for (phase, &request) in plan.phase.iter_mut().zip(requests.list()) {
        if !taken.take_if_free(request) {
            taken.next_phase();
            plan.length += 1;
            taken.take(request.client, request.server);
        }
        *phase = plan.length;
    }
    plan.length += u32::from(!requests.list().is_empty());
    plan
}

/// First come, first served, skipping what conflicts: each request goes into the first phase in
/// which both its nodes are free.
pub fn fcfs_greedy(requests: &Requests) -> Plan {
    let mut plan = central(requests);
    let mut clients = vec![Calendar::default(); requests.clients() as usize];
    let mut servers = vec![Calendar::default(); requests.servers() as usize];
    for (phase, request) in plan.phase.iter_mut().zip(requests.list()) {
        let client = &mut clients[request.client as usize];
        let server = &mut servers[request.server as usize];
        *phase = client.first_common(server);
        client.take(*phase);
        server.take(*phase);
        plan.length = plan.length.max(*phase + 1);
    }
    plan
}

/// Highest degree first: nodes by the number of requests they still have, ties at random; each node
/// that is still free takes a request to a free neighbour.
pub fn hdf(requests: &Requests, random: &mut Random) -> Plan {
    let mut plan = central(requests);
    let mut degrees = requests.degrees();
    let mut taken = Taken::new(requests.clients(), requests.servers());
    let clients = requests.clients() as usize;
    let mut nodes: Vec<u32> = (0..requests.clients() + requests.servers()).collect();
    let mut edges: Vec<Vec<u32>> = vec![Vec::new(); nodes.len()];
    for (number, request) in requests.list().iter().enumerate() {
        edges[request.client as usize].push(number as u32);
        edges[clients + request.server as usize].push(number as u32);
    }
    let mut left = requests.list().len();
    while left > 0 {
        random.shuffle(&mut nodes);
        nodes.sort_by_key(|&node| std::cmp::Reverse(degree(&degrees, node)));
        for &node in &nodes {
            let node = node as usize;
            let is_client = node < clients;
            if taken.full() || edges[node].is_empty() {
                break;
            }
            if is_client && taken.client(node as u32)
                || !is_client && taken.server((node - clients) as u32)
            {
                continue;
            }
            let Some(number) = free_edge(&mut edges[node], requests, &plan, &taken) else {
                continue;
            };
            let request = requests.list()[number as usize];
            taken.take(request.client, request.server);
            plan.phase[number as usize] = plan.length;
            degrees.serve(request);
            left -= 1;
        }
        taken.next_phase();
        plan.length += 1;
    }
    plan
}

/// Highest combined degree first: requests by the sum of their two nodes' remaining degrees, ties at
/// random; each whose nodes are free is taken.
pub fn hcdf(requests: &Requests, random: &mut Random) -> Plan {
    let mut plan = central(requests);
    let mut degrees = requests.degrees();
    let mut taken = Taken::new(requests.clients(), requests.servers());
    // Requests travel with their numbers: the sort reads them in order, a thousand times over.
    let mut pending: Vec<(u32, Request)> = requests
        .list()
        .iter()
        .enumerate()
        .map(|(at, &request)| (at as u32, request))
        .collect();
    // One shuffle at the start makes ties random; the sort is stable, so they stay so.
    random.shuffle(&mut pending);
    let mut sorted = pending.clone();
    let mut buckets = Vec::new();
    while !pending.is_empty() {
        let sum = |request: Request| {
            (degrees.clients[request.client as usize] + degrees.servers[request.server as usize])
                as usize
        };
        sort_descending(&pending, &mut sorted, &mut buckets, sum);
        for &(number, request) in &sorted[..pending.len()] {
            if taken.full() {
                break;
            }
            if taken.take_if_free(request) {
                plan.phase[number as usize] = plan.length;
                degrees.serve(request);
            }
        }
        pending.retain(|&(number, _)| plan.phase[number as usize] == u32::MAX);
        taken.next_phase();
        plan.length += 1;
    }
    plan
}

fn central(requests: &Requests) -> Plan {
    Plan {
        messages: 2 * requests.list().len() as u64,
        ..Plan::new(requests.list().len())
    }
}

fn degree(degrees: &Degrees, node: u32) -> u32 {
    let clients = degrees.clients.len();
    match degrees.clients.get(node as usize) {
        Some(&degree) => degree,
        None => degrees.servers[node as usize - clients],
    }
}

/// The first of a node's requests whose other end is free; forgets those already served.
fn free_edge(edges: &mut Vec<u32>, requests: &Requests, plan: &Plan, taken: &Taken) -> Option<u32> {
    let mut at = 0;
    while at < edges.len() {
        let number = edges[at];
        if plan.phase[number as usize] != u32::MAX {
            edges.swap_remove(at);
            continue;
        }
        let request = requests.list()[number as usize];
        if !taken.client(request.client) && !taken.server(request.server) {
            edges.swap_remove(at);
            return Some(number);
        }
        at += 1;
    }
    None
}

/// Counting sort, largest first, stable: one pass over the requests instead of n log n, because a
/// plan for a million requests does this a thousand times.
fn sort_descending(
    items: &[(u32, Request)],
    sorted: &mut [(u32, Request)],
    buckets: &mut Vec<u32>,
    key: impl Fn(Request) -> usize,
) {
    buckets.clear();
    for &(_, request) in items {
        let key = key(request);
        if key >= buckets.len() {
            buckets.resize(key + 1, 0);
        }
        buckets[key] += 1;
    }
    let mut start = 0;
    for bucket in buckets.iter_mut().rev() {
        start += std::mem::replace(bucket, start);
    }
    for &item in items {
        let place = &mut buckets[key(item.1)];
        sorted[*place as usize] = item;
        *place += 1;
    }
}
