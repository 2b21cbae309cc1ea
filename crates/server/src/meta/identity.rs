//! Who a connection speaks for. On a Unix socket the kernel says who the peer is; elsewhere the
//! holder of the cluster key is believed, as nobody else gets this far.

use trireme_meta::manager::Who;
use trireme_net::Peer;
use trireme_proto::message::meta::{Caller, GROUPS_LIMIT};

/// The identity of a peer. Root and the cluster's owner may act for others (a mount does).
pub fn of(peer: &Peer, owner: u32) -> Who {
    let groups = if peer.local {
        groups_of(peer.pid)
    } else {
        Vec::new()
    };
    Who {
        client: peer.client,
        caller: Caller {
            uid: peer.uid,
            gid: peer.gid,
            groups,
        },
        trusted: !peer.local || peer.uid == 0 || peer.uid == owner,
    }
}

/// Supplementary groups of a process on this host; none when the kernel does not tell.
fn groups_of(pid: u32) -> Vec<u32> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or("").split_whitespace();
    numbers
        .filter_map(|number| number.parse().ok())
        .take(GROUPS_LIMIT)
        .collect()
}
