//! Who is in the cluster: how I/O servers register with the manager, and the map clients get.

use serde::{Deserialize, Serialize};

/// One I/O server, as the manager and the clients know it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    /// Its number; layouts name servers by it, so it stays with the data for ever.
    pub id: u32,
    /// Where it listens, best first: `unix:/path` or `tcp:host:port`.
    pub addresses: Vec<String>,
    /// Changes whenever the server may have lost bytes that it had acknowledged.
    pub incarnation: u64,
}

/// Body of [`Op::REGISTER`](crate::Op::REGISTER): sent at start and then as a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Register {
    /// The server that lives.
    pub server: Server,
}

/// Reply to [`Op::MAP`](crate::Op::MAP) and to a registration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Map {
    /// Grows with each change.
    pub epoch: u32,
    /// Number of the cluster, made at its birth.
    pub cluster: u64,
    /// All servers ever registered, by number.
    pub servers: Vec<Server>,
}

/// How a file's bytes are dealt to servers: unit by unit, round robin, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of a stripe unit.
    pub unit: u64,
    /// Server numbers; the first unit is on the first.
    pub servers: Vec<u32>,
}

/// What a user asks of a layout; what is left open is inherited or chosen by the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LayoutWish {
    /// Bytes of a stripe unit.
    pub unit: Option<u64>,
    /// How many servers.
    pub servers: Option<u32>,
    /// Number of the first one.
    pub first: Option<u32>,
}
