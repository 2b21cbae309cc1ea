//! The requests on which all schedulers are compared.

use trireme_policy::random::Random;
use trireme_policy::schedule::{matching, replicated};

/// One block that a client wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Who wants it.
    pub client: u32,
    /// The application that the client belongs to.
    pub application: u32,
    /// The file and the block in it: what caches and merging go by.
    pub file: u32,
    /// Number of the block in its file.
    pub block: u32,
    /// The first server that has it.
    pub home: u32,
    /// How many servers have it: `home` and those after it.
    pub replicas: u32,
}

impl Request {
    /// What is cached: file and block.
    pub fn target(&self) -> u64 {
        u64::from(self.file) << 32 | u64::from(self.block)
    }

    /// Position on a server's disk: files one after the other, blocks in order.
    pub fn position(&self, servers: u32) -> u64 {
        u64::from(self.file) << 20 | u64::from(self.block / servers)
    }
}

/// A set of requests, client by client in the order in which they are wanted.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Number of clients.
    pub clients: u32,
    /// Number of servers.
    pub servers: u32,
    /// Number of applications.
    pub applications: u32,
    /// All requests.
    pub requests: Vec<Request>,
    /// Start of each client's requests, and the end of the last's.
    pub starts: Vec<u32>,
}

impl Workload {
    /// Four applications of very different size (5/8, 1/4, 3/32 and 1/32 of the clients), each
    /// reading its own striped file in pieces interleaved among its clients. One request in five goes
    /// to a small shared file that everybody reads. Half of the blocks have a second copy, those of
    /// the shared file a third.
    pub fn mixed(clients: u32, servers: u32, per_client: u32, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut requests = Vec::with_capacity((clients * per_client) as usize);
        let mut starts = vec![0];
        let ends = [
            clients * 20 / 32,
            clients * 28 / 32,
            clients * 31 / 32,
            clients,
        ];
        for client in 0..clients {
            let application = ends.iter().filter(|&&end| end <= client).count() as u32;
            let first = if application == 0 {
                0
            } else {
                ends[application as usize - 1]
            };
            let own = ends[application as usize] - first;
            for number in 0..per_client {
                let hot = random.below(5) == 0;
                let (file, block) = if hot {
                    (HOT_FILE, random.below(u64::from(4 * servers)) as u32)
                } else {
                    (application, number * own + (client - first))
                };
                let replicas = if hot { 3 } else { 1 + block % 2 };
                requests.push(Request {
                    client,
                    application,
                    file,
                    block,
                    home: (block + file * 3) % servers,
                    replicas: replicas.min(servers),
                });
            }
            starts.push(requests.len() as u32);
        }
        Self {
            clients,
            servers,
            applications: 4,
            requests,
            starts,
        }
    }

    /// A client's requests, as numbers.
    pub fn of(&self, client: u32) -> std::ops::Range<u32> {
        self.starts[client as usize]..self.starts[client as usize + 1]
    }

    /// The requests as unit transfers from their home servers, in order of arrival: clients take
    /// turns, each with its next one.
    pub fn as_matching(&self) -> (matching::Requests, Vec<u32>) {
        let order = self.arrival_order();
        let list = order.iter().map(|&number| {
            let request = &self.requests[number as usize];
            matching::Request {
                client: request.client,
                server: request.home,
            }
        });
        (
            matching::Requests::new(self.clients, self.servers, list.collect()),
            order,
        )
    }

    /// The requests with their replicas, in the same order; a job is an application.
    pub fn as_replicated(&self) -> (Vec<replicated::Request>, Vec<u32>) {
        let order = self.arrival_order();
        let list = order.iter().map(|&number| {
            let request = &self.requests[number as usize];
            replicated::Request {
                client: request.client,
                job: request.application,
                first: request.home,
                replicas: request.replicas,
            }
        });
        (list.collect(), order)
    }

    fn arrival_order(&self) -> Vec<u32> {
        let most = (0..self.clients)
            .map(|client| self.of(client).len())
            .max()
            .unwrap_or(0) as u32;
        (0..most)
            .flat_map(|round| {
                (0..self.clients)
                    .map(move |client| (client, round))
                    .filter(|&(client, round)| round < self.of(client).len() as u32)
                    .map(|(client, round)| self.of(client).start + round)
            })
            .collect()
    }
}

/// The file that every application reads.
const HOT_FILE: u32 = 4;
