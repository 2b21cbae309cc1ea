//! The parallel transfer: which block goes to which server next, as a state machine without I/O.
//!
//! The algorithm is PIO READ/WRITE of "User-Level Parallel File I/O" (its Figure 5): up to C blocks
//! are in flight to each server, and the next block for a server goes out when its acknowledgement
//! comes in. The order among servers that could take a block is a [`Schedule`]. With C = 1 and one
//! block in flight in total it is the model of "On evaluating decentralized parallel I/O scheduling
//! strategies"; then `first`, `random` and `hash` are that paper's first-, random- and hash-IOS.
//!
//! Whoever drives it (the client over sockets, the lab over simulated links) does this:
//!
//! ```
//! # use trireme_policy::{schedule::Schedule, transfer::{Striped, Transfer, Window}};
//! # let mut network = std::collections::VecDeque::new();
//! let blocks = Striped { unit: 65536, servers: 4, first: 0, offset: 0, len: 1 << 20, block: 65536 };
//! let mut transfer = Transfer::new(blocks, Window::per_server(2), Schedule::Hash, 3, 0);
//! while !transfer.is_done() {
//!     while let Some(turn) = transfer.next_turn() {
//!         network.push_back((turn.server, transfer.blocks().range(turn.server, turn.block)));
//!     }
//!     let (server, _bytes) = network.pop_front().expect("every block is acknowledged or fails");
//!     transfer.acknowledged(server);
//! }
//! ```
//!
//! After construction nothing allocates, and a turn costs O(log servers) for `first`, O(1) for
//! `random` and O(servers / 64) at worst for `hash`.

mod ready;

use std::ops::Range;

use crate::schedule::Schedule;
use ready::Ready;

/// What there is to transfer: for each server, a queue of numbered blocks.
pub trait Blocks {
    /// How many servers there are.
    fn servers(&self) -> u32;
    /// How many blocks wait for this server at the start.
    fn count(&self, server: u32) -> u32;
    /// Where this block stands in the file: `first` goes by it, the other schedules ignore it.
    /// Grows with `block` for each server.
    fn position(&self, server: u32, block: u32) -> u64;
}

/// How many blocks may be in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// To one server: the paper's C, the blocks of communication buffer per server. Zero counts as
    /// one: nothing would ever move.
    pub per_server: u32,
    /// To all servers together; zero counts as one.
    pub total: u32,
}

impl Window {
    /// C blocks in flight per server, no other limit.
    pub fn per_server(c: u32) -> Self {
        Self {
            per_server: c,
            total: u32::MAX,
        }
    }

    /// One block in flight at all: the model in which schedules have a length.
    pub fn one_at_a_time() -> Self {
        Self {
            per_server: 1,
            total: 1,
        }
    }
}

/// One decision: send this block to this server now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The server.
    pub server: u32,
    /// The block's number in that server's queue, from 0.
    pub block: u32,
}

/// The state of one transfer.
#[derive(Debug, Clone)]
pub struct Transfer<B> {
    blocks: B,
    window: Window,
    queues: Vec<Queue>,
    ready: Ready,
    unsent: u64,
    in_flight: u32,
}

#[derive(Debug, Clone)]
struct Queue {
    next: u32,
    end: u32,
    in_flight: u32,
}

impl<B: Blocks> Transfer<B> {
    /// A transfer of these blocks. `own` is the caller's number among its peers, from which `hash`
    /// starts; `seed` drives `random` (peers must not share it) and matters to nothing else.
    pub fn new(blocks: B, window: Window, schedule: Schedule, own: u32, seed: u64) -> Self {
        let window = Window {
            per_server: window.per_server.max(1),
            total: window.total.max(1),
        };
        let servers = blocks.servers();
        let queues: Vec<Queue> = (0..servers)
            .map(|server| Queue {
                next: 0,
                end: blocks.count(server),
                in_flight: 0,
            })
            .collect();
        let mut ready = Ready::new(schedule, servers, own, seed);
        for (server, queue) in queues.iter().enumerate() {
            if queue.end > 0 {
                ready.insert(server as u32, || blocks.position(server as u32, 0));
            }
        }
        let unsent = queues.iter().map(|queue| u64::from(queue.end)).sum();
        Self {
            blocks,
            window,
            queues,
            ready,
            unsent,
            in_flight: 0,
        }
    }

    /// The next block to send, or nothing until an acknowledgement comes in (or at all, when
    /// [`is_done`](Self::is_done)). Call until it gives nothing.
    pub fn next_turn(&mut self) -> Option<Turn> {
        if self.in_flight >= self.window.total {
            return None;
        }
        let server = self.ready.take()?;
        let queue = &mut self.queues[server as usize];
        let block = queue.next;
        queue.next += 1;
        queue.in_flight += 1;
        self.unsent -= 1;
        self.in_flight += 1;
        self.offer(server);
        Some(Turn { server, block })
    }

