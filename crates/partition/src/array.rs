//! Arrays distributed over a grid of processes, as High-Performance Fortran defines it.

use crate::datatype::Item;
use crate::raw::Raw;
use crate::{Error, MAX_FILE};

/// How one dimension of an array is divided among the processes of its grid dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dist {
    /// Not divided: the grid has one process in this dimension.
    None,
    /// Contiguous blocks of ceil(extent / processes) elements; the last ones may be short or empty.
    Block,
    /// Contiguous blocks of this many elements, which must suffice for the whole extent.
    BlockOf(u64),
    /// Blocks of this many elements dealt out in turn; `Cyclic(1)` is HPF's plain `CYCLIC`.
    Cyclic(u64),
}

/// Which dimension's neighbours are neighbours in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// The last dimension (C, Python, HDF5).
    #[default]
    RowMajor,
    /// The first dimension (Fortran).
    ColumnMajor,
}

/// An array, its distribution and the grid of processes.
///
/// ```
/// use trireme_partition::{ArraySpec, Dist, Partition};
/// let spec = ArraySpec::new(&[1280, 1024], 8, &[Dist::Block, Dist::Cyclic(1)], &[4, 4]);
/// let partition = Partition::array(spec)?;
/// assert_eq!(partition.to_string(), "2-D 1280x1024 of 8 B, BLOCK x CYCLIC over 4x4");
/// assert_eq!(partition.part(6)?.size(), 320 * 256 * 8);
/// # Ok::<(), trireme_partition::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArraySpec {
    /// Extent of each dimension, in records.
    pub shape: Vec<u64>,
    /// Bytes in a record (one element).
    pub record: u64,
    /// Distribution of each dimension.
    pub distribution: Vec<Dist>,
    /// Processes in each dimension; rank = row-major position in this grid.
    pub grid: Vec<u32>,
    /// Order of the elements in the file and in each process's buffer.
    pub order: Order,
    /// Ghost cells that each process also sees beyond its block, per dimension; empty for none.
    /// Only for undivided and BLOCK dimensions. Parts then overlap: for reading.
    pub ghost: Vec<u64>,
    /// Total number of parts. Equal to the grid, or larger where nothing is divided: then part 0
    /// owns the array and the others nothing.
    pub processes: u32,
}

/// Most dimensions of an array: a dimension can take three levels of nesting.
const MAX_RANK: usize = 10;

impl ArraySpec {
    /// A row-major array without ghost cells whose grid has one process per part.
    pub fn new(shape: &[u64], record: u64, distribution: &[Dist], grid: &[u32]) -> Self {
        Self {
            shape: shape.to_vec(),
            record,
            distribution: distribution.to_vec(),
            grid: grid.to_vec(),
            order: Order::RowMajor,
            ghost: Vec::new(),
            processes: grid.iter().fold(1, |n: u32, &p| n.saturating_mul(p)),
        }
    }

    /// The same array in another element order.
    pub fn in_order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// The same array with ghost cells of this width in each dimension.
    pub fn with_ghosts(mut self, widths: &[u64]) -> Self {
        self.ghost = widths.to_vec();
        self
    }

    /// The same array for this many processes.
    pub fn for_processes(mut self, processes: u32) -> Self {
        self.processes = processes;
        self
    }

    /// Bytes of the whole array.
    pub fn bytes(&self) -> Result<u64, Error> {
        let n = self
            .shape
            .iter()
            .try_fold(self.record, |n, &d| n.checked_mul(d));
        n.filter(|&n| n < MAX_FILE)
            .ok_or(Error::overflow("the array"))
    }

    /// Refuses what is not an array or not a distribution of it.
    pub fn check(&self) -> Result<(), Error> {
        let rank = self.shape.len();
        check_lengths(
            rank,
            &[
                ("the distribution's length", self.distribution.len()),
                ("the grid's length", self.grid.len()),
                (
                    "the ghost widths' length",
                    if self.ghost.is_empty() {
                        rank
                    } else {
                        self.ghost.len()
                    },
                ),
            ],
        )?;
        if self.record == 0 {
            return Err(Error::invalid(
                "the record",
                0,
                "an element has at least one byte",
            ));
        }
        self.bytes()?;
        let mut total = 1u32;
        for d in 0..rank {
            let (dist, p) = (self.distribution[d], self.grid[d]);
            if p == 0 {
                return Err(Error::invalid(
                    "a grid extent",
                    0,
                    "at least one process is needed",
                ));
            }
            total = total.checked_mul(p).ok_or(Error::overflow("the grid"))?;
            match dist {
                Dist::None if p != 1 => {
                    return Err(Error::invalid(
                        "a grid extent",
                        p,
                        "an undivided dimension has one process",
                    ));
                }
                Dist::Cyclic(0) | Dist::BlockOf(0) => {
                    return Err(Error::invalid(
                        "a block size",
                        0,
                        "at least one element is needed",
                    ));
                }
                Dist::BlockOf(k) if k.saturating_mul(u64::from(p)) < self.shape[d] => {
                    return Err(Error::Mismatch {
                        what: "the block size",
                        value: k,
                        with: "the extent",
                        other: self.shape[d],
                        why: "the grid's blocks must reach the end of the dimension",
                    });
                }
                Dist::Cyclic(_) if self.ghost.get(d).is_some_and(|&g| g > 0) => {
                    return Err(Error::invalid(
                        "a ghost width",
                        self.ghost[d],
                        "only BLOCK and undivided dimensions have ghost cells",
                    ));
                }
                _ => {}
            }
        }
        if total != self.processes && (total != 1 || self.processes == 0) {
            return Err(Error::Mismatch {
                what: "the grid's product",
                value: u64::from(total),
                with: "the number of processes",
                other: u64::from(self.processes),
                why: "each process has one place in the grid",
            });
        }
        Ok(())
    }

