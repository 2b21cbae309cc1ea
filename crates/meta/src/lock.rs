//! Byte-range locks: who holds what, as pure code. Deadlines are the waiters' business: a lock
//! that cannot be had now is refused now, and the client asks again until its own deadline.

use std::collections::HashMap;
use trireme_proto::message::meta::LockRange;

/// Most locks on one inode: bounds the cost of one request.
pub const LOCKS_PER_INODE: usize = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    client: u64,
    range: LockRange,
}

impl Held {
    fn same_owner(&self, client: u64, range: &LockRange) -> bool {
        self.client == client && self.range.owner == range.owner && self.range.flock == range.flock
    }

    fn in_the_way(&self, client: u64, range: &LockRange) -> bool {
        self.range.flock == range.flock
            && !self.same_owner(client, range)
            && self.range.start < range.end
            && range.start < self.range.end
            && (self.range.exclusive || range.exclusive)
    }
}

/// All locks.
#[derive(Default)]
pub struct Locks {
    by_inode: HashMap<u64, Vec<Held>>,
}

impl Locks {
    /// The first lock of somebody else that is in the way.
    pub fn conflict(&self, client: u64, range: &LockRange) -> Option<LockRange> {
        let held = self.by_inode.get(&range.inode)?;
        held.iter()
            .filter(|held| held.in_the_way(client, range))
            .map(|held| held.range)
            .min_by_key(|range| range.start)
    }

    /// The client and owner of a lock that is in the way.
    pub fn holder(&self, client: u64, range: &LockRange) -> Option<(u64, u64)> {
        let held = self.by_inode.get(&range.inode)?;
        held.iter()
            .find(|held| held.in_the_way(client, range))
            .map(|held| (held.client, held.range.owner))
    }

    /// Takes a lock: replaces what the same owner holds in the range, and joins neighbours.
    pub fn lock(&mut self, client: u64, range: LockRange) -> Result<(), Option<LockRange>> {
        if let Some(conflict) = self.conflict(client, &range) {
            return Err(Some(conflict));
        }
        if self
            .by_inode
            .get(&range.inode)
            .is_some_and(|held| held.len() >= LOCKS_PER_INODE)
        {
            return Err(None);
        }
        self.carve(client, &range);
        let held = self.by_inode.entry(range.inode).or_default();
        let mut joined = range;
        held.retain(|old| {
            let touches = old.same_owner(client, &range)
                && old.range.exclusive == range.exclusive
                && (old.range.end == joined.start || joined.end == old.range.start);
            if touches {
                joined.start = joined.start.min(old.range.start);
                joined.end = joined.end.max(old.range.end);
            }
            !touches
        });
        held.push(Held {
            client,
            range: joined,
        });
        Ok(())
    }

    /// Gives a range back.
    pub fn unlock(&mut self, client: u64, range: &LockRange) {
        self.carve(client, range);
    }

    /// Cuts a range out of what an owner holds.
    fn carve(&mut self, client: u64, range: &LockRange) {
        let Some(held) = self.by_inode.get_mut(&range.inode) else {
            return;
        };
        let mut rest = Vec::new();
        held.retain(|old| {
            let hit = old.same_owner(client, range)
                && old.range.start < range.end
                && range.start < old.range.end;
            if hit {
                for (start, end) in [(old.range.start, range.start), (range.end, old.range.end)] {
                    if start < end && start >= old.range.start && end <= old.range.end {
                        rest.push(Held {
                            client,
                            range: LockRange {
                                start,
                                end,
                                ..old.range
                            },
                        });
                    }
                }
            }
            !hit
        });
        held.append(&mut rest);
        if held.is_empty() {
            self.by_inode.remove(&range.inode);
        }
    }

    /// A client is gone: all its locks are free.
    pub fn forget(&mut self, client: u64) {
        self.by_inode.retain(|_, held| {
            held.retain(|held| held.client != client);
            !held.is_empty()
        });
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.by_inode.values().map(Vec::len).sum()
    }

    /// Nobody holds any.
    pub fn is_empty(&self) -> bool {
        self.by_inode.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACE: u64 = 24;

    fn range(owner: u64, start: u64, length: u64, exclusive: bool) -> LockRange {
        let end = (start + length).min(SPACE);
        LockRange {
            inode: 7,
            owner,
            flock: false,
            start,
            end,
            exclusive,
            pid: 0,
        }
    }

    proptest! {
        // The model: for each byte, who holds it and how.
        #[test]
        fn locks_agree_with_a_table_of_bytes(
            steps in prop::collection::vec((0..3u64, 0..2u64, 0..SPACE, 1..SPACE, 0..4u8), 1..60),
        ) {
            let mut locks = Locks::default();
            let mut model: HashMap<(u64, u64), Vec<u8>> = HashMap::new();
            for (client, owner, start, length, what) in steps {
                let range = range(owner, start, length, what == 1);
                let bytes = range.start as usize..range.end as usize;
                match what {
                    0 | 1 => {
                    let free = model.iter().all(|(who, table)| {
                        *who == (client, owner)
                            || table[bytes.clone()].iter().all(|held| {
                                *held == 0 || (*held == 1 && !range.exclusive)
                            })
                    });
                    prop_assert_eq!(locks.lock(client, range).is_ok(), free);
                    if free {
                        let table = model.entry((client, owner)).or_insert(vec![0; SPACE as usize]);
                        table[bytes].fill(1 + u8::from(range.exclusive));
                    }
                    }
                    2 => {
                    locks.unlock(client, &range);
                    if let Some(table) = model.get_mut(&(client, owner)) {
                        table[bytes].fill(0);
                    }
                    }
                    _ => {
                    locks.forget(client);
                    model.retain(|who, _| who.0 != client);
                    }
                }
            }
            if model.values().all(|table| table.iter().all(|held| *held == 0)) {
                prop_assert!(locks.is_empty());
            }
        }
    }

    #[test]
    fn who_asks_is_told_of_the_first_lock_in_the_way() {
        let mut locks = Locks::default();
        let (second, first) = (range(1, 6, 2, true), range(2, 1, 2, false));
        locks.lock(1, second).unwrap();
        locks.lock(1, first).unwrap();
        assert_eq!(locks.conflict(2, &range(1, 0, SPACE, true)), Some(first));
        assert_eq!(locks.conflict(2, &range(1, 0, SPACE, false)), Some(second));
    }

    #[test]
    fn flock_and_fcntl_do_not_meet() {
        let mut locks = Locks::default();
        let fcntl = range(1, 0, SPACE, true);
        assert!(locks.lock(1, fcntl).is_ok());
        assert!(
            locks
                .lock(
                    2,
                    LockRange {
                        flock: true,
                        ..fcntl
                    }
                )
                .is_ok()
        );
        assert_eq!(locks.lock(2, fcntl), Err(Some(fcntl)));
    }
}
