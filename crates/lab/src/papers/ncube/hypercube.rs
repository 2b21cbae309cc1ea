//! The nCUBE 2's interconnection: e-cube routes, the SI nodes that lead to I/O nodes, and which
//! routes share channels ("User-Level Parallel File I/O", Table 1 and the theorem of section 3).

/// Dimensions of the machine: 1024 compute nodes.
pub const DIMENSIONS: u32 = 10;
/// Number of compute nodes.
pub const NODES: u32 = 1 << DIMENSIONS;
/// I/O nodes of one board that the paper uses.
pub const IO_NODES: u32 = 8;
/// Channels from one I/O node into the hypercube.
pub const CHANNELS: u32 = 8;
/// The I/O board's logical number in Table 1.
pub const BOARD: u32 = 3;

/// A directed channel: out of a node, along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Channel {
    /// The node it leaves.
    pub from: u32,
    /// The dimension it crosses.
    pub dimension: u32,
}

/// The compute node at the end of an I/O node's channel (Table 1): 64 c + 4 i + b.
pub fn si_node(io_node: u32, channel: u32) -> u32 {
    64 * channel + 4 * io_node + BOARD
}

/// The SI node of an I/O node that is nearest to `node`; there is exactly one, because the channel
/// number can always be matched.
pub fn nearest_si(node: u32, io_node: u32) -> u32 {
    (0..CHANNELS)
        .map(|channel| si_node(io_node, channel))
        .min_by_key(|&si| distance(node, si))
        .expect("an I/O node has channels")
}

/// Hops between two nodes.
pub fn distance(a: u32, b: u32) -> u32 {
    (a ^ b).count_ones()
}

/// The e-cube route: differing bits are corrected from the lowest to the highest.
pub fn route(from: u32, to: u32) -> impl Iterator<Item = Channel> {
    let mut at = from;
    std::iter::from_fn(move || {
        let differing = at ^ to;
        (differing != 0).then(|| {
            let channel = Channel {
                from: at,
                dimension: differing.trailing_zeros(),
            };
            at ^= 1 << channel.dimension;
            channel
        })
    })
}

/// Whether two routes have no channel in common.
pub fn disjoint(
    one: impl Iterator<Item = Channel>,
    other: impl Iterator<Item = Channel> + Clone,
) -> bool {
    let mut one = one;
    !one.any(|channel| other.clone().any(|theirs| theirs == channel))
}

/// The right-most position at which two numbers differ, -1 if they are equal: the paper's P(x, y).
/// Routes out of x are channel-disjoint if and only if their values differ.
pub fn first_dimension(x: u32, y: u32) -> i32 {
    if x == y {
        -1
    } else {
        (x ^ y).trailing_zeros() as i32
    }
}

/// The left-most position at which two numbers differ: it plays the same part for routes into a
/// common destination, which the paper did not look at.
pub fn last_dimension(x: u32, y: u32) -> i32 {
    31 - (x ^ y).leading_zeros() as i32
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the compute node to the I/O nodes: writes.
    Out,
    /// From the I/O nodes to the compute node: reads.
    In,
}

/// Which channel-disjoint routing leads from a node to each I/O node (or back): numbers from 0, and
/// two I/O nodes have the same number when their routes share a channel.
pub fn routings(node: u32, direction: Direction) -> Vec<usize> {
    let mut seen = Vec::new();
    (0..IO_NODES)
        .map(|io_node| {
            let si = nearest_si(node, io_node);
            let key = match direction {
                Direction::Out => first_dimension(node, si),
                Direction::In => last_dimension(node, si),
            };
            seen.iter()
                .position(|&known| known == key)
                .unwrap_or_else(|| {
                    seen.push(key);
                    seen.len() - 1
                })
        })
        .collect()
}

