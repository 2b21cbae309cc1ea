//! Types as MPI defines them: contiguous, vector, indexed, struct, sub-array, darray and their nesting.
//!
//! A datatype lists bytes in the order in which a process holds them; offsets may repeat a stride
//! backwards, and extents may be resized. Laid over a file it becomes a [`Part`].

use crate::array::{ArraySpec, Order};
use crate::hyperslab::Hyperslab;
use crate::node::LIMIT;
use crate::raw::Raw;
use crate::{Error, Part};

/// A pattern of bytes with a size, a lower bound and an extent, as in `MPI_Datatype`.
///
/// ```
/// use trireme_partition::{Datatype, Part};
/// // A column of a 100 x 200 matrix of doubles, as a file view that goes on column by column.
/// let column = Datatype::bytes(8)?.vector(100, 1, 200)?.resized(0, 8)?;
/// let columns = column.contiguous(3)?;
/// let part = Part::of(0, &columns, 1)?;
/// assert_eq!(part.size(), 3 * 100 * 8);
/// // The second column's first element: memory order is not file order.
/// assert_eq!(part.to_file(800), Some(8));
/// # Ok::<(), trireme_partition::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Datatype {
    raw: Raw,
    size: u64,
    lower: i64,
    upper: i64,
}

impl Datatype {
    /// A basic type of `len` bytes.
    pub fn bytes(len: u64) -> Result<Self, Error> {
        if len > LIMIT {
            return Err(Error::overflow("the type's size"));
        }
        Ok(Self {
            raw: Raw::Run(len),
            size: len,
            lower: 0,
            upper: len as i64,
        })
    }

    /// Bytes of data in one item of the type.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Lower bound: where an item starts, relative to its origin.
    pub fn lower_bound(&self) -> i64 {
        self.lower
    }

    /// Distance from one item to the next.
    pub fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// `MPI_Type_contiguous`.
    pub fn contiguous(&self, count: u64) -> Result<Self, Error> {
        self.hvector(count, 1, self.extent())
    }

    /// `MPI_Type_vector`: `count` blocks of `block` items, `stride` items apart.
    pub fn vector(&self, count: u64, block: u64, stride: i64) -> Result<Self, Error> {
        let stride = stride
            .checked_mul(self.extent())
            .ok_or(Error::overflow("the stride"))?;
        self.hvector(count, block, stride)
    }

    /// `MPI_Type_create_hvector`: the stride in bytes.
    pub fn hvector(&self, count: u64, block: u64, stride: i64) -> Result<Self, Error> {
        self.copies(block, self.extent())?.copies(count, stride)
    }

    /// `MPI_Type_indexed`: blocks of (items, displacement in items).
    pub fn indexed(&self, blocks: &[(u64, i64)]) -> Result<Self, Error> {
        let extent = self.extent();
        let bytes = blocks
            .iter()
            .map(|&(n, at)| at.checked_mul(extent).map(|at| (n, at)))
            .collect::<Option<Vec<_>>>();
        self.hindexed(&bytes.ok_or(Error::overflow("a displacement"))?)
    }

    /// `MPI_Type_create_hindexed`: blocks of (items, displacement in bytes).
    pub fn hindexed(&self, blocks: &[(u64, i64)]) -> Result<Self, Error> {
        let mut fields = Vec::with_capacity(blocks.len());
        for &(count, at) in blocks {
            fields.push((at, self.copies(count, self.extent())?));
        }
        Self::structure(&fields)
    }

    /// `MPI_Type_create_struct`: fields at byte displacements, each with its own type (use
    /// [`Datatype::contiguous`] for a field of several items).
    pub fn structure(fields: &[(i64, Self)]) -> Result<Self, Error> {
        let mut size = 0u64;
        let mut bounds: Option<(i64, i64)> = None;
        let mut items = Vec::with_capacity(fields.len());
        for (at, field) in fields {
            items.push((*at, size as i64, field.raw.clone()));
            size = size
                .checked_add(field.size)
                .filter(|&size| size <= LIMIT)
                .ok_or(TYPE_SIZE)?;
            if field.is_nothing() {
                continue;
            }
            let lower = at.checked_add(field.lower).ok_or(TYPE_EXTENT)?;
            let upper = at.checked_add(field.upper).ok_or(TYPE_EXTENT)?;
            bounds = Some(bounds.map_or((lower, upper), |(l, u)| (l.min(lower), u.max(upper))));
        }
        let (lower, upper) = bounds.unwrap_or((0, 0));
        upper.checked_sub(lower).ok_or(TYPE_EXTENT)?;
        Ok(Self {
            raw: Raw::List(items),
            size,
            lower,
            upper,
        })
    }

    /// `MPI_Type_create_resized`: the same bytes with another lower bound and extent.
    pub fn resized(&self, lower: i64, extent: i64) -> Result<Self, Error> {
        let upper = lower.checked_add(extent).ok_or(TYPE_EXTENT)?;
        Ok(Self {
            lower,
            upper,
            ..self.clone()
        })
    }