    /// What process `rank` owns: the pattern over items, and how many items it has.
    pub(crate) fn raw(&self, rank: u32, item: &Item) -> Result<(Raw, u64), Error> {
        self.check()?;
        if rank >= self.processes {
            return Err(Error::NoSuchPart {
                part: rank,
                parts: self.processes,
            });
        }
        if rank > 0 && self.grid.iter().all(|&p| p == 1) {
            return Ok((Raw::Run(0), 0));
        }
        let mut place = vec![0u64; self.grid.len()];
        let mut left = rank;
        for d in (0..self.grid.len()).rev() {
            place[d] = u64::from(left % self.grid[d]);
            left /= self.grid[d];
        }
        nest(&self.shape, self.order, item, |d| {
            let ghost = self.ghost.get(d).copied().unwrap_or(0);
            let p = u64::from(self.grid[d]);
            self.distribution[d].spans(self.shape[d], p, place[d], ghost)
        })
    }
}

/// Refuses an array without dimensions, or lists that do not have one entry for each.
pub(crate) fn check_lengths(rank: usize, lists: &[(&'static str, usize)]) -> Result<(), Error> {
    if rank == 0 || rank > MAX_RANK {
        let why = "1 to 10 are possible";
        return Err(Error::invalid("the number of dimensions", rank as u64, why));
    }
    for &(what, len) in lists {
        if len != rank {
            return Err(Error::Mismatch {
                what,
                value: len as u64,
                with: "the number of dimensions",
                other: rank as u64,
                why: "each dimension needs one entry",
            });
        }
    }
    Ok(())
}

/// Equal groups of neighbouring indices in one dimension: `count` groups of `block`, `stride` apart.
pub(crate) struct Spans {
    pub start: u64,
    pub count: u64,
    pub block: u64,
    pub stride: u64,
}

impl Dist {
    /// The indices of `0..extent` that process `at` of `processes` owns.
    fn spans(self, extent: u64, processes: u64, at: u64, ghost: u64) -> Vec<Spans> {
        let block = match self {
            Self::None => extent,
            Self::Block => extent.div_ceil(processes),
            Self::BlockOf(k) => k,
            Self::Cyclic(k) => {
                let round = k.saturating_mul(processes);
                let start = k.saturating_mul(at);
                // Whole blocks of this process, and what the extent's end leaves of its next one.
                let whole = extent.saturating_sub(start).saturating_add(round - k) / round;
                let rest = start.saturating_add(whole.saturating_mul(round));
                return vec![
                    Spans {
                        start,
                        count: whole,
                        block: k,
                        stride: round,
                    },
                    Spans {
                        start: rest,
                        count: 1,
                        block: extent.saturating_sub(rest),
                        stride: round,
                    },
                ];
            }
        };
        let start = block.saturating_mul(at).min(extent);
        let end = start.saturating_add(block).min(extent);
        if start == end {
            return Vec::new();
        }
        let (start, end) = (
            start.saturating_sub(ghost),
            end.saturating_add(ghost).min(extent),
        );
        vec![Spans {
            start,
            count: 1,
            block: end - start,
            stride: block,
        }]
    }
}

/// Nests the owned indices of each dimension around an item, innermost dimension first.
pub(crate) fn nest(
    shape: &[u64],
    order: Order,
    item: &Item,
    spans: impl Fn(usize) -> Vec<Spans>,
) -> Result<(Raw, u64), Error> {
    let mut inner = item.clone();
    let mut items = 1u64;
    for i in 0..shape.len() {
        let d = match order {
            Order::RowMajor => shape.len() - 1 - i,
            Order::ColumnMajor => i,
        };
        let mut owned = 0u64;
        let mut list = Vec::new();
        for span in spans(d).into_iter().filter(|s| s.count > 0 && s.block > 0) {
            let copies = |count: u64, stride: u64, size: u64, child: Raw| {
                let file = stride
                    .checked_mul(inner.extent)
                    .and_then(|s| i64::try_from(s).ok());
                let view = size
                    .checked_mul(inner.size)
                    .and_then(|s| i64::try_from(s).ok());
                Some(Raw::Repeat {
                    count,
                    file: file?,
                    view: view?,
                    child: child.into(),
                })
            };
            let placed = (|| {
                let group = copies(span.block, 1, 1, inner.raw.clone())?;
                // A single group has no distance to a next one, which might not fit the file.
                let groups = if span.count == 1 {
                    group
                } else {
                    copies(span.count, span.stride, span.block, group)?
                };
                let at = i64::try_from(span.start.checked_mul(inner.extent)?).ok()?;
                let to = i64::try_from(owned.checked_mul(inner.size)?).ok()?;
                owned = owned.checked_add(span.count.checked_mul(span.block)?)?;
                Some((at, to, groups))
            })();
            list.push(placed.ok_or(Error::overflow("the array"))?);
        }
        let extent = inner.extent.checked_mul(shape[d]);
        inner = Item {
            raw: Raw::List(list),
            size: inner
                .size
                .checked_mul(owned)
                .ok_or(Error::overflow("the array"))?,
            extent: extent
                .filter(|&e| e < MAX_FILE)
                .ok_or(Error::overflow("the array"))?,
        };
        items = items
            .checked_mul(owned)
            .ok_or(Error::overflow("the array"))?;
    }
    Ok((inner.raw, items))
}
