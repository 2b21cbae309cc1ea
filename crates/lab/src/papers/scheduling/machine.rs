//! The servers on which schedules are executed: time per request, caches, and what is measured.

use std::collections::{HashMap, VecDeque};

use trireme_sim::time::Time;

use super::workload::{Request, Workload};

/// What a server is like. Times are in units: the transfer of one block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Equipment {
    /// Positioning to anything but the next block, least and most.
    pub positioning: (f64, f64),
    /// Blocks that a server's cache holds.
    pub cache: usize,
    /// Time of a block that is in the cache.
    pub hit: f64,
}

impl Equipment {
    /// Every request takes one unit: what schedule lengths are defined on.
    pub fn unit() -> Self {
        Self {
            positioning: (0.0, 0.0),
            cache: 0,
            hit: 1.0,
        }
    }

    /// A disk with a small cache: positioning takes 0.3 to 1 unit, a hit a quarter.
    pub fn disk() -> Self {
        Self {
            positioning: (0.3, 1.0),
            cache: 64,
            hit: 0.25,
        }
    }
}

/// One unit of simulated time.
pub const UNIT: Time = Time::ms(1);

/// The state of all servers.
pub struct Servers<'a> {
    equipment: Equipment,
    workload: &'a Workload,
    heads: Vec<u64>,
    caches: Vec<Cache>,
    span: f64,
}

impl<'a> Servers<'a> {
    /// Servers with empty caches.
    pub fn new(workload: &'a Workload, equipment: Equipment) -> Self {
        let servers = workload.servers as usize;
        let most = workload
            .requests
            .iter()
            .map(|r| r.position(workload.servers))
            .max()
            .unwrap_or(1);
        Self {
            equipment,
            workload,
            heads: vec![0; servers],
            caches: (0..servers).map(|_| Cache::new(equipment.cache)).collect(),
            span: most.max(1) as f64,
        }
    }

    /// Serves requests as one access, in order; gives the time it takes.
    pub fn serve(&mut self, server: u32, requests: &[u32]) -> Time {
        let units: f64 = requests
            .iter()
            .map(|&number| self.units(server as usize, &self.workload.requests[number as usize]))
            .sum();
        Time((units * UNIT.0 as f64) as u64)
    }

    fn units(&mut self, server: usize, request: &Request) -> f64 {
        let e = self.equipment;
        if self.caches[server].touch(request.target()) {
            return e.hit;
        }
        let position = request.position(self.workload.servers);
        let distance = position.abs_diff(self.heads[server]);
        self.heads[server] = position;
        let moved = if distance <= 1 {
            0.0
        } else {
            let (least, most) = e.positioning;
            least + (most - least) * (distance as f64 / self.span).sqrt()
        };
        1.0 + moved
    }
}

/// The most recently used blocks: a hash map of stamps and a queue that is cleaned as it ages.
struct Cache {
    size: usize,
    stamps: HashMap<u64, u64>,
    ages: VecDeque<(u64, u64)>,
    clock: u64,
}

impl Cache {
    fn new(size: usize) -> Self {
        Self {
            size,
            stamps: HashMap::new(),
            ages: VecDeque::new(),
            clock: 0,
        }
    }

    /// Whether it is there; it is afterwards.
    fn touch(&mut self, target: u64) -> bool {
        if self.size == 0 {
            return false;
        }
        self.clock += 1;
        let hit = self.stamps.insert(target, self.clock).is_some();
        self.ages.push_back((target, self.clock));
        while self.stamps.len() > self.size {
            let (oldest, stamp) = self.ages.pop_front().expect("every stamp has an age");
            if self.stamps.get(&oldest) == Some(&stamp) {
                self.stamps.remove(&oldest);
            }
        }
        hit
    }
}

/// What a scheduler achieved.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// When the last request was complete, in units.
    pub length: f64,
    /// Requests per unit of time.
    pub throughput: f64,
    /// Mean time from the start to a request's completion, in units.
    pub response: f64,
    /// Jain's index over applications of (time alone at best / time taken): 1 is fair.
    pub fairness: f64,
    /// Messages exchanged in order to schedule.
    pub messages: u64,
}

impl Outcome {
    /// From the completion time of every request.
    pub fn of(workload: &Workload, completed: &[Time], messages: u64) -> Self {
        let units = |time: Time| time.0 as f64 / UNIT.0 as f64;
        let length = completed.iter().copied().max().map_or(0.0, units);
        let mut ends = vec![Time::ZERO; workload.applications as usize];
        for (request, &at) in workload.requests.iter().zip(completed) {
            let end = &mut ends[request.application as usize];
            *end = (*end).max(at);
        }
        let alone = alone(workload);
        let shares: Vec<f64> = ends
            .iter()
            .zip(alone)
            .filter(|(end, _)| **end > Time::ZERO)
            .map(|(&end, alone)| f64::from(alone) / units(end))
            .collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        let count = completed.len().max(1) as f64;
        Self {
            length,
            throughput: completed.len() as f64 / length.max(f64::MIN_POSITIVE),
            response: completed.iter().map(|&at| units(at)).sum::<f64>() / count,
            fairness: sum * sum / (shares.len() as f64 * squares),
            messages,
        }
    }
}

/// The fewest phases in which each application could be served if it were alone.
fn alone(workload: &Workload) -> Vec<u32> {
    let mut clients = vec![0u32; workload.clients as usize];
    let mut servers = vec![0u32; (workload.applications * workload.servers) as usize];
    let mut most = vec![0; workload.applications as usize];
    for request in &workload.requests {
        let client = &mut clients[request.client as usize];
        let server = &mut servers[(request.application * workload.servers + request.home) as usize];
        *client += 1;
        *server += 1;
        let most = &mut most[request.application as usize];
        *most = (*most).max(*client).max(*server);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_keeps_what_was_used_last() {
        let mut cache = Cache::new(2);
        let hits: Vec<bool> = [1, 2, 1, 3, 1, 2]
            .map(|target| cache.touch(target))
            .to_vec();
        assert_eq!(hits, [false, false, true, false, true, false]);
    }

    #[test]
    fn units_are_units() {
        let workload = Workload::mixed(32, 4, 8, 1);
        let mut servers = Servers::new(&workload, Equipment::unit());
        assert_eq!(servers.serve(0, &[0, 5, 9]), UNIT * 3);
    }
}
