//! Sub-arrays: regular selections of an array (hyperslabs), and the inside of a ghosted buffer.

use crate::array::{Order, Spans, check_lengths, nest};
use crate::datatype::Item;
use crate::raw::Raw;
use crate::{Error, Part};

/// A regular selection of an array's elements: in each dimension `count` blocks of `block` elements,
/// `stride` elements apart, from `start` on, as HDF5 defines hyperslabs.
///
/// ```
/// use trireme_partition::{Hyperslab, Part};
/// // The inside of a 10 x 10 buffer of doubles that has one ghost cell on every side.
/// let inside = Part::hyperslab(&Hyperslab::interior(&[10, 10], &[1, 1], 8))?;
/// assert_eq!(inside.size(), 8 * 8 * 8);
/// assert_eq!(inside.to_file(0), Some((10 + 1) * 8));
/// # Ok::<(), trireme_partition::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperslab {
    /// Extent of each dimension of the whole array, in records.
    pub shape: Vec<u64>,
    /// Bytes in a record.
    pub record: u64,
    /// First selected index of each dimension.
    pub start: Vec<u64>,
    /// Distance from block to block in each dimension.
    pub stride: Vec<u64>,
    /// Number of blocks in each dimension.
    pub count: Vec<u64>,
    /// Elements in each block in each dimension.
    pub block: Vec<u64>,
    /// Order of the elements in the file.
    pub order: Order,
}

impl Hyperslab {
    /// One contiguous box: `sizes` elements from `starts` on.
    pub fn block(shape: &[u64], starts: &[u64], sizes: &[u64], record: u64) -> Self {
        Self {
            shape: shape.to_vec(),
            record,
            start: starts.to_vec(),
            stride: sizes.iter().map(|&n| n.max(1)).collect(),
            count: vec![1; sizes.len()],
            block: sizes.to_vec(),
            order: Order::RowMajor,
        }
    }

    /// The box inside `ghost` cells on every side of an array.
    pub fn interior(shape: &[u64], ghost: &[u64], record: u64) -> Self {
        let inside = |(&n, &g): (&u64, &u64)| n.saturating_sub(g.saturating_mul(2));
        let sizes: Vec<u64> = shape.iter().zip(ghost).map(inside).collect();
        Self::block(shape, ghost, &sizes, record)
    }

    /// The same selection in another element order.
    pub fn in_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    fn check(&self) -> Result<(), Error> {
        let rank = self.shape.len();
        check_lengths(
            rank,
            &[
                ("the start's length", self.start.len()),
                ("the stride's length", self.stride.len()),
                ("the count's length", self.count.len()),
                ("the block's length", self.block.len()),
            ],
        )?;
        if self.record == 0 {
            return Err(Error::invalid(
                "the record",
                0,
                "an element has at least one byte",
            ));
        }
        for d in 0..rank {
            let (count, block, stride) = (self.count[d], self.block[d], self.stride[d]);
            if count == 0 || block == 0 {
                continue;
            }
            if count > 1 && stride < block {
                return Err(Error::Mismatch {
                    what: "a stride",
                    value: stride,
                    with: "its block",
                    other: block,
                    why: "blocks would overlap",
                });
            }
            let end = (count - 1)
                .checked_mul(if count > 1 { stride } else { 0 })
                .and_then(|n| n.checked_add(block))
                .and_then(|n| n.checked_add(self.start[d]));
            if end.is_none_or(|end| end > self.shape[d]) {
                return Err(Error::Mismatch {
                    what: "the selection's end",
                    value: end.unwrap_or(u64::MAX),
                    with: "the extent",
                    other: self.shape[d],
                    why: "a selection lies inside its array",
                });
            }
        }
        Ok(())
    }

    pub(crate) fn raw(&self, item: &Item) -> Result<(Raw, u64), Error> {
        self.check()?;
        nest(&self.shape, self.order, item, |d| {
            vec![Spans {
                start: self.start[d],
                count: self.count[d],
                block: self.block[d],
                stride: self.stride[d],
            }]
        })
    }
}

impl Part {
    /// The bytes of a [`Hyperslab`], for an array that starts at file offset 0.
    pub fn hyperslab(slab: &Hyperslab) -> Result<Self, Error> {
        let (raw, _) = slab.raw(&Item::record(slab.record))?;
        Self::from_raw(0, &raw)
    }
}
