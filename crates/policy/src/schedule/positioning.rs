//! D-SPTF, decentralised shortest positioning time first (Lumb, Golding, Ganger): a read goes to all
//! its replicas; whichever disk can reach it soonest claims it from the others and serves it.
//!
//! One [`Queue`] is one server's part of it. It knows block positions and the disk's head, not time:
//! the nearer block counts as the sooner reached. Ties between servers that claim the same request
//! at once go to the smaller positioning distance (our reading), then to the smaller server number.

use std::collections::BTreeSet;

/// The requests that one server could serve, by position on its disk.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    by_position: BTreeSet<(u64, u32)>,
    head: u64,
}

/// A request that a server takes, and how far its head travels for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The request's number.
    pub request: u32,
    /// Where it is on this server's disk.
    pub position: u64,
    /// Distance from the head.
    pub distance: u64,
}

impl Queue {
    /// A request has arrived that this server can serve from this position.
    pub fn insert(&mut self, request: u32, position: u64) {
        self.by_position.insert((position, request));
    }

    /// Another server has claimed the request. Says whether it was still here: if not, this server
    /// has claimed it too, and [`Claim::beats`] decides.
    pub fn withdraw(&mut self, request: u32, position: u64) -> bool {
        self.by_position.remove(&(position, request))
    }

    /// Claims the request that the head reaches soonest and moves the head there. The caller tells
    /// the other replicas before it serves.
    pub fn claim(&mut self) -> Option<Claim> {
        let above = self.by_position.range((self.head, 0)..).next();
        let below = self.by_position.range(..(self.head, 0)).next_back();
        let &(position, request) = [above, below]
            .into_iter()
            .flatten()
            .min_by_key(|(position, _)| position.abs_diff(self.head))?;
        self.by_position.remove(&(position, request));
        let distance = position.abs_diff(self.head);
        self.head = position;
        Some(Claim {
            request,
            position,
            distance,
        })
    }

    /// How many requests wait.
    pub fn len(&self) -> usize {
        self.by_position.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.by_position.is_empty()
    }
}

impl Claim {
    /// Whether this claim by server `own` wins against another's for the same request.
    pub fn beats(&self, own: u32, other: &Self, other_server: u32) -> bool {
        (self.distance, own) < (other.distance, other_server)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_nearest_is_claimed(positions in prop::collection::vec(0u64..1000, 1..40)) {
            let mut queue = Queue::default();
            for (request, &position) in positions.iter().enumerate() {
                queue.insert(request as u32, position);
            }
            let mut left = positions;
            let mut head = 0u64;
            while let Some(claim) = queue.claim() {
                let nearest = left.iter().map(|p| p.abs_diff(head)).min().unwrap();
                prop_assert_eq!(claim.distance, nearest);
                let at = left.iter().position(|&p| p == claim.position).unwrap();
                left.swap_remove(at);
                head = claim.position;
            }
            prop_assert!(left.is_empty());
        }
    }

    #[test]
    fn one_of_two_that_claim_at_once_serves() {
        let mut near = Queue::default();
        let mut far = Queue::default();
        near.insert(1, 10);
        far.insert(1, 900);
        let (a, b) = (near.claim().unwrap(), far.claim().unwrap());
        assert!(!near.withdraw(1, 10), "it is not waiting any more");
        assert!(a.beats(0, &b, 1) && !b.beats(1, &a, 0));
        assert!(near.is_empty() && far.is_empty());
    }
}
