//! Heuristics by bidding: UAR, MPASSES and distributed HDF (Durand, Jain, Tseytlin: "Parallel I/O
//! scheduling using randomized, distributed edge coloring algorithms").
//!
//! In each phase every client with work proposes one random request to its server, and each server
//! accepts one proposal. A rejected client may try again at other servers, `passes` times per phase.
//! Every proposal and every answer is a message.

use super::matching::{Plan, Requests, Taken};
use crate::random::Random;

/// Which of the proposals it received a server accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accept {
    /// Any, each as likely: UAR, and MPASSES when there are several passes.
    AtRandom,
    /// One of a client with the most requests left: distributed HDF.
    HighestDegree,
}

/// Plans by bidding. One pass at random is UAR, several are MPASSES(passes).
pub fn bidding(requests: &Requests, accept: Accept, passes: u32, random: &mut Random) -> Plan {
    let mut plan = Plan::new(requests.list().len());
    let mut taken = Taken::new(requests.clients(), requests.servers());
    // Each client's requests as (server, number).
    let mut pending: Vec<Vec<(u32, u32)>> = vec![Vec::new(); requests.clients() as usize];
    for (number, request) in requests.list().iter().enumerate() {
        pending[request.client as usize].push((request.server, number as u32));
    }
    let mut bids: Vec<Bid> = vec![Bid::default(); requests.servers() as usize];
    let mut bidders: Vec<u32> = (0..requests.clients()).collect();
    let mut called = Vec::new();
    while {
        bidders.retain(|&client| !pending[client as usize].is_empty());
        !bidders.is_empty()
    } {
        for pass in 0..passes.max(1) {
            let mut anyone = false;
            for &client in &bidders {
                if taken.client(client) {
                    continue;
                }
                let own = &mut pending[client as usize];
                let all_free = pass == 0;
                let Some(at) = propose(own, all_free, &taken, random) else {
                    continue;
                };
                anyone = true;
                plan.messages += 2;
                let server = own[at].0;
                let weight = match accept {
                    Accept::AtRandom => 0,
                    Accept::HighestDegree => own.len() as u32,
                };
                let bid = &mut bids[server as usize];
                if bid.count == 0 {
                    called.push(server);
                }
                bid.consider(client, at as u32, weight, random);
            }
            for server in called.drain(..) {
                let bid = std::mem::take(&mut bids[server as usize]);
                let (_, number) = pending[bid.client as usize].swap_remove(bid.at as usize);
                plan.phase[number as usize] = plan.length;
                taken.take(bid.client, server);
            }
            if !anyone || taken.full() {
                break;
            }
        }
        taken.next_phase();
        plan.length += 1;
    }
    plan
}

/// A random one of a client's requests whose server is still free in this phase. That clients know
/// which servers are free in a later pass is the published rule ("rejected clients and free
/// servers"); telling them so is not counted as messages.
fn propose(
    own: &[(u32, u32)],
    all_free: bool,
    taken: &Taken,
    random: &mut Random,
) -> Option<usize> {
    if all_free {
        return Some(random.index(own.len()));
    }
    let free = |&&(server, _): &&(u32, u32)| !taken.server(server);
    let choices = own.iter().filter(free).count();
    if choices == 0 {
        return None;
    }
    let mut chosen = random.index(choices);
    own.iter().position(|request| {
        let free = free(&request);
        let here = free && chosen == 0;
        chosen -= usize::from(free && !here);
        here
    })
}

/// The best proposal a server has seen in this pass.
#[derive(Debug, Clone, Copy, Default)]
struct Bid {
    client: u32,
    at: u32,
    weight: u32,
    /// Proposals of that weight so far, so that each of them is as likely to be the one kept.
    count: u32,
}

impl Bid {
    fn consider(&mut self, client: u32, at: u32, weight: u32, random: &mut Random) {
        if self.count > 0 && weight < self.weight {
            return;
        }
        let same = if self.count > 0 && weight == self.weight {
            self.count
        } else {
            0
        };
        if random.below(u64::from(same) + 1) == 0 {
            *self = Self {
                client,
                at,
                weight,
                count: same + 1,
            };
        } else {
            self.count = same + 1;
        }
    }
}
