//! The servers that could take a block now, in the order a schedule wants them.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::random::Random;
use crate::schedule::Schedule;

/// A set of servers with one operation that matters: take the one whose turn it is.
#[derive(Debug, Clone)]
pub(super) enum Ready {
    /// By the file position of each server's next block.
    First(BinaryHeap<Reverse<(u64, u32)>>),
    /// Any: `servers` holds the set densely, `place` where in it each server is.
    Random {
        servers: Vec<u32>,
        place: Vec<u32>,
        random: Random,
    },
    /// Going round from the last one taken: one bit per server.
    Hash {
        bits: Vec<u64>,
        count: u32,
        cursor: u32,
        servers: u32,
    },
}

const ABSENT: u32 = u32::MAX;

impl Ready {
    pub(super) fn new(schedule: Schedule, servers: u32, own: u32, seed: u64) -> Self {
        let n = servers as usize;
        match schedule {
            Schedule::First => Self::First(BinaryHeap::with_capacity(n)),
            Schedule::Random => Self::Random {
                servers: Vec::with_capacity(n),
                place: vec![ABSENT; n],
                random: Random::for_component(seed, u64::from(own)),
            },
            Schedule::Hash => Self::Hash {
                bits: vec![0; n.div_ceil(64)],
                count: 0,
                cursor: own % servers.max(1),
                servers,
            },
        }
    }

    /// Adds a server that is not in the set.
    pub(super) fn insert(&mut self, server: u32, position: impl FnOnce() -> u64) {
        match self {
            Self::First(heap) => heap.push(Reverse((position(), server))),
            Self::Random { servers, place, .. } => {
                place[server as usize] = servers.len() as u32;
                servers.push(server);
            }
            Self::Hash { bits, count, .. } => {
                bits[server as usize / 64] |= 1 << (server % 64);
                *count += 1;
            }
        }
    }

    /// Takes the server whose turn it is out of the set.
    pub(super) fn take(&mut self) -> Option<u32> {
        match self {
            Self::First(heap) => heap.pop().map(|Reverse((_, server))| server),
            Self::Random {
                servers,
                place,
                random,
            } => {
                if servers.is_empty() {
                    return None;
                }
                let at = random.index(servers.len());
                Some(take_at(servers, place, at))
            }
            Self::Hash {
                bits,
                count,
                cursor,
                servers,
            } => {
                if *count == 0 {
                    return None;
                }
                let server = next_set(bits, *cursor);
                bits[server as usize / 64] &= !(1 << (server % 64));
                *count -= 1;
                *cursor = if server + 1 == *servers {
                    0
                } else {
                    server + 1
                };
                Some(server)
            }
        }
    }

    /// Takes this server out of the set, if it is in it.
    pub(super) fn remove(&mut self, server: u32) {
        match self {
            Self::First(heap) => heap.retain(|Reverse((_, other))| *other != server),
            Self::Random { servers, place, .. } => {
                let at = place[server as usize];
                if at != ABSENT {
                    take_at(servers, place, at as usize);
                }
            }
            Self::Hash { bits, count, .. } => {
                let bit = 1 << (server % 64);
                if bits[server as usize / 64] & bit != 0 {
                    bits[server as usize / 64] &= !bit;
                    *count -= 1;
                }
            }
        }
    }
}

fn take_at(servers: &mut Vec<u32>, place: &mut [u32], at: usize) -> u32 {
    let server = servers.swap_remove(at);
    place[server as usize] = ABSENT;
    if let Some(&moved) = servers.get(at) {
        place[moved as usize] = at as u32;
    }
    server
}

/// The first set bit at or after `cursor`, going round; at least one is set.
fn next_set(bits: &[u64], cursor: u32) -> u32 {
    let start = cursor as usize / 64;
    let here = bits[start] & (u64::MAX << (cursor % 64));
    if here != 0 {
        return (start * 64) as u32 + here.trailing_zeros();
    }
    // The last look, at `start` again, finds what stands before the cursor in its own word.
    let word = (1..=bits.len())
        .map(|step| (start + step) % bits.len())
        .find(|&word| bits[word] != 0)
        .expect("the count says that a bit is set");
    (word * 64) as u32 + bits[word].trailing_zeros()
}
