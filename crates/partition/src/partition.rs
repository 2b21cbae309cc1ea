//! A division of a file's bytes among owners, kept as its description: parts are made on demand.

use crate::array::ArraySpec;
use crate::datatype::{Datatype, Item};
use crate::{Error, Part};

/// A division of a file among parts: a layout (parts are I/O servers) or a view (parts are
/// processes). A few numbers, whatever the file's size and however many parts.
///
/// ```
/// use trireme_partition::Partition;
/// let layout = Partition::striped(64 << 10, 4, 1)?;
/// assert_eq!(layout.parts(), 4);
/// assert_eq!(layout.to_string(), "striped 64 KiB over 4 from 1");
/// // The first unit is on server 1.
/// assert_eq!(layout.part(1)?.to_file(0), Some(0));
/// assert_eq!(layout.owner_of(200_000)?, Some(0));
/// # Ok::<(), trireme_partition::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Striped {
        unit: u64,
        count: u32,
        first: u32,
    },
    Array(ArraySpec),
    /// Everybody owns the first `bytes` bytes.
    All {
        bytes: u64,
        count: u32,
    },
    Parts(Vec<Part>),
}

impl Partition {
    /// Units of `unit` bytes dealt out in turn to `count` servers, beginning with server `first`.
    pub fn striped(unit: u64, count: u32, first: u32) -> Result<Self, Error> {
        if unit == 0 {
            return Err(Error::invalid(
                "the stripe unit",
                0,
                "at least one byte is needed",
            ));
        }
        if count == 0 {
            return Err(Error::invalid(
                "the number of servers",
                0,
                "at least one is needed",
            ));
        }
        if first >= count {
            return Err(Error::Mismatch {
                what: "the first server",
                value: u64::from(first),
                with: "the number of servers",
                other: u64::from(count),
                why: "servers are numbered from 0",
            });
        }
        if unit
            .checked_mul(u64::from(count))
            .is_none_or(|round| round > crate::node::LIMIT)
        {
            return Err(Error::overflow(
                "the stripe unit times the number of servers",
            ));
        }
        Ok(Self {
            kind: Kind::Striped { unit, count, first },
        })
    }

    /// A distributed array; see [`ArraySpec`].
    pub fn array(spec: ArraySpec) -> Result<Self, Error> {
        spec.check()?;
        Ok(Self {
            kind: Kind::Array(spec),
        })
    }

    /// Every one of `count` parts owns all of the first `bytes` bytes: for reading.
    pub fn all(bytes: u64, count: u32) -> Result<Self, Error> {
        if count == 0 {
            return Err(Error::invalid(
                "the number of processes",
                0,
                "at least one is needed",
            ));
        }
        Part::contiguous(0, bytes)?;
        Ok(Self {
            kind: Kind::All { bytes, count },
        })
    }

    /// These parts, whatever they are.
    pub fn from_parts(parts: Vec<Part>) -> Result<Self, Error> {
        if u32::try_from(parts.len()).is_err() {
            return Err(Error::overflow("the number of parts"));
        }
        Ok(Self {
            kind: Kind::Parts(parts),
        })
    }

    /// Number of parts. O(1).
    pub fn parts(&self) -> u32 {
        match &self.kind {
            Kind::Striped { count, .. } | Kind::All { count, .. } => *count,
            Kind::Array(spec) => spec.processes,
            Kind::Parts(parts) => parts.len() as u32,
        }
    }

    /// One owner's bytes. O(dimensions), independent of the array's size.
    pub fn part(&self, index: u32) -> Result<Part, Error> {
        if index >= self.parts() {
            return Err(Error::NoSuchPart {
                part: index,
                parts: self.parts(),
            });
        }
        match &self.kind {
            Kind::Striped { unit, count, first } => {
                // In 64 bits: an index and a count of servers may add up to more than 32.
                let count_wide = u64::from(*count);
                let turn = (u64::from(index) + count_wide - u64::from(*first)) % count_wide;
                let unit_type = Datatype::bytes(*unit)?;
                let round = unit_type.resized(0, (unit * count_wide) as i64)?;
                Part::tiled(unit * turn, &round)
            }
            Kind::Array(spec) => {
                let (raw, _) = spec.raw(index, &Item::record(spec.record))?;
                Part::from_raw(0, &raw)
            }
            Kind::All { bytes, .. } => Part::contiguous(0, *bytes),
            Kind::Parts(parts) => Ok(parts[index as usize].clone()),
        }
    }

    /// The first part that owns the byte at `offset`; `None` if nobody does. O(1) for stripes,
    /// O(parts) otherwise.
    pub fn owner_of(&self, offset: u64) -> Result<Option<u32>, Error> {
        if let Kind::Striped { unit, count, first } = self.kind {
            let turn = (offset / unit) % u64::from(count);
            return Ok(Some(((turn + u64::from(first)) % u64::from(count)) as u32));
        }
        for index in 0..self.parts() {
            if self.part(index)?.to_view(offset).is_some() {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Refuses a partition whose number of parts is not `ranks`.
    pub fn expect_parts(&self, ranks: u32) -> Result<(), Error> {
        if self.parts() == ranks {
            return Ok(());
        }
        Err(Error::Mismatch {
            what: "the number of parts",
            value: u64::from(self.parts()),
            with: "the number of processes",
            other: u64::from(ranks),
            why: "each process has one part",
        })
    }
}
