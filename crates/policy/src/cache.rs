//! The block cache of a traditional I/O server: least recently used out, one block ahead in,
//! full blocks out behind the writer.
//!
//! The cache decides which buffer holds which block and in what state; it holds no data and
//! starts no transfer. Whoever drives it reports when transfers are finished.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Index of a buffer.
pub type Slot = u32;

/// What a buffer is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Holds nothing.
    Free,
    /// A read into it is under way.
    Filling,
    /// Equal to the disk: may be taken for another block.
    Clean,
    /// Partly written by members; not yet on its way to the disk.
    Dirty,
    /// A write from it is under way.
    Flushing,
}

/// What [`BlockCache::claim`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// This buffer is now the block's.
    Buffer(Slot),
    /// Every buffer is busy; wait until one becomes clean.
    Wait,
    /// Every buffer is partly written: flush this one first, then try again.
    Flush(Slot),
}

/// Which buffer holds which block.
#[derive(Clone, Debug)]
pub struct BlockCache {
    buffers: Vec<Buffer>,
    index: HashMap<u64, Slot, BuildHasherDefault<Mixer>>,
    block_bytes: u32,
    uses: u64,
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    block: u64,
    state: State,
    written: u32,
    used: u64,
}

impl BlockCache {
    /// An empty cache of `buffers` buffers.
    pub fn new(buffers: usize, block_bytes: u32) -> BlockCache {
        let empty = Buffer {
            block: 0,
            state: State::Free,
            written: 0,
            used: 0,
        };
        BlockCache {
            buffers: vec![empty; buffers],
            index: HashMap::with_capacity_and_hasher(buffers * 2, BuildHasherDefault::default()),
            block_bytes,
            uses: 0,
        }
    }

    /// Looks for a block and, if it is there, makes it the most recently used one.
    pub fn look(&mut self, block: u64) -> Option<(Slot, State)> {
        let slot = *self.index.get(&block)?;
        self.uses += 1;
        let buffer = &mut self.buffers[slot as usize];
        buffer.used = self.uses;
        Some((slot, buffer.state))
    }

    /// Whether the block has a buffer, in any state.
    pub fn holds(&self, block: u64) -> bool {
        self.index.contains_key(&block)
    }

    /// Finds a buffer for a block that has none: a free one, else the clean one used longest ago.
    pub fn claim(&mut self, block: u64, state: State) -> Claim {
        let by_use = |state: State| {
            let all = self.buffers.iter().enumerate();
            all.filter(move |(_, b)| b.state == state)
                .min_by_key(|(_, b)| b.used)
        };
        let found = by_use(State::Free)
            .or_else(|| by_use(State::Clean))
            .map(|(slot, _)| slot);
        let Some(slot) = found else {
            let moving = |b: &Buffer| matches!(b.state, State::Filling | State::Flushing);
            return match by_use(State::Dirty) {
                Some((slot, _)) if !self.buffers.iter().any(moving) => Claim::Flush(slot as Slot),
                _ => Claim::Wait,
            };
        };
        if self.buffers[slot].state == State::Clean {
            self.index.remove(&self.buffers[slot].block);
        }
        self.uses += 1;
        self.buffers[slot] = Buffer {
            block,
            state,
            written: 0,
            used: self.uses,
        };
        self.index.insert(block, slot as Slot);
        Claim::Buffer(slot as Slot)
    }

    /// `bytes` were written into a buffer; true when the block is complete and should go to disk
    /// (write-behind).
    pub fn written(&mut self, slot: Slot, bytes: u32) -> bool {
        let buffer = &mut self.buffers[slot as usize];
        buffer.state = State::Dirty;
        buffer.written += bytes;
        buffer.written >= self.block_bytes
    }

    /// A write from the buffer to the disk starts.
    pub fn flushing(&mut self, slot: Slot) {
        self.buffers[slot as usize].state = State::Flushing;
    }

    /// The transfer between buffer and disk is finished: the buffer is clean.
    pub fn settled(&mut self, slot: Slot) {
        let buffer = &mut self.buffers[slot as usize];
        buffer.state = State::Clean;
        buffer.written = 0;
    }

    /// The block in a buffer.
    pub fn block(&self, slot: Slot) -> u64 {
        self.buffers[slot as usize].block
    }

    /// Buffers whose data must still go to the disk, such as at the end of an operation.
    pub fn dirty(&self) -> Vec<Slot> {
        let all = self.buffers.iter().enumerate();
        all.filter(|(_, b)| b.state == State::Dirty)
            .map(|(slot, _)| slot as Slot)
            .collect()
    }
}

/// One block ahead: the block that follows `block` on the same disk, if the file has it.
pub fn next_on_disk(block: u64, disks: u64, blocks: u64) -> Option<u64> {
    Some(block + disks).filter(|next| *next < blocks)
}

/// Block numbers are no adversary's choice: one multiplication mixes them well enough.
#[derive(Clone, Copy, Debug, Default)]
struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, x: u64) {
        self.0 = (self.0 ^ x)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(cache: &mut BlockCache, block: u64) -> Slot {
        let Claim::Buffer(slot) = cache.claim(block, State::Filling) else {
            panic!("{block}")
        };
        slot
    }

    #[test]
    fn the_least_recently_used_clean_block_leaves() {
        let mut cache = BlockCache::new(3, 8192);
        for block in 0..3 {
            let slot = fill(&mut cache, block);
            cache.settled(slot);
        }
        assert!(cache.look(0).is_some());
        fill(&mut cache, 7);
        assert!(cache.holds(0) && !cache.holds(1) && cache.holds(2));
    }

    #[test]
    fn buffers_in_transit_are_not_taken() {
        let mut cache = BlockCache::new(1, 8192);
        let slot = fill(&mut cache, 4);
        assert_eq!(cache.claim(5, State::Filling), Claim::Wait);
        assert_eq!(cache.look(4), Some((slot, State::Filling)));
        cache.settled(slot);
        assert_eq!(cache.claim(5, State::Filling), Claim::Buffer(slot));
    }

    #[test]
    fn a_block_goes_to_disk_when_all_its_bytes_are_written() {
        let mut cache = BlockCache::new(2, 100);
        let Claim::Buffer(slot) = cache.claim(9, State::Dirty) else {
            panic!()
        };
        assert!(!cache.written(slot, 60));
        assert_eq!(cache.dirty(), [slot]);
        assert!(cache.written(slot, 40));
        cache.flushing(slot);
        assert!(cache.dirty().is_empty());
        cache.settled(slot);
        assert_eq!(cache.look(9), Some((slot, State::Clean)));
    }

    #[test]
    fn when_all_buffers_are_partly_written_the_oldest_is_flushed() {
        let mut cache = BlockCache::new(2, 100);
        let Claim::Buffer(first) = cache.claim(1, State::Dirty) else {
            panic!()
        };
        let Claim::Buffer(_) = cache.claim(2, State::Dirty) else {
            panic!()
        };
        assert_eq!(cache.claim(3, State::Dirty), Claim::Flush(first));
    }

    #[test]
    fn prefetch_stays_on_the_disk_and_inside_the_file() {
        assert_eq!(next_on_disk(3, 16, 1280), Some(19));
        assert_eq!(next_on_disk(1270, 16, 1280), None);
    }
}
