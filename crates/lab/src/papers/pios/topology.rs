//! Multistage networks of 4x4 bidirectional switches, as data, with static routes.
//!
//! The paper's figures of its topologies are not available; [`Topology::paper`] is our reading. A
//! user's own is a small TOML file: `nodes`, `switches` and `links = ["n0 s0", "s0 s4", ...]`.

use serde::Deserialize;

use crate::error::Error;

/// Ports of a 4x4 bidirectional switch.
pub const PORTS_MAX: usize = 8;

/// Nodes and switches, the links between them, and a route for every pair of nodes.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: u32,
    switches: u32,
    /// Directed links: twice as many as cables.
    links: Vec<Link>,
    /// Start of each pair's route in `hops`.
    starts: Vec<u32>,
    hops: Vec<u16>,
}

/// One direction of a cable. Ends are numbered nodes first, then switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it starts.
    pub from: u32,
    /// Where it ends.
    pub to: u32,
    /// Its number among the links that end there.
    pub port: u8,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    nodes: u32,
    switches: u32,
    links: Vec<String>,
}

impl Topology {
    /// Our reading of the paper's 16, 32, 64 and 128 nodes. Each cluster of 16 nodes has four node
    /// switches, fully connected to four second-stage switches. Two clusters are joined directly,
    /// four cables between second-stage switches of the same number; more by 16 third-stage switches
    /// (j, k), to which port k of each cluster's second-stage switch j leads.
    pub fn paper(nodes: u32) -> Result<Self, Error> {
        if !matches!(nodes, 16 | 32 | 64 | 128) {
            return Err(Error::value(
                "nodes",
                nodes,
                "no topology is given for it",
                "16, 32, 64, 128",
            ));
        }
        let clusters = nodes / 16;
        let switch = |cluster: u32, stage: u32, j: u32| nodes + cluster * 8 + stage * 4 + j;
        let third = |j: u32, k: u32| nodes + clusters * 8 + 4 * j + k;
        let mut cables = Vec::new();
        for node in 0..nodes {
            cables.push((node, switch(node / 16, 0, node / 4 % 4)));
        }
        for cluster in 0..clusters {
            for low in 0..4 {
                cables.extend((0..4).map(|j| (switch(cluster, 0, low), switch(cluster, 1, j))));
            }
        }
        let mut switches = clusters * 8;
        if clusters == 2 {
            for j in 0..4 {
                cables.extend([(switch(0, 1, j), switch(1, 1, j)); 4]);
            }
        } else if clusters > 2 {
            switches += 16;
            for cluster in 0..clusters {
                for j in 0..4 {
                    cables.extend((0..4).map(|k| (switch(cluster, 1, j), third(j, k))));
                }
            }
        }
        Self::new(nodes, switches, &cables)
    }

