//! One owner's bytes of a file: the type that both a server's share and a process's view are.

use crate::cursor::Cursor;
use crate::node::{LIMIT, Node};
use crate::raw::Raw;
use crate::walk::{Batches, Intersection, Runs};
use crate::{Error, MAX_FILE};
use std::ops::Range;

/// The bytes of a file that one owner has, as compact nested strided segments.
///
/// The owner's own bytes are numbered from 0 in *view order*: the order in which a process holds
/// them in its buffer, or in which a server stores them in its subfile. For most patterns that is
/// file order; [`Datatype`](crate::Datatype) can describe others.
///
/// Cloning is cheap: the segments are shared.
///
/// ```
/// use trireme_partition::{Extent, Part};
/// // Records of 8 bytes, every fourth one, from the second on: one process of an 8-byte CYCLIC.
/// let part = Part::strided(8, 8, 32, 1000)?;
/// assert_eq!(part.size(), 8000);
/// assert_eq!(part.to_file(8), Some(40));
/// assert_eq!(part.to_view(41), Some(9));
/// assert_eq!(part.to_view(16), None);
/// assert_eq!(part.bytes_in(0..64), 16);
/// # Ok::<(), trireme_partition::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where the first byte in file order lies, in the file and in the view.
    pub(crate) file: u64,
    pub(crate) view: u64,
    /// `None` owns nothing.
    pub(crate) node: Option<Node>,
    /// The same bytes in view order with file and view exchanged, and the file offset of view
    /// offset 0; only where view order is not file order.
    pub(crate) inverse: Option<(u64, Node)>,
}

/// A contiguous range of a file, for lists of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// File offset.
    pub offset: u64,
    /// Length in bytes; 0 is allowed and means nothing.
    pub len: u64,
}

impl Part {
    /// Owns nothing.
    pub fn empty() -> Self {
        Self {
            file: 0,
            view: 0,
            node: None,
            inverse: None,
        }
    }

    /// Owns `len` bytes from file offset `offset` on.
    pub fn contiguous(offset: u64, len: u64) -> Result<Self, Error> {
        Self::from_raw(offset, &Raw::Run(len))
    }

    /// Owns every byte from `offset` to the end of the largest file.
    pub fn everything_from(offset: u64) -> Result<Self, Error> {
        if offset >= MAX_FILE {
            return Err(Error::overflow("the displacement"));
        }
        Self::contiguous(offset, LIMIT - offset)
    }

    /// Owns `count` records of `record` bytes, `stride` bytes apart, from `offset` on.
    pub fn strided(offset: u64, record: u64, stride: u64, count: u64) -> Result<Self, Error> {
        let stride = i64::try_from(stride).map_err(|_| Error::overflow("the stride"))?;
        if stride == 0 && count > 1 {
            return Err(Error::invalid(
                "stride",
                0,
                "copies would lie on top of each other",
            ));
        }
        let view = i64::try_from(record).map_err(|_| Error::overflow("the record"))?;
        let child = Box::new(Raw::Run(record));
        Self::from_raw(
            offset,
            &Raw::Repeat {
                count,
                file: stride,
                view,
                child,
            },
        )
    }

    /// Owns these extents, in this view order; they may come in any file order but not overlap.
    ///
    /// What turns out regular is kept as strides. O(n log n).
    pub fn from_extents(extents: &[Extent]) -> Result<Self, Error> {
        let mut view = 0u64;
        let mut items = Vec::with_capacity(extents.len());
        for extent in extents {
            let file = i64::try_from(extent.offset).map_err(|_| Error::overflow("an offset"))?;
            if extent.len > LIMIT - view {
                return Err(Error::overflow("the extents' total length"));
            }
            items.push((file, view as i64, Raw::Run(extent.len)));
            view += extent.len;
        }
        Self::from_raw(0, &Raw::List(items))
    }

    /// A pattern placed with its origin at file offset `displacement`.
    pub(crate) fn from_raw(displacement: u64, raw: &Raw) -> Result<Self, Error> {
        let Some((file, view, node)) = raw.order()? else {
            return Ok(Self::empty());
        };
        let at = (|| {
            let at = i64::try_from(displacement).ok()?.checked_add(file)?;
            at.checked_add_unsigned(node.span())?;
            Some(at)
        })()
        .ok_or(Error::overflow("the displacement and the pattern"))?;
        let at = u64::try_from(at).map_err(|_| {
            Error::invalid(
                "the pattern's first offset",
                at,
                "it lies before the file's start",
            )
        })?;
        let inverse = if node.summary().ordered && view == 0 {
            None
        } else {
            // From the canonical node, not from `raw`, so that decoding takes the very same way.
            let other = Raw::List(vec![(file, view, Raw::of(&node))])
                .swap()
                .order()?;
            let (view, file, node) =
                other.expect("the same bytes are not empty from the other side");
            let dense = node.summary();
            if view != 0 || dense.span != dense.size {
                return Err(Error::invalid(
                    "the view",
                    view,
                    "its bytes must be 0, 1, 2 ...",
                ));
            }
            Some(((displacement as i64 + file) as u64, node))
        };
        Ok(Self {
            file: at,
            view: view as u64,
            node: Some(node),
            inverse,
        })
    }

