//! A server's blocks of a collective: (its part of the layout ∩ the union of the views), cut to
//! what one of its buffers holds.

use std::ops::Range;
use trireme_partition::{Part, Run};

/// Most file ranges in one block: a layout of tiny units makes smaller blocks instead of long lists.
const RANGES: usize = 512;

/// A block of a server's subfile, from the first range to the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where it is in the subfile.
    pub subfile: Range<u64>,
    /// The file ranges that it holds and that some member owns bytes of; `view` is the offset in the
    /// subfile.
    pub ranges: Vec<Run>,
}

/// All blocks of which members own something, in the order of the subfile.
///
/// Blocks lie at multiples of their size in the subfile, so that two collectives side by side cut
/// alike. Costs nothing for what nobody owns.
#[derive(Clone, Debug)]
pub struct Blocks<'a> {
    layout: &'a Part,
    members: Vec<&'a Part>,
    bytes: u64,
    at: u64,
    end: u64,
    /// Where it goes on after the end.
    then: Option<Range<u64>>,
}

impl<'a> Blocks<'a> {
    /// The blocks of at most `bytes` bytes of the subfile `layout`.
    pub fn new(layout: &'a Part, members: Vec<&'a Part>, bytes: u64) -> Self {
        Self {
            layout,
            members,
            bytes: bytes.max(1),
            at: 0,
            end: u64::MAX >> 1,
            then: None,
        }
    }

    /// Starts the `server`-th of `servers` parts of the way through and comes round to the rest: when
    /// all servers of a file do so they turn to different members at a time, as the schedule `hash` has
    /// it, instead of all to the one whose bytes come first.
    pub fn starting_at(mut self, server: u32, servers: u32) -> Self {
        let spans = self.members.iter().map(|part| part.file_span());
        let end = spans.map(|span| span.end).max().unwrap_or(0);
        let start = self.members.iter().filter_map(|part| part.next_owned(0));
        let start = start.min().unwrap_or(0);
        let subfile = self.layout.view_range(start..end);
        let length = subfile.end - subfile.start;
        let skip = u128::from(length) * u128::from(server) / u128::from(servers.max(1));
        let first = (subfile.start + skip as u64) / self.bytes * self.bytes;
        if first > subfile.start
            && let Some(file) = self.layout.to_file(first)
        {
            self.at = file;
            self.then = Some(0..file);
        }
        self
    }

    /// The next file range of the layout that somebody owns bytes of, cut at block boundaries.
    fn range(&self, from: u64) -> Option<Run> {
        let mut at = from;
        loop {
            at = self
                .members
                .iter()
                .filter_map(|part| part.next_owned(at))
                .min()?;
            let run = self.layout.runs(at.min(self.end)..self.end).next()?;
            let room = self.bytes - run.view % self.bytes;
            let run = Run {
                len: run.len.min(room),
                ..run
            };
            let file = run.file..run.file + run.len;
            if self
                .members
                .iter()
                .any(|part| part.bytes_in(file.clone()) > 0)
            {
                return Some(run);
            }
            at = file.end;
        }
    }
}

impl Iterator for Blocks<'_> {
    type Item = Block;

    fn next(&mut self) -> Option<Block> {
        let first = loop {
            if let Some(first) = self.range(self.at) {
                break first;
            }
            let rest = self.then.take()?;
            (self.at, self.end) = (rest.start, rest.end);
        };
        let number = first.view / self.bytes;
        let mut ranges = vec![first];
        self.at = first.file + first.len;
        let mut end = first.view + first.len;
        while ranges.len() < RANGES {
            match self.range(self.at) {
                Some(run) if run.view / self.bytes == number && run.view >= end => {
                    ranges.push(run);
                    self.at = run.file + run.len;
                    end = run.view + run.len;
                }
                _ => break,
            }
        }
        Some(Block {
            subfile: first.view..end,
            ranges,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use trireme_partition::{Extent, Partition};

    fn member() -> impl Strategy<Value = Part> {
        prop::collection::vec((0u64..40, 1u64..30), 0..8).prop_map(|gaps| {
            let mut at = 0;
            let extents: Vec<Extent> = gaps
                .into_iter()
                .map(|(gap, len)| {
                    let offset = at + gap;
                    at = offset + len;
                    Extent { offset, len }
                })
                .collect();
            Part::from_extents(&extents).unwrap()
        })
    }

    proptest! {
        #[test]
        fn every_owned_byte_is_in_one_block_of_its_server(
            parts in prop::collection::vec(member(), 1..4),
            unit in 1u64..20, servers in 1u32..4, first in 0u32..4, bytes in 1u64..50,
        ) {
            let layout = Partition::striped(unit, servers, first % servers).unwrap();
            let mut seen = vec![0; 1000];
            for server in 0..servers {
                let layout = layout.part(server).unwrap();
                let mut end = 0;
                for block in Blocks::new(&layout, parts.iter().collect(), bytes) {
                    prop_assert!(block.subfile.start >= end, "in order, apart");
                    end = block.subfile.end;
                    prop_assert_eq!(block.subfile.start / bytes, (end - 1) / bytes);
                    prop_assert_eq!(block.ranges[0].view, block.subfile.start);
                    for run in &block.ranges {
                        prop_assert!(run.view + run.len <= end);
                        for byte in run.file..run.file + run.len {
                            prop_assert_eq!(layout.to_view(byte), Some(run.view + byte - run.file));
                            seen[byte as usize] += 1;
                        }
                        let owned = parts.iter().map(|p| p.bytes_in(run.file..run.file + run.len));
                        prop_assert!(owned.sum::<u64>() > 0);
                    }
                }
            }
            for byte in 0..1000u64 {
                let owned = parts.iter().any(|part| part.to_view(byte).is_some());
                prop_assert!(seen[byte as usize] <= 1);
                prop_assert!(!owned || seen[byte as usize] == 1, "byte {} is owned", byte);
            }
        }
    }

    proptest! {
        #[test]
        fn starting_elsewhere_leaves_nothing_out_and_does_nothing_twice(
            parts in prop::collection::vec(member(), 1..4),
            unit in 1u64..20, servers in 1u32..4, bytes in 1u64..50, start in 0u32..3,
        ) {
            let layout = Partition::striped(unit, servers, 0).unwrap();
            for server in 0..servers {
                let layout = layout.part(server).unwrap();
                let blocks = Blocks::new(&layout, parts.iter().collect(), bytes);
                let owned = |blocks: Blocks<'_>| {
                    let mut bytes: Vec<u64> = blocks
                        .flat_map(|block| block.ranges)
                        .flat_map(|run| run.file..run.file + run.len)
                        .filter(|byte| parts.iter().any(|part| part.to_view(*byte).is_some()))
                        .collect();
                    bytes.sort_unstable();
                    bytes
                };
                let turned = blocks.clone().starting_at(start, 3);
                prop_assert_eq!(owned(turned), owned(blocks));
            }
        }
    }

    #[test]
    fn what_nobody_owns_costs_nothing() {
        // Two bytes, an exabyte apart.
        let part = Part::from_extents(&[
            Extent { offset: 0, len: 1 },
            Extent {
                offset: 1 << 60,
                len: 1,
            },
        ])
        .unwrap();
        let layout = Partition::striped(64 << 10, 4, 0).unwrap().part(0).unwrap();
        assert_eq!(Blocks::new(&layout, vec![&part], 1 << 20).count(), 2);
    }
}