    /// Reads a user's own topology; `file` is its name for messages.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, Error> {
        let refuse = |reason: String| Error::File {
            file: file.into(),
            reason,
        };
        let parsed: File = toml::from_str(text).map_err(|error| refuse(error.to_string()))?;
        let end = |text: &str| -> Option<u32> {
            let number: u32 = text.get(1..)?.parse().ok()?;
            match text.as_bytes().first()? {
                b'n' if number < parsed.nodes => Some(number),
                b's' if number < parsed.switches => Some(parsed.nodes + number),
                _ => None,
            }
        };
        let mut cables = Vec::new();
        for link in &parsed.links {
            let ends: Vec<Option<u32>> = link.split_whitespace().map(end).collect();
            let [Some(a), Some(b)] = ends[..] else {
                return Err(refuse(format!(
                    "link {link:?}: write two ends, such as \"n0 s0\", with n0 to n{} and s0 to s{}",
                    parsed.nodes.saturating_sub(1),
                    parsed.switches.saturating_sub(1)
                )));
            };
            cables.push((a, b));
        }
        Self::new(parsed.nodes, parsed.switches, &cables)
    }

    /// The topology as a file that [`from_toml`](Self::from_toml) reads.
    pub fn to_toml(&self) -> String {
        let name = |end: u32| {
            if end < self.nodes {
                format!("n{end}")
            } else {
                format!("s{}", end - self.nodes)
            }
        };
        let cables: Vec<String> = self
            .links
            .iter()
            .step_by(2)
            .map(|link| format!("  \"{} {}\",\n", name(link.from), name(link.to)))
            .collect();
        format!(
            "nodes = {}\nswitches = {}\nlinks = [\n{}]\n",
            self.nodes,
            self.switches,
            cables.concat()
        )
    }

    fn new(nodes: u32, switches: u32, cables: &[(u32, u32)]) -> Result<Self, Error> {
        let refuse = |reason: String| Err(Error::Model(format!("topology: {reason}")));
        if nodes < 2 {
            return refuse(format!("{nodes} nodes have nobody to talk to: at least 2"));
        }
        let ends = (nodes + switches) as usize;
        let mut arriving = vec![0usize; ends];
        let mut links = Vec::new();
        for &(a, b) in cables {
            for (from, to) in [(a, b), (b, a)] {
                links.push(Link {
                    from,
                    to,
                    port: arriving[to as usize] as u8,
                });
                arriving[to as usize] += 1;
            }
        }
        for (end, &count) in arriving.iter().enumerate() {
            let (what, most) = if end < nodes as usize {
                ("node", 1)
            } else {
                ("switch", PORTS_MAX)
            };
            if count > most || count == 0 {
                let number = if end < nodes as usize {
                    end
                } else {
                    end - nodes as usize
                };
                return refuse(format!(
                    "{what} {number} has {count} links: 1 to {most} are possible"
                ));
            }
        }
        let mut topology = Self {
            nodes,
            switches,
            links,
            starts: vec![],
            hops: vec![],
        };
        topology.route()?;
        Ok(topology)
    }

    /// Static routes: shortest, and among equally short next links of a switch l stages above the
    /// nodes the one with number (destination / 4^l) mod their count. In [`paper`](Self::paper) that
    /// is: up from the first stage by d mod 4, from the second by (d / 4) mod 4.
    fn route(&mut self) -> Result<(), Error> {
        let ends = (self.nodes + self.switches) as usize;
        let mut leaving = vec![Vec::new(); ends];
        for (number, link) in self.links.iter().enumerate() {
            leaving[link.from as usize].push(number as u16);
        }
        let to_any_node = self.distances(&leaving, 0..self.nodes);
        let mut routes = vec![Vec::new(); (self.nodes * self.nodes) as usize];
        for destination in 0..self.nodes {
            let distance = self.distances(&leaving, destination..destination + 1);
            for source in (0..self.nodes).filter(|&source| source != destination) {
                if distance[source as usize] == u32::MAX {
                    return Err(Error::Model(format!(
                        "topology: no way from node {source} to node {destination}: add a link"
                    )));
                }
                let route = &mut routes[(source * self.nodes + destination) as usize];
                let mut at = source;
                while at != destination {
                    let nearer: Vec<u16> = leaving[at as usize]
                        .iter()
                        .copied()
                        .filter(|&link| {
                            let to = self.links[link as usize].to as usize;
                            distance[to] < distance[at as usize]
                        })
                        .collect();
                    let stage = to_any_node[at as usize].saturating_sub(1);
                    let choice = (destination >> (2 * stage).min(31)) as usize % nearer.len();
                    route.push(nearer[choice]);
                    at = self.links[nearer[choice] as usize].to;
                }
            }
        }
        for route in routes {
            self.starts.push(self.hops.len() as u32);
            self.hops.extend(route);
        }
        self.starts.push(self.hops.len() as u32);
        Ok(())
    }

    /// Hops from every end to the nearest of some nodes; nodes do not pass anything on.
    fn distances(&self, leaving: &[Vec<u16>], to: std::ops::Range<u32>) -> Vec<u32> {
        let mut distance = vec![u32::MAX; leaving.len()];
        let mut wave: Vec<u32> = to.collect();
        for &node in &wave {
            distance[node as usize] = 0;
        }
        for step in 1.. {
            let mut next = Vec::new();
            for end in wave {
                for &link in &leaving[end as usize] {
                    let other = self.links[link as usize].to;
                    if distance[other as usize] == u32::MAX {
                        distance[other as usize] = step;
                        if other >= self.nodes {
                            next.push(other);
                        }
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            wave = next;
        }
        distance
    }

    /// Number of nodes.
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// All directed links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The links from one node to another, in order; the first leaves the node's adapter.
    pub fn path(&self, from: u32, to: u32) -> &[u16] {
        let pair = (from * self.nodes + to) as usize;
        &self.hops[self.starts[pair] as usize..self.starts[pair + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_those_of_the_stages() {
        for (nodes, across) in [(16, 3), (32, 4), (64, 5), (128, 5)] {
            let topology = Topology::paper(nodes).unwrap();
            for a in 0..nodes {
                for b in (0..nodes).filter(|&b| b != a) {
                    let switches = topology.path(a, b).len() - 1;
                    let expected = match (a / 4 == b / 4, a / 16 == b / 16) {
                        (true, _) => 1,
                        (false, true) => 3,
                        (false, false) => across,
                    };
                    assert_eq!(switches, expected, "{nodes} nodes, {a} to {b}");
                }
            }
        }
    }

    #[test]
    fn routes_spread_by_destination() {
        let topology = Topology::paper(64).unwrap();
        let second_stage = |to: u32| topology.links()[topology.path(0, to)[1] as usize].to;
        let third_stage = |to: u32| topology.links()[topology.path(0, to)[2] as usize].to;
        let seen: std::collections::BTreeSet<_> = (16..20).map(second_stage).collect();
        assert_eq!(
            seen.len(),
            4,
            "four destinations of one switch go up four ways"
        );
        let seen: std::collections::BTreeSet<_> = (16..32).map(third_stage).collect();
        assert_eq!(seen.len(), 16);
    }

    #[test]
    fn a_file_is_read_back() {
        for nodes in [16, 32, 128] {
            let topology = Topology::paper(nodes).unwrap();
            let again = Topology::from_toml("t", &topology.to_toml()).unwrap();
            assert_eq!(again.links, topology.links);
            assert_eq!(again.hops, topology.hops);
        }
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let says = |text: &str| Topology::from_toml("t.toml", text).unwrap_err().to_string();
        assert!(says("nodes = 2\nswitches = 1\nlinks = [\"n0 s0\", \"n1 s7\"]").contains("n1 s7"));
        assert!(
            says("nodes = 2\nswitches = 1\nlinks = [\"n0 s0\"]").contains("node 1 has 0 links")
        );
        let two = "nodes = 2\nswitches = 2\nlinks = [\"n0 s0\", \"n1 s1\"]";
        assert!(
            says(two).contains("no way from node 1 to node 0"),
            "{}",
            says(two)
        );
        let crowded = format!(
            "nodes = 9\nswitches = 1\nlinks = [{}]",
            (0..9)
                .map(|n| format!("\"n{n} s0\","))
                .collect::<Vec<_>>()
                .concat()
        );
        assert!(says(&crowded).contains("switch 0 has 9 links"));
    }
}
