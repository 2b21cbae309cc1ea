//! A two-dimensional torus with wormhole routing: ports are the bottleneck, routers add latency.

use super::spec::MachineSpec;
use crate::time::Time;

/// The network between the nodes of a machine.
#[derive(Clone, Debug)]
pub struct Network {
    side: usize,
    per_byte: Time,
    per_hop: Time,
    header: u64,
    out_free: Vec<Time>,
    in_free: Vec<Time>,
}

impl Network {
    /// A torus that is just large enough for `nodes`, placed row by row.
    pub fn new(nodes: usize, spec: &MachineSpec) -> Network {
        let side = nodes.isqrt() + usize::from(nodes.isqrt().pow(2) < nodes);
        Network {
            side,
            per_byte: Time::from_us(1.0 / spec.link_mb_s),
            per_hop: Time::from_us(spec.router_ns / 1000.0),
            header: spec.header_bytes,
            out_free: vec![Time::ZERO; nodes],
            in_free: vec![Time::ZERO; nodes],
        }
    }

    /// Sends a message at `now`; when its last byte is in the receiver's memory. A message
    /// occupies its sender's and its receiver's port for as long as its bytes take.
    #[inline]
    pub fn send(&mut self, now: Time, from: usize, to: usize, bytes: u64) -> Time {
        let duration = self.per_byte * (bytes + self.header);
        let leaves = now.max(self.out_free[from]);
        self.out_free[from] = leaves + duration;
        let head = leaves + self.per_hop * self.hops(from, to);
        let received = head.max(self.in_free[to]) + duration;
        self.in_free[to] = received;
        received
    }

    /// Routers between two nodes.
    pub fn hops(&self, from: usize, to: usize) -> u64 {
        let along = |a: usize, b: usize| {
            let direct = a.abs_diff(b);
            direct.min(self.side - direct)
        };
        let distance =
            along(from % self.side, to % self.side) + along(from / self.side, to / self.side);
        distance as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thirty_two_nodes_make_a_six_by_six_torus() {
        let network = Network::new(32, &MachineSpec::default());
        assert_eq!(network.side, 6);
        assert_eq!(network.hops(0, 5), 1);
        assert_eq!(network.hops(0, 21), 6);
        assert_eq!(network.hops(7, 7), 0);
    }

    #[test]
    fn a_port_carries_one_message_at_a_time() {
        let mut network = Network::new(32, &MachineSpec::default());
        let first = network.send(Time::ZERO, 0, 1, 8192);
        assert_eq!(first, Time::ns(8224 * 5 + 20));
        let second = network.send(Time::ZERO, 0, 2, 0);
        assert_eq!(second, Time::ns(8224 * 5 + 40 + 160));
        let third = network.send(Time::ZERO, 3, 1, 0);
        assert_eq!(third, first + Time::ns(160));
    }
}
