//! Bodies of a disk-directed collective: one small request per member and server, however many pieces.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::group::Seat;
use crate::Refusal;

/// Body of `COLLECTIVE`; file and grant are in the header.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collective {
    /// Who.
    pub seat: Seat,
    /// The number of this collective, counted by each member.
    pub sequence: u64,
    /// Whether bytes go to the disks.
    pub write: bool,
    /// Which of the file's servers this one is, and of how many.
    pub server: (u32, u32),
    /// Encoded part of the layout that this server holds.
    pub layout: Vec<u8>,
    /// Encoded part of the file that is this member's, in file order.
    pub view: Vec<u8>,
    /// Where its bytes are; as many as the view has.
    pub memory: Memory,
    /// The member cannot take part, for this reason: nobody need wait for it.
    pub refused: Option<Refusal>,
}

/// Where a member's buffer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Memory {
    /// At this address of the member's process.
    Address(u64),
    /// At this place of the connection's shared window.
    Window(u64),
}

/// Reply to `COLLECTIVE`: what the server did and where its time went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    /// Bytes moved, of all members.
    pub bytes: u64,
    /// Pieces that they consisted of in the subfile.
    pub pieces: u64,
    /// Blocks.
    pub blocks: u64,
    /// Nanoseconds from the first member's request to the last one's.
    pub wait_ns: u64,
    /// Nanoseconds for working out the blocks and members' shares.
    pub plan_ns: u64,
    /// Nanoseconds in calls of the disk, summed over the threads.
    pub disk_ns: u64,
    /// Nanoseconds for moving bytes between buffers and members, summed over the threads.
    pub move_ns: u64,
    /// Nanoseconds from the last request to the end.
    pub total_ns: u64,
    /// Processor time of the threads, nanoseconds.
    pub cpu_ns: u64,
}

/// Encodes ranges of a member's buffer, the body of `MEMGET` and `MEMPUT`.
pub fn encode_ranges(ranges: &[Range<u64>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ranges.len() * 16);
    for range in ranges {
        bytes.extend_from_slice(&range.start.to_le_bytes());
        bytes.extend_from_slice(&range.end.to_le_bytes());
    }
    bytes
}

/// Decodes ranges; refused unless all of them lie inside `0..length`. Gives their total length too.
pub fn decode_ranges(bytes: &[u8], length: u64) -> Result<(Vec<Range<u64>>, u64), Refusal> {
    let (pairs, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(Refusal::protocol("ranges are pairs of numbers"));
    }
    let mut total = 0u64;
    let mut ranges = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let number = |at: usize| u64::from_le_bytes(pair[at..at + 8].try_into().expect("8 bytes"));
        let range = number(0)..number(8);
        if range.start > range.end || range.end > length {
            return Err(Refusal::protocol(format!(
                "range {range:?} is not inside the {length} bytes of the buffer"
            )));
        }
        total = total.saturating_add(range.end - range.start);
        ranges.push(range);
    }
    Ok((ranges, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_survive_and_bad_ones_are_refused() {
        let ranges = [0..5, 7..7, 90..100];
        let bytes = encode_ranges(&ranges);
        assert_eq!(decode_ranges(&bytes, 100), Ok((ranges.to_vec(), 15)));
        assert!(decode_ranges(&bytes, 99).is_err());
        assert!(decode_ranges(&bytes[..20], 100).is_err());
        let backwards = encode_ranges(&[Range { start: 9, end: 8 }]);
        assert!(decode_ranges(&backwards, 100).is_err());
    }
}
