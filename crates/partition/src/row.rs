//! The packing kernel's walk through a block: rows of owners, tile by tile.
//!
//! Owners that hold neighbouring records are moved together, a row of records at a time: one pass
//! over the block's lines serves them all. Called by `pack` only.

use crate::Part;
use crate::cursor::Batch;
use crate::walk::Batches;
use std::ops::Range;

/// Bytes of the block handled at a time where owners share cache lines. It must stay in the
/// second-level cache until the last owner's turn; smaller tiles spend their time walking: with 16
/// owners of 8-byte records 128 KiB measured 0.47 of memcpy, 64 KiB 0.44, 16 KiB 0.35, 512 KiB 0.42.
const TILE: u64 = 128 << 10;

/// The same where every owner's runs have cache lines of their own: a tile need not stay in the cache
/// for the next owner, so that it may be large; but owners with short runs do better close together.
const LONG_TILE: u64 = 256 << 10;

/// Rounds of the owners that a tile of long runs holds at least.
const LONG_ROUNDS: u64 = 16;

/// Runs of this many bytes and more count as long.
const LONG_RUN: u64 = 256;

/// Owners in a row.
pub(crate) const ROW: usize = 4;

/// Where every owner is in the block.
pub(crate) struct Walks<'a> {
    pub rows: Vec<Row<'a>>,
    tile: u64,
}

/// Up to [`ROW`] owners, and the batch that each took last.
pub(crate) struct Row<'a> {
    walks: Vec<Batches<'a>>,
    pub taken: [Option<Batch>; ROW],
}

impl<'a> Walks<'a> {
    pub fn new(parts: impl Iterator<Item = &'a Part>, range: &Range<u64>) -> Self {
        let walks: Vec<Batches<'a>> = parts.map(|part| part.batches(range.clone())).collect();
        let next = || walks.iter().filter_map(Batches::peek);
        // Alone in the block, an owner shares its lines with nobody either.
        let long = walks.len() == 1 || next().all(|batch| batch.len >= LONG_RUN);
        let round = next().map(|batch| batch.stride).max().unwrap_or(0);
        let tile = if long {
            LONG_TILE.max(round.saturating_mul(LONG_ROUNDS))
        } else {
            TILE
        };
        let mut walks = walks.into_iter().peekable();
        let mut rows = Vec::new();
        while walks.peek().is_some() {
            rows.push(Row {
                walks: walks.by_ref().take(ROW).collect(),
                taken: [None; ROW],
            });
        }
        Self { rows, tile }
    }

    /// The ends of the tiles of `range`.
    pub fn tiles(&self, range: Range<u64>) -> impl Iterator<Item = u64> + use<> {
        let (end, tile) = (range.end, self.tile);
        range
            .step_by(tile as usize)
            .map(move |start| end.min(start.saturating_add(tile)))
    }
}

impl Row<'_> {
    /// Takes each owner's next batch before `end`; false if nobody has one.
    pub fn advance(&mut self, end: u64) -> bool {
        let mut any = false;
        for (taken, walk) in self.taken.iter_mut().zip(&mut self.walks) {
            *taken = walk.take_before(end);
            any |= taken.is_some();
        }
        any
    }

    /// The first batch, if the others are neighbouring records of the same shape.
    pub fn alike(&self) -> Option<Batch> {
        let first = self.taken[0]?;
        if !matches!(first.len, 4 | 8 | 16)
            || first.count < 2
            || first.step != first.len as i64
            || first.stride < first.len * ROW as u64
        {
            return None;
        }
        let neighbours = self.taken.iter().enumerate().all(|(i, batch)| {
            let file = first.file + i as u64 * first.len;
            batch.is_some_and(|b| {
                b == Batch {
                    file,
                    view: b.view,
                    ..first
                }
            })
        });
        neighbours.then_some(first)
    }

    /// Where the taken batches start in buffers that start at these view offsets.
    pub fn starts(&self, views: [u64; ROW]) -> [usize; ROW] {
        std::array::from_fn(|i| self.taken[i].map_or(0, |batch| (batch.view - views[i]) as usize))
    }
}

/// From a block that starts with the first row to four buffers, at their starts.
pub(crate) fn deal_row(
    shape: &Batch,
    block: &[u8],
    buffers: [&mut [u8]; ROW],
    starts: [usize; ROW],
) {
    let (stride, count) = (shape.stride as usize, shape.count as usize);
    match shape.len {
        4 => deal::<4>(block, stride, count, buffers, starts),
        8 => deal::<8>(block, stride, count, buffers, starts),
        _ => deal::<16>(block, stride, count, buffers, starts),
    }
}

/// From four buffers, at their starts, to a block that starts with the first row.
pub(crate) fn collect_row(
    shape: &Batch,
    block: &mut [u8],
    buffers: [&[u8]; ROW],
    starts: [usize; ROW],
) {
    let (stride, count) = (shape.stride as usize, shape.count as usize);
    match shape.len {
        4 => collect::<4>(block, stride, count, buffers, starts),
        8 => collect::<8>(block, stride, count, buffers, starts),
        _ => collect::<16>(block, stride, count, buffers, starts),
    }
}

fn deal<const N: usize>(
    block: &[u8],
    stride: usize,
    count: usize,
    buffers: [&mut [u8]; ROW],
    starts: [usize; ROW],
) {
    let [a, b, c, d] = buffers;
    let a = a[starts[0]..][..count * N].as_chunks_mut::<N>().0;
    let b = b[starts[1]..][..count * N].as_chunks_mut::<N>().0;
    let c = c[starts[2]..][..count * N].as_chunks_mut::<N>().0;
    let d = d[starts[3]..][..count * N].as_chunks_mut::<N>().0;
    // The last row has no whole stride after it; without it every chunk is exact and the
    // comparisons leave the loop.
    let end = (count - 1) * stride;
    let targets = a
        .iter_mut()
        .zip(b.iter_mut())
        .zip(c.iter_mut().zip(d.iter_mut()));
    for (row, ((a, b), (c, d))) in block[..end].chunks_exact(stride).zip(targets) {
        let records = row[..ROW * N].as_chunks::<N>().0;
        (*a, *b, *c, *d) = (records[0], records[1], records[2], records[3]);
    }
    let last = block[end..end + ROW * N].as_chunks::<N>().0;
    for (target, record) in [a, b, c, d].into_iter().zip(last) {
        target[count - 1] = *record;
    }
}

fn collect<const N: usize>(
    block: &mut [u8],
    stride: usize,
    count: usize,
    buffers: [&[u8]; ROW],
    starts: [usize; ROW],
) {
    let sources: [&[[u8; N]]; ROW] =
        std::array::from_fn(|i| buffers[i][starts[i]..][..count * N].as_chunks::<N>().0);
    let [a, b, c, d] = sources;
    let end = (count - 1) * stride;
    let rows = a.iter().zip(b).zip(c.iter().zip(d));
    for (row, ((a, b), (c, d))) in block[..end].chunks_exact_mut(stride).zip(rows) {
        let records = row[..ROW * N].as_chunks_mut::<N>().0;
        (records[0], records[1], records[2], records[3]) = (*a, *b, *c, *d);
    }
    let last = block[end..end + ROW * N].as_chunks_mut::<N>().0;
    for (record, source) in last.iter_mut().zip(sources) {
        *record = source[count - 1];
    }
}