/// How many I/O nodes each routing of a node carries, most first.
pub fn split(node: u32, direction: Direction) -> Vec<u32> {
    let of = routings(node, direction);
    let mut counts = vec![0; of.iter().max().map_or(0, |most| most + 1)];
    for routing in of {
        counts[routing] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

/// Numbers of nodes by (routings out, routings in).
pub fn census() -> std::collections::BTreeMap<(usize, usize), u32> {
    let mut census = std::collections::BTreeMap::new();
    for node in 0..NODES {
        let key = (
            split(node, Direction::Out).len(),
            split(node, Direction::In).len(),
        );
        *census.entry(key).or_insert(0) += 1;
    }
    census
}

/// The nodes of a subcube on which to centralise I/O, best first: many disjoint routings in both
/// directions, then few hops.
pub fn advice(base: u32, dimension: u32) -> Vec<u32> {
    let mut nodes: Vec<u32> = (0..1 << dimension).map(|logical| base ^ logical).collect();
    nodes.sort_by_key(|&node| {
        let out = split(node, Direction::Out).len();
        let back = split(node, Direction::In).len();
        (
            std::cmp::Reverse(out.min(back)),
            std::cmp::Reverse(out + back),
            hops(node),
            node,
        )
    });
    nodes
}

/// Total hops from a node to its eight SI nodes.
pub fn hops(node: u32) -> u32 {
    (0..IO_NODES)
        .map(|io_node| distance(node, nearest_si(node, io_node)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ncube_table1_formula() {
        let table: [[u32; 8]; 8] = [
            [3, 7, 11, 15, 19, 23, 27, 31],
            [67, 71, 75, 79, 83, 87, 91, 95],
            [131, 135, 139, 143, 147, 151, 155, 159],
            [195, 199, 203, 207, 211, 215, 219, 223],
            [259, 263, 267, 271, 275, 279, 283, 287],
            [323, 327, 331, 335, 339, 343, 347, 351],
            [387, 391, 395, 399, 403, 407, 411, 415],
            [451, 455, 459, 463, 467, 471, 475, 479],
        ];
        for (channel, row) in table.iter().enumerate() {
            for (io_node, &expected) in row.iter().enumerate() {
                let si = si_node(io_node as u32, channel as u32);
                assert_eq!(si, expected);
                assert_eq!(si & (1 << 5 | 1 << 9), 0, "bits 5 and 9 are zero");
            }
        }
    }

    /// On the whole 6-cube, for every source and every pair of destinations: routes are disjoint if
    /// and only if their first dimensions differ, and, turned round, if their last ones do.
    #[test]
    fn theorem_exhaustive() {
        let (mut different, mut equal) = (0, 0);
        for x in 0..64u32 {
            for y in (0..64).filter(|&y| y != x) {
                let out: Vec<_> = route(x, y).collect();
                let back: Vec<_> = route(y, x).collect();
                for z in (0..64).filter(|&z| z != x) {
                    let differ = first_dimension(x, y) != first_dimension(x, z);
                    let other: Vec<_> = route(x, z).collect();
                    assert_eq!(disjoint(out.iter().copied(), other.into_iter()), differ);
                    different += u32::from(differ);
                    equal += u32::from(!differ);
                    let differ = last_dimension(x, y) != last_dimension(x, z);
                    let other: Vec<_> = route(z, x).collect();
                    assert_eq!(disjoint(back.iter().copied(), other.into_iter()), differ);
                }
            }
        }
        assert_eq!(different, 166_656);
        assert_eq!(equal, 64 * 1365);
    }

    /// The numbers of routings by the theorem are those found by looking at the channels.
    #[test]
    fn routings_of_all_nodes_share_no_channel() {
        for node in 0..NODES {
            for direction in [Direction::Out, Direction::In] {
                let routings = routings(node, direction);
                let path = |io: u32| -> Vec<Channel> {
                    let si = nearest_si(node, io);
                    match direction {
                        Direction::Out => route(node, si).collect(),
                        Direction::In => route(si, node).collect(),
                    }
                };
                for a in 0..IO_NODES {
                    for b in 0..a {
                        let same = routings[a as usize] == routings[b as usize];
                        let apart = disjoint(path(a).into_iter(), path(b).into_iter());
                        assert_eq!(same, !apart, "node {node}, I/O nodes {a} and {b}");
                    }
                }
            }
        }
    }

    #[test]
    fn routing_census() {
        let expected = [((1, 1), 576), ((1, 4), 192), ((4, 1), 192), ((4, 4), 64)];
        assert_eq!(census().into_iter().collect::<Vec<_>>(), expected);
        for node in 0..NODES {
            let four = split(node, Direction::Out).len() == 4;
            assert_eq!(
                four,
                node & 3 == BOARD,
                "the two low bits decide: node {node}"
            );
        }
        let both = |node| {
            [Direction::Out, Direction::In]
                .iter()
                .all(|&d| split(node, d).len() == 4)
        };
        for channel in 0..CHANNELS {
            for io_node in 0..IO_NODES {
                assert!(both(si_node(io_node, channel)));
            }
        }
    }

    #[test]
    fn the_four_routings_carry_4_2_1_and_1() {
        for node in 0..NODES {
            for direction in [Direction::Out, Direction::In] {
                let split = split(node, direction);
                assert!(
                    split == [4, 2, 1, 1] || split == [8],
                    "node {node}: {split:?}"
                );
            }
        }
    }

    #[test]
    fn the_nearest_si_node_is_unique_and_3_5_hops_away_on_average() {
        let mut total = 0;
        for node in 0..NODES {
            for io_node in 0..IO_NODES {
                let nearest = distance(node, nearest_si(node, io_node));
                total += nearest;
                let as_near = (0..CHANNELS)
                    .filter(|&channel| distance(node, si_node(io_node, channel)) == nearest)
                    .count();
                assert_eq!(as_near, 1);
            }
        }
        assert_eq!(f64::from(total) / f64::from(NODES * IO_NODES), 3.5);
    }

    #[test]
    fn the_papers_example_from_node_3() {
        let nodes = |to| {
            let mut path: Vec<u32> = route(3, to).map(|channel| channel.from).collect();
            path.push(to);
            path
        };
        assert_eq!(
            [nodes(7), nodes(11), nodes(15)],
            [vec![3, 7], vec![3, 11], vec![3, 7, 15]]
        );
        assert_eq!(routings(3, Direction::Out)[1..4], [1, 2, 1]);
    }

    #[test]
    fn advice_is_an_si_node_where_there_is_one() {
        assert_eq!(advice(0, DIMENSIONS)[..2], [3, 7]);
        assert_eq!(advice(0, 5)[0], 3);
        // A subcube without SI nodes: the best is still one with four routings out or in.
        let best = advice(512 + 32, 5)[0];
        let routings = (
            split(best, Direction::Out).len(),
            split(best, Direction::In).len(),
        );
        assert_eq!(routings, (4, 1));
    }
}
