//! Heuristics for data with replicas: LDDF, SJF, SOJF (Chen, Majumdar).
//!
//! A request may be served by any of several servers. The originals were not available: the rules
//! are those that the names and the citing text give. As in [`super::matching`], transfers are of
//! unit length and a phase uses each client and each server at most once. A request takes the first
//! free one of its servers.

use super::matching::{Calendar, Taken};

/// A request that any of `replicas` consecutive servers, starting at `first` and going round, can
/// serve (chained replicas, as file systems place them).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub client: u32,
    /// On whose behalf: requests of one job are one piece of work.
    pub job: u32,
    /// The first server that has the data.
    pub first: u32,
    /// How many servers have it, at least one.
    pub replicas: u32,
}

impl Request {
    /// The servers that have the data, in the order of preference.
    pub fn servers(self, servers: u32) -> impl Iterator<Item = u32> {
        (0..self.replicas.clamp(1, servers)).map(move |k| (self.first + k) % servers)
    }
}

/// Whose request goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// Lowest destination degree first: the request that the fewest servers can serve.
    Lddf,
    /// Shortest job first: the job with the least to transfer in total.
    Sjf,
    /// Shortest outstanding job first: the job with the least left to transfer.
    Sojf,
}

impl Priority {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lddf, Self::Sjf, Self::Sojf];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lddf => "LDDF",
            Self::Sjf => "SJF",
            Self::Sojf => "SOJF",
        }
    }
}

/// Where and when each request is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For each request, its phase and its server.
    pub slots: Vec<(u32, u32)>,
    /// Number of phases.
    pub length: u32,
    /// Messages to and from the scheduler: one each way per request.
    pub messages: u64,
}

/// Plans the requests of all clients by one priority.
pub fn plan(clients: u32, servers: u32, requests: &[Request], priority: Priority) -> Plan {
    let jobs = requests.iter().map(|r| r.job + 1).max().unwrap_or(0);
    let mut outstanding = vec![0u32; jobs as usize];
    for request in requests {
        outstanding[request.job as usize] += 1;
    }
    let mut order: Vec<u32> = (0..requests.len() as u32).collect();
    let mut slots = vec![(u32::MAX, 0); requests.len()];
    let length = match priority {
        Priority::Lddf => {
            order.sort_by_key(|&n| requests[n as usize].replicas);
            first_fit(clients, servers, requests, &order, &mut slots)
        }
        Priority::Sjf => {
            order.sort_by_key(|&n| outstanding[requests[n as usize].job as usize]);
            first_fit(clients, servers, requests, &order, &mut slots)
        }
        Priority::Sojf => {
            by_outstanding(clients, servers, requests, order, outstanding, &mut slots)
        }
    };
    Plan {
        slots,
        length,
        messages: 2 * requests.len() as u64,
    }
}

/// With an order that never changes, scanning it phase by phase is the same as giving each request
/// in turn the first phase in which its client and one of its servers are free.
fn first_fit(
    clients: u32,
    servers: u32,
    requests: &[Request],
    order: &[u32],
    slots: &mut [(u32, u32)],
) -> u32 {
    let mut clients = vec![Calendar::default(); clients as usize];
    let mut calendars = vec![Calendar::default(); servers as usize];
    let mut length = 0;
    for &number in order {
        let request = requests[number as usize];
        let client = &mut clients[request.client as usize];
        // `min_by_key` keeps the first of equals: the preferred server.
        let (phase, server) = request
            .servers(servers)
            .map(|server| (client.first_common(&calendars[server as usize]), server))
            .min_by_key(|&(phase, _)| phase)
            .expect("a request has at least one server");
        client.take(phase);
        calendars[server as usize].take(phase);
        slots[number as usize] = (phase, server);
        length = length.max(phase + 1);
    }
    length
}

fn by_outstanding(
    clients: u32,
    servers: u32,
    requests: &[Request],
    mut pending: Vec<u32>,
    mut outstanding: Vec<u32>,
    slots: &mut [(u32, u32)],
) -> u32 {
    let mut taken = Taken::new(clients, servers);
    let mut length = 0;
    while !pending.is_empty() {
        // Stable: requests of equal jobs stay in order of arrival, and the list is nearly sorted
        // from the phase before.
        pending.sort_by_key(|&number| outstanding[requests[number as usize].job as usize]);
        for &number in &pending {
            if taken.full() {
                break;
            }
            let request = requests[number as usize];
            if taken.client(request.client) {
                continue;
            }
            if let Some(server) = request
                .servers(servers)
                .find(|&server| !taken.server(server))
            {
                taken.take(request.client, server);
                slots[number as usize] = (length, server);
                outstanding[request.job as usize] -= 1;
            }
        }
        pending.retain(|&number| slots[number as usize].0 == u32::MAX);
        taken.next_phase();
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn each_request_is_served_once_by_a_server_that_has_it(
            clients in 1u32..7, servers in 1u32..7,
            raw in prop::collection::vec((0u32..7, 0u32..4, 0u32..7, 1u32..4), 0..40),
        ) {
            let requests: Vec<_> = raw
                .into_iter()
                .map(|(client, job, first, replicas)| Request {
                    client: client % clients, job, first: first % servers, replicas,
                })
                .collect();
            for priority in Priority::ALL {
                let plan = plan(clients, servers, &requests, priority);
                let mut used = BTreeSet::new();
                for (request, &(phase, server)) in requests.iter().zip(&plan.slots) {
                    prop_assert!(phase < plan.length);
                    prop_assert!(request.servers(servers).any(|s| s == server));
                    prop_assert!(used.insert((phase, 0, request.client)));
                    prop_assert!(used.insert((phase, 1, server)));
                }
            }
        }
    }

    /// One client's request can only be served by server 0, the other's by 0 or 1: whoever has no
    /// choice must choose first.
    #[test]
    fn lddf_serves_first_who_has_no_choice() {
        let requests = [
            Request {
                client: 0,
                job: 0,
                first: 0,
                replicas: 2,
            },
            Request {
                client: 1,
                job: 1,
                first: 0,
                replicas: 1,
            },
        ];
        assert_eq!(plan(2, 2, &requests, Priority::Lddf).length, 1);
        assert_eq!(plan(2, 2, &requests, Priority::Sjf).length, 2);
    }

    #[test]
    fn short_jobs_finish_before_long_ones() {
        let requests: Vec<_> = (0..6)
            .map(|n| Request {
                client: n,
                job: u32::from(n >= 4),
                first: 0,
                replicas: 1,
            })
            .collect();
        for priority in [Priority::Sjf, Priority::Sojf] {
            let plan = plan(6, 1, &requests, priority);
            assert_eq!(
                plan.slots[4..].iter().map(|slot| slot.0).max(),
                Some(1),
                "{priority:?}"
            );
            assert_eq!(plan.length, 6);
        }
    }

    /// What is left decides, not what there was: a long job that is nearly done overtakes.
    #[test]
    fn sojf_counts_what_is_left() {
        // Job 0 has one request at server 0 and three elsewhere, job 1 has three at server 0.
        let requests: Vec<_> = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 0), (1, 0)]
            .into_iter()
            .enumerate()
            .map(|(n, (job, first))| Request {
                client: n as u32,
                job,
                first,
                replicas: 1,
            })
            .collect();
        assert_eq!(plan(7, 4, &requests, Priority::Sjf).slots[0].0, 3);
        assert_eq!(plan(7, 4, &requests, Priority::Sojf).slots[0].0, 1);
    }
}
