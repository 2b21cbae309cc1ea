//! What centralised and distributed heuristics work on: unit requests between clients and servers.
//!
//! A phase is a matching: each client and each server takes part in at most one transfer. The length
//! of a plan is its number of phases. With unit transfers and no other limit the best length is the
//! largest degree (bipartite graphs have edge colourings with that many colours), so a heuristic can
//! be compared with the true optimum.

/// One transfer of unit length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Who asks.
    pub client: u32,
    /// Who has the data.
    pub server: u32,
}

/// All requests of a moment, in the order in which they arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requests {
    clients: u32,
    servers: u32,
    list: Vec<Request>,
}

impl Requests {
    /// Requests among this many clients and servers.
    ///
    /// # Panics
    /// If a request names a client or a server that is not there.
    pub fn new(clients: u32, servers: u32, list: Vec<Request>) -> Self {
        assert!(
            list.iter()
                .all(|r| r.client < clients && r.server < servers),
            "every request is between {clients} clients and {servers} servers"
        );
        Self {
            clients,
            servers,
            list,
        }
    }

    /// Every client wants one block of every server, each in the order of the file.
    pub fn complete(clients: u32, servers: u32) -> Self {
        let list = (0..clients)
            .flat_map(|client| (0..servers).map(move |server| Request { client, server }))
            .collect();
        Self {
            clients,
            servers,
            list,
        }
    }

    /// Number of clients.
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// Number of servers.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// The requests, in order of arrival.
    pub fn list(&self) -> &[Request] {
        &self.list
    }

    /// The fewest phases any plan can have: the largest number of requests at one node.
    pub fn optimum(&self) -> u32 {
        let degrees = self.degrees();
        degrees
            .clients
            .iter()
            .chain(&degrees.servers)
            .copied()
            .max()
            .unwrap_or(0)
    }

    /// The fewest phases if at most `k` transfers may run at once: no plan can beat the largest
    /// degree nor ceil(requests / k), and one plan reaches both.
    pub fn optimum_with(&self, k: u32) -> u32 {
        self.optimum()
            .max((self.list.len() as u32).div_ceil(k.max(1)))
    }

    pub(super) fn degrees(&self) -> Degrees {
        let mut degrees = Degrees {
            clients: vec![0; self.clients as usize],
            servers: vec![0; self.servers as usize],
        };
        for request in &self.list {
            degrees.clients[request.client as usize] += 1;
            degrees.servers[request.server as usize] += 1;
        }
        degrees
    }
}

/// How many unserved requests each node still has.
#[derive(Debug, Clone)]
pub(super) struct Degrees {
    pub(super) clients: Vec<u32>,
    pub(super) servers: Vec<u32>,
}

impl Degrees {
    pub(super) fn serve(&mut self, request: Request) {
        self.clients[request.client as usize] -= 1;
        self.servers[request.server as usize] -= 1;
    }
}

/// Which request is served when, and what it cost to agree on that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// For each request, the number of its phase, from 0.
    pub phase: Vec<u32>,
    /// Number of phases.
    pub length: u32,
    /// Messages exchanged to agree on the plan, not counting the transfers themselves.
    pub messages: u64,
}

impl Plan {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            phase: vec![u32::MAX; requests],
            length: 0,
            messages: 0,
        }
    }

    /// Why this is not a plan for these requests, if it is not.
    pub fn check(&self, requests: &Requests) -> Result<(), String> {
        let mut seen = std::collections::HashSet::new();
        for (number, (&phase, request)) in self.phase.iter().zip(requests.list()).enumerate() {
            if phase >= self.length {
                return Err(format!(
                    "request {number} is in phase {phase} of {}",
                    self.length
                ));
            }
            if !seen.insert((phase, false, request.client)) {
                return Err(format!(
                    "client {} is twice in phase {phase}",
                    request.client
                ));
            }
            if !seen.insert((phase, true, request.server)) {
                return Err(format!(
                    "server {} is twice in phase {phase}",
                    request.server
                ));
            }
        }
        if self.phase.len() == requests.list().len() {
            Ok(())
        } else {
            Err(format!(
                "{} of {} requests planned",
                self.phase.len(),
                requests.list().len()
            ))
        }
    }
}

/// The nodes that are taken in the current phase; starting a new phase costs nothing.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    clients: Vec<u32>,
    servers: Vec<u32>,
    phase: u32,
    free_pairs: u32,
}

impl Taken {
    pub(super) fn new(clients: u32, servers: u32) -> Self {
        Self {
            clients: vec![0; clients as usize],
            servers: vec![0; servers as usize],
            phase: 1,
            free_pairs: clients.min(servers),
        }
    }

    pub(super) fn next_phase(&mut self) {
        self.phase += 1;
        self.free_pairs = self.clients.len().min(self.servers.len()) as u32;
    }

    pub(super) fn client(&self, client: u32) -> bool {
        self.clients[client as usize] == self.phase
    }

    pub(super) fn server(&self, server: u32) -> bool {
        self.servers[server as usize] == self.phase
    }

    /// Whether every client or every server is taken, so that nothing can be added.
    pub(super) fn full(&self) -> bool {
        self.free_pairs == 0
    }

    pub(super) fn take(&mut self, client: u32, server: u32) {
        self.clients[client as usize] = self.phase;
        self.servers[server as usize] = self.phase;
        self.free_pairs -= 1;
    }

    pub(super) fn take_if_free(&mut self, request: Request) -> bool {
        let free = !self.client(request.client) && !self.server(request.server);
        if free {
            self.take(request.client, request.server);
        }
        free
    }
}

/// For each node, the phases in which it is free: bit p of its words is set when it is taken in p.
#[derive(Debug, Clone, Default)]
pub(super) struct Calendar(Vec<u64>);

impl Calendar {
    /// The first phase in which both are free.
    pub(super) fn first_common(&self, other: &Self) -> u32 {
        let words = self.0.len().max(other.0.len());
        for word in 0..words {
            let taken = self.word(word) | other.word(word);
            if taken != u64::MAX {
                return word as u32 * 64 + taken.trailing_ones();
            }
        }
        words as u32 * 64
    }

    pub(super) fn take(&mut self, phase: u32) {
        let word = phase as usize / 64;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (phase % 64);
    }

    fn word(&self, word: usize) -> u64 {
        self.0.get(word).copied().unwrap_or(0)
    }
}