    /// One block of this server has arrived. Blocks of one server may be acknowledged in any order.
    ///
    /// # Panics
    /// If nothing is in flight to this server: the caller must refuse such a frame before.
    pub fn acknowledged(&mut self, server: u32) {
        let queue = &mut self.queues[server as usize];
        assert!(
            queue.in_flight > 0,
            "server {server} acknowledged a block that was not sent"
        );
        let was_full = queue.in_flight == self.window.per_server;
        queue.in_flight -= 1;
        self.in_flight -= 1;
        if was_full {
            self.offer(server);
        }
    }

    /// Gives up what is still queued for this server (it died, it refused), so that the others can
    /// finish; gives the number of blocks that will never be sent. What is in flight to it must
    /// still be acknowledged, or counted as such by whoever learns that it is lost.
    pub fn abandon(&mut self, server: u32) -> u32 {
        let queue = &mut self.queues[server as usize];
        let dropped = queue.end - queue.next;
        queue.end = queue.next;
        self.unsent -= u64::from(dropped);
        self.ready.remove(server);
        dropped
    }

    /// What is transferred.
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// Blocks sent and not yet acknowledged, over all servers.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Blocks sent to this server and not yet acknowledged.
    pub fn in_flight_to(&self, server: u32) -> u32 {
        self.queues[server as usize].in_flight
    }

    /// Blocks not yet sent.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Whether every block was sent and acknowledged (or abandoned).
    pub fn is_done(&self) -> bool {
        self.unsent == 0 && self.in_flight == 0
    }

    fn offer(&mut self, server: u32) {
        let queue = &self.queues[server as usize];
        if queue.next < queue.end && queue.in_flight < self.window.per_server {
            self.ready
                .insert(server, || self.blocks.position(server, queue.next));
        }
    }
}

/// The blocks of one contiguous request to a striped file.
///
/// Stripe unit k of the file is on server (`first` + k) mod `servers`. Each server's share is cut at
/// multiples of `block` of its own subfile, so that blocks are aligned on the server's disk; with
/// `block` below `unit` a stripe unit takes several turns, above it a turn carries several units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striped {
    /// Bytes per stripe unit, not zero.
    pub unit: u64,
    /// Number of servers, not zero.
    pub servers: u32,
    /// The server of the file's first unit.
    pub first: u32,
    /// Where the request starts in the file.
    pub offset: u64,
    /// Bytes requested.
    pub len: u64,
    /// The schedule block b, not zero.
    pub block: u64,
}

impl Striped {
    /// The bytes of a server's subfile that this block covers.
    pub fn range(&self, server: u32, block: u32) -> Range<u64> {
        let whole = self.share(server);
        let start = (whole.start / self.block + u64::from(block)) * self.block;
        start.max(whole.start)..(start + self.block).min(whole.end)
    }

    /// The bytes of a server's subfile that the request covers.
    pub fn share(&self, server: u32) -> Range<u64> {
        self.below(server, self.offset)..self.below(server, self.offset + self.len)
    }

    /// Which place in each round of stripe units a server has.
    fn slot(&self, server: u32) -> u64 {
        u64::from((server + self.servers - self.first % self.servers) % self.servers)
    }

    /// How many of the file's first `end` bytes are on this server.
    fn below(&self, server: u32, end: u64) -> u64 {
        let round = self.unit * u64::from(self.servers);
        let rest = (end % round)
            .saturating_sub(self.slot(server) * self.unit)
            .min(self.unit);
        end / round * self.unit + rest
    }
}

impl Blocks for Striped {
    fn servers(&self) -> u32 {
        self.servers
    }

    fn count(&self, server: u32) -> u32 {
        let share = self.share(server);
        if share.is_empty() {
            return 0;
        }
        (share.end.div_ceil(self.block) - share.start / self.block) as u32
    }

    fn position(&self, server: u32, block: u32) -> u64 {
        let start = self.range(server, block).start;
        let unit = start / self.unit * u64::from(self.servers) + self.slot(server);
        unit * self.unit + start % self.unit
    }
}

/// Blocks of which only the number per server is known; file order is round by round.
impl Blocks for Vec<u32> {
    fn servers(&self) -> u32 {
        self.len() as u32
    }

    fn count(&self, server: u32) -> u32 {
        self[server as usize]
    }

    fn position(&self, server: u32, block: u32) -> u64 {
        u64::from(block) * self.len() as u64 + u64::from(server)
    }
}

#[cfg(test)]
mod tests;
