//! Disk-directed: the servers choose the order of blocks, and move every member's share of each.

use std::ops::Range;
use trireme_partition::Part;

/// One block of a server's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The file block.
    pub block: u64,
    /// Where it lies on the server's disk, in any unit that grows with the distance.
    pub position: u64,
}

/// The order in which a server visits its blocks: as given, or sorted by position on the disk.
pub fn disk_directed(blocks: impl IntoIterator<Item = Step>, presort: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = blocks.into_iter().collect();
    if presort {
        // By block when positions tie, so that the plan does not depend on the order given.
        steps.sort_unstable_by_key(|step| (step.position, step.block));
    }
    steps
}

/// What one member owns of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The member's rank.
    pub member: u32,
    /// How many contiguous pieces of the file it is made of.
    pub pieces: u32,
    /// Their bytes together.
    pub bytes: u32,
}

/// The shares of all members in one block of the file, in the order of rank.
pub fn shares(parts: &[Part], block: Range<u64>) -> Vec<Share> {
    let mut shares = vec![];
    for (member, part) in parts.iter().enumerate() {
        let bytes = part.bytes_in(block.clone()) as u32;
        if bytes > 0 {
            let pieces = part.runs_in(block.clone()) as u32;
            shares.push(Share {
                member: member as u32,
                pieces,
                bytes,
            });
        }
    }
    shares
}
