//! LARD, locality-aware request distribution (Pai et al.): a front end sends all requests for one
//! target to the server whose cache has it, and moves the target when that server is overloaded.

use std::collections::HashMap;

/// The front end's state: who has which target, and how many requests each server has open.
#[derive(Debug, Clone)]
pub struct Lard {
    limits: Limits,
    load: Vec<u32>,
    home: HashMap<u64, u32>,
    moves: u64,
}

/// When a server counts as idle and when as overloaded, in open requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Below this a server is worth moving a target to.
    pub low: u32,
    /// Above this a server is worth moving a target away from, if somebody is below `low`; at twice
    /// this, in any case.
    pub high: u32,
}

impl Default for Limits {
    /// The original's values, as remembered.
    fn default() -> Self {
        Self { low: 25, high: 65 }
    }
}

impl Lard {
    /// A front end for this many servers, at least one.
    pub fn new(servers: u32, limits: Limits) -> Self {
        Self {
            limits,
            load: vec![0; servers as usize],
            home: HashMap::new(),
            moves: 0,
        }
    }

    /// The server to which a request for this target goes now.
    pub fn assign(&mut self, target: u64) -> u32 {
        let server = match self.home.get(&target) {
            None => self.least_loaded(),
            Some(&home) => self.keep_or_move(home),
        };
        self.home.insert(target, server);
        self.load[server as usize] += 1;
        server
    }

    fn keep_or_move(&mut self, home: u32) -> u32 {
        let load = self.load[home as usize];
        if load <= self.limits.high {
            return home;
        }
        let least = self.least_loaded();
        let relief = self.load[least as usize] < self.limits.low;
        let overload = load >= 2 * self.limits.high;
        if (relief || overload) && least != home {
            self.moves += 1;
            least
        } else {
            home
        }
    }

    /// A request that was assigned to this server is finished.
    pub fn finished(&mut self, server: u32) {
        self.load[server as usize] -= 1;
    }

    /// How often a target was moved.
    pub fn moves(&self) -> u64 {
        self.moves
    }

    fn least_loaded(&self) -> u32 {
        let least = self.load.iter().enumerate().min_by_key(|&(_, load)| load);
        least.expect("there is at least one server").0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_stays_until_its_server_is_overloaded() {
        let mut lard = Lard::new(2, Limits { low: 2, high: 4 });
        assert_eq!(lard.assign(7), 0);
        assert_eq!(lard.assign(8), 1);
        for _ in 0..4 {
            assert_eq!(lard.assign(7), 0);
        }
        // Five open at server 0, one at server 1: above high, and somebody is below low.
        assert_eq!(lard.assign(7), 1);
        assert_eq!(lard.moves(), 1);
        lard.finished(0);
        assert_eq!(lard.assign(7), 1, "it does not come back by itself");
    }

    #[test]
    fn twice_the_limit_moves_even_when_nobody_is_idle() {
        let mut lard = Lard::new(2, Limits { low: 0, high: 2 });
        let servers: Vec<_> = (0..6).map(|_| lard.assign(1)).collect();
        assert_eq!(servers, [0, 0, 0, 0, 1, 1]);
    }
}