    /// `MPI_Type_create_subarray` of items of this type.
    pub fn subarray(
        &self,
        shape: &[u64],
        sizes: &[u64],
        starts: &[u64],
        order: Order,
    ) -> Result<Self, Error> {
        let slab = Hyperslab::block(shape, starts, sizes, 1).in_order(order);
        let (raw, items) = slab.raw(&self.item()?)?;
        self.laid_over(shape, raw, items)
    }

    /// `MPI_Type_create_darray` of items of this type: part `rank` of a distributed array.
    pub fn darray(&self, spec: &ArraySpec, rank: u32) -> Result<Self, Error> {
        let (raw, items) = spec.raw(rank, &self.item()?)?;
        self.laid_over(&spec.shape, raw, items)
    }

    fn is_nothing(&self) -> bool {
        self.size == 0 && self.lower == 0 && self.upper == 0
    }

    fn item(&self) -> Result<Item, Error> {
        let extent = u64::try_from(self.extent()).map_err(|_| {
            Error::invalid("the extent", self.extent(), "arrays need a positive one")
        })?;
        Ok(Item {
            raw: self.raw.clone(),
            size: self.size,
            extent,
        })
    }

    fn laid_over(&self, shape: &[u64], raw: Raw, items: u64) -> Result<Self, Error> {
        let total = shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d));
        let upper = total
            .and_then(|n| i64::try_from(n).ok())
            .and_then(|n| n.checked_mul(self.extent()))
            .ok_or(TYPE_EXTENT)?;
        let size = items
            .checked_mul(self.size)
            .filter(|&s| s <= LIMIT)
            .ok_or(TYPE_SIZE)?;
        Ok(Self {
            raw,
            size,
            lower: 0,
            upper,
        })
    }

    /// `count` copies of the whole type, `stride` bytes apart.
    fn copies(&self, count: u64, stride: i64) -> Result<Self, Error> {
        if count == 0 || self.is_nothing() {
            return Self::bytes(0);
        }
        if count == 1 {
            return Ok(self.clone());
        }
        let size = self
            .size
            .checked_mul(count)
            .filter(|&size| size <= LIMIT)
            .ok_or(TYPE_SIZE)?;
        let reach = i64::try_from(count - 1)
            .ok()
            .and_then(|last| last.checked_mul(stride))
            .ok_or(TYPE_EXTENT)?;
        let lower = self.lower.checked_add(reach.min(0)).ok_or(TYPE_EXTENT)?;
        let upper = self.upper.checked_add(reach.max(0)).ok_or(TYPE_EXTENT)?;
        upper.checked_sub(lower).ok_or(TYPE_EXTENT)?;
        let child = Box::new(self.raw.clone());
        let raw = Raw::Repeat {
            count,
            file: stride,
            view: self.size as i64,
            child,
        };
        Ok(Self {
            raw,
            size,
            lower,
            upper,
        })
    }
}

const TYPE_SIZE: Error = Error::Overflow {
    what: "the type's size",
};
const TYPE_EXTENT: Error = Error::Overflow {
    what: "the type's extent",
};

/// What an array is made of: its bytes, how many, and the distance to the next.
#[derive(Clone)]
pub(crate) struct Item {
    pub raw: Raw,
    pub size: u64,
    pub extent: u64,
}

impl Item {
    pub fn record(bytes: u64) -> Self {
        Self {
            raw: Raw::Run(bytes),
            size: bytes,
            extent: bytes,
        }
    }
}

impl Part {
    /// `count` items of a datatype from file offset `displacement` on: what a buffer described by
    /// that type owns.
    pub fn of(displacement: u64, datatype: &Datatype, count: u64) -> Result<Self, Error> {
        Self::from_raw(displacement, &datatype.contiguous(count)?.raw)
    }

    /// A file view as `MPI_File_set_view` makes it: the datatype again and again from
    /// `displacement` on, as long as whole items fit below 2^63.
    ///
    /// ```
    /// use trireme_partition::{Datatype, Part};
    /// let filetype = Datatype::bytes(4)?.resized(0, 16)?;
    /// let view = Part::tiled(100, &filetype)?;
    /// assert_eq!(view.to_file(1 << 40), Some(100 + (1 << 42)));
    /// # Ok::<(), trireme_partition::Error>(())
    /// ```
    pub fn tiled(displacement: u64, datatype: &Datatype) -> Result<Self, Error> {
        let one = Self::from_raw(displacement, &datatype.raw)?;
        if one.is_empty() {
            return Ok(one);
        }
        let extent = u64::try_from(datatype.extent())
            .ok()
            .filter(|&extent| extent > 0);
        let extent = extent.ok_or(Error::invalid(
            "the extent",
            datatype.extent(),
            "a view must move forward from one item to the next",
        ))?;
        let span = one.file_span();
        let room = (LIMIT - span.end) / extent;
        let count = room + 1;
        if span.end - span.start > extent {
            return Err(Error::Overlap {
                what: "extent",
                value: extent as i64,
                offset: extent.min(span.end - span.start),
            });
        }
        let raw = Raw::Repeat {
            count,
            file: extent as i64,
            view: datatype.size as i64,
            child: Box::new(datatype.raw.clone()),
        };
        Self::from_raw(displacement, &raw)
    }
}