    /// Bytes owned in total. O(1).
    pub fn size(&self) -> u64 {
        self.node.as_ref().map_or(0, Node::size)
    }

    /// Whether it owns nothing at all. O(1).
    pub fn is_empty(&self) -> bool {
        self.node.is_none()
    }

    /// The file range from the first owned byte to the last; `0..0` if there is none. O(1).
    pub fn file_span(&self) -> Range<u64> {
        self.node
            .as_ref()
            .map_or(0..0, |node| self.file..self.file + node.span())
    }

    /// Whether view order is file order, so that a file range is one range of the buffer. O(1).
    pub fn is_ordered(&self) -> bool {
        self.inverse.is_none()
    }

    /// Bytes owned inside a file range. O(depth).
    pub fn bytes_in(&self, range: Range<u64>) -> u64 {
        let Some(node) = &self.node else { return 0 };
        let rank = |x: u64| node.rank(x.saturating_sub(self.file));
        rank(range.end).saturating_sub(rank(range.start))
    }

    /// Maximal contiguous runs that a file range touches. O(depth).
    pub fn runs_in(&self, range: Range<u64>) -> u64 {
        let Some(node) = &self.node else { return 0 };
        if range.start >= range.end || range.end <= self.file {
            return 0;
        }
        let (start, end) = (range.start.saturating_sub(self.file), range.end - self.file);
        if range.start <= self.file {
            return node.starts_before(end);
        }
        let cut = u64::from(node.view_of(start).is_some());
        node.starts_before(end) - node.starts_before(start + 1) + cut
    }

    /// The file offset of the owner's byte `view`. O(depth).
    pub fn to_file(&self, view: u64) -> Option<u64> {
        match (&self.inverse, &self.node) {
            (Some((file, node)), _) => Some(file.wrapping_add_signed(node.view_of(view)?)),
            (None, Some(node)) => Some(self.file + node.select(view)?),
            (None, None) => None,
        }
    }

    /// The owner's number for the byte at file offset `file`, if it owns it. O(depth).
    pub fn to_view(&self, file: u64) -> Option<u64> {
        let relative = file.checked_sub(self.file)?;
        Some(
            self.view
                .wrapping_add_signed(self.node.as_ref()?.view_of(relative)?),
        )
    }

    /// The range of the owner's own bytes that a file range touches; empty if it touches none.
    ///
    /// Where view order is file order these are exactly the bytes in the file range, so that a
    /// member's share of any block is one contiguous transfer. Otherwise it is the smallest range
    /// that holds them. O(depth), and O(touched entries) in irregular lists out of order.
    pub fn view_range(&self, range: Range<u64>) -> Range<u64> {
        let Some(node) = &self.node else { return 0..0 };
        let start = range.start.saturating_sub(self.file);
        let end = range.end.saturating_sub(self.file);
        if self.is_ordered() {
            let from = node.rank(start);
            return from..node.rank(end).max(from);
        }
        let at = |by: i64| self.view.wrapping_add_signed(by);
        node.view_bounds(start, end)
            .map_or(0..0, |(a, b)| at(a)..at(b))
    }

    /// The maximal runs inside a file range, in file order. O(1) memory, O(1) per run.
    pub fn runs(&self, range: Range<u64>) -> Runs<'_> {
        Runs::new(self.cursor(range.start), range.end)
    }

    /// The same bytes as strided batches of equal runs: fewer, larger steps. O(1) memory.
    pub fn batches(&self, range: Range<u64>) -> Batches<'_> {
        Batches::new(self.cursor(range.start), range.end)
    }

    /// The pieces of (this view ∩ a layout part ∩ a file range), in file order, merged where they
    /// touch on all sides. O(1) memory; O(1) per piece, O(depth) per gap jumped over.
    ///
    /// ```
    /// use trireme_partition::{Part, Partition, Piece};
    /// let view = Part::contiguous(100, 200)?;
    /// let server = Partition::striped(64, 2, 0)?.part(1)?;
    /// let pieces: Vec<Piece> = view.intersect(&server, 0..1 << 20).collect();
    /// assert_eq!(pieces, [
    ///     Piece { file: 100, view: 0, part: 36, len: 28 },
    ///     Piece { file: 192, view: 92, part: 64, len: 64 },
    /// ]);
    /// # Ok::<(), trireme_partition::Error>(())
    /// ```
    pub fn intersect<'a>(&'a self, layout: &'a Self, range: Range<u64>) -> Intersection<'a> {
        Intersection::new(
            self.cursor(range.start),
            layout.cursor(range.start),
            range.end,
        )
    }

    /// The first file offset at or after `from` that this part owns. O(depth).
    pub fn next_owned(&self, from: u64) -> Option<u64> {
        let cursor = self.cursor(from);
        (!cursor.at_end()).then_some(cursor.batch.file)
    }

    pub(crate) fn cursor(&self, start: u64) -> Cursor<'_> {
        Cursor::new(self.node.as_ref(), self.file, self.view, start)
    }
}
