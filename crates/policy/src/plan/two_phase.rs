//! Two-phase: members move whole blocks in a conforming distribution, and exchange the rest.

use super::directed::{Share, shares};
use super::independent::Request;
use std::ops::Range;
use trireme_partition::Part;

/// How whole blocks are dealt to members in the I/O phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conforming {
    /// Each member moves one large range of consecutive blocks.
    Block,
    /// Blocks go round the members.
    Cyclic,
}

impl Conforming {
    /// The member that moves `block` of a file of `blocks`.
    pub fn owner(self, block: u64, blocks: u64, members: u32) -> u32 {
        match self {
            Conforming::Block => (block / blocks.div_ceil(u64::from(members)).max(1)) as u32,
            Conforming::Cyclic => (block % u64::from(members)) as u32,
        }
    }

    /// A member's requests in the I/O phase: whole blocks, consecutive ones in one call.
    pub fn requests(
        self,
        member: u32,
        members: u32,
        blocks: u64,
        block_bytes: u32,
    ) -> Vec<Request> {
        let mine = |block: &u64| self.owner(*block, blocks, members) == member;
        (0..blocks)
            .filter(mine)
            .map(|block| {
                let last = block + 1 >= blocks || !mine(&(block + 1));
                Request {
                    block,
                    bytes: block_bytes,
                    last,
                }
            })
            .collect()
    }
}

/// The contiguous range of the file that a member moves in the I/O phase, when all of them together
/// move `span`: equal shares, cut at multiples of `align`, so that no two members share a stripe unit.
pub fn domain(span: Range<u64>, member: u32, members: u32, align: u64) -> Range<u64> {
    let align = align.max(1);
    let first = span.start / align;
    let units = span.end.div_ceil(align).saturating_sub(first);
    let each = units.div_ceil(u64::from(members.max(1))).max(1);
    let cut = |member: u64| {
        let unit = first.saturating_add(each.saturating_mul(member));
        unit.saturating_mul(align).clamp(span.start, span.end)
    };
    cut(member.into())..cut(u64::from(member) + 1)
}

/// What one member passes to another between the phases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exchange {
    /// Bytes in total.
    pub bytes: u64,
    /// Contiguous pieces of the file they are made of.
    pub pieces: u64,
}

/// The exchange matrix, `[conforming owner][final owner]`.
pub fn exchange(
    parts: &[Part],
    conforming: Conforming,
    block_bytes: u64,
    file_bytes: u64,
) -> Vec<Vec<Exchange>> {
    let members = parts.len();
    let blocks = file_bytes.div_ceil(block_bytes);
    let mut matrix = vec![vec![Exchange::default(); members]; members];
    for block in 0..blocks {
        let owner = conforming.owner(block, blocks, members as u32) as usize;
        let range = block * block_bytes..((block + 1) * block_bytes).min(file_bytes);
        for Share {
            member,
            pieces,
            bytes,
        } in shares(parts, range)
        {
            let cell = &mut matrix[owner][member as usize];
            cell.bytes += u64::from(bytes);
            cell.pieces += u64::from(pieces);
        }
    }
    matrix
}
