//! The compact binary form of parts and partitions: versioned, bounds-checked, safe to decode from anyone.
//!
//! All numbers are LEB128 varints, signed ones zig-zag. The first byte is the version, then:
//!
//! ```text
//! part      = 0                                      nothing
//!           | 1 file view node
//! node      = 1 len                                  run
//!           | 2 count stride step node               repeat
//!           | 3 n (file view node) * n               list
//! partition = 0 unit count first                     striped
//!           | 1 array                                see `Writer::array`
//!           | 2 bytes count                          all
//!           | 3 n part * n                           explicit parts
//! ```
//!
//! Nothing is allocated before the bytes that ask for it were seen: a list of n entries needs at
//! least n bytes of input.

use crate::array::{ArraySpec, Dist, Order};
use crate::node::{LIMIT, Node};
use crate::partition::Kind;
use crate::raw::Raw;
use crate::{Error, MAX_DEPTH, Part, Partition};

/// First byte of every encoding.
const VERSION: u8 = 1;

impl Part {
    /// The compact binary form. O(size of the description).
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(vec![VERSION]);
        writer.part(self);
        writer.0
    }

    /// Reads what [`Part::encode`] wrote; anything else is an error that says where.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes)?;
        let part = reader.part()?;
        reader.finish()?;
        Ok(part)
    }
}

impl Partition {
    /// The compact binary form. O(size of the description).
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer(vec![VERSION]);
        match &self.kind {
            Kind::Striped { unit, count, first } => {
                writer.numbers(&[0, *unit, u64::from(*count), u64::from(*first)]);
            }
            Kind::Array(spec) => writer.array(spec),
            Kind::All { bytes, count } => writer.numbers(&[2, *bytes, u64::from(*count)]),
            Kind::Parts(parts) => {
                writer.numbers(&[3, parts.len() as u64]);
                for part in parts {
                    writer.part(part);
                }
            }
        }
        writer.0
    }

    /// Reads what [`Partition::encode`] wrote; anything else is an error that says where.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes)?;
        let partition = match reader.number()? {
            0 => {
                let unit = reader.number()?;
                Self::striped(unit, reader.small()?, reader.small()?)?
            }
            1 => Self::array(reader.array()?)?,
            2 => {
                let bytes = reader.number()?;
                Self::all(bytes, reader.small()?)?
            }
            3 => {
                let n = reader.length()?;
                let mut parts = Vec::new();
                for _ in 0..n {
                    parts.push(reader.part()?);
                }
                Self::from_parts(parts)?
            }
            _ => return Err(reader.refuse("unknown kind of partition")),
        };
        reader.finish()?;
        Ok(partition)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for &n in numbers {
            self.number(n);
        }
    }

    fn signed(&mut self, n: i64) {
        self.number(((n << 1) ^ (n >> 63)) as u64);
    }

    fn part(&mut self, part: &Part) {
        match &part.node {
            None => self.number(0),
            Some(node) => {
                self.numbers(&[1, part.file, part.view]);
                self.node(node);
            }
        }
    }

    fn node(&mut self, node: &Node) {
        match node {
            Node::Run(len) => self.numbers(&[1, *len]),
            Node::Repeat(r) => {
                self.numbers(&[2, r.count, r.stride]);
                self.signed(r.step);
                self.node(&r.child);
            }
            Node::List(l) => {
                self.numbers(&[3, l.entries.len() as u64]);
                for e in &l.entries {
                    self.number(e.file);
                    self.signed(e.view);
                    self.node(&e.node);
                }
            }
        }
    }

    /// 1, record, order, processes, rank, then per dimension: extent, grid, distribution (0 none,
    /// 1 block, 2 block of k, 3 cyclic; then k), and 0 or 1 and the ghost widths.
    fn array(&mut self, spec: &ArraySpec) {
        let order = u64::from(spec.order == Order::ColumnMajor);
        let rank = spec.shape.len() as u64;
        self.numbers(&[1, spec.record, order, u64::from(spec.processes), rank]);
        for d in 0..spec.shape.len() {
            let (tag, k) = match spec.distribution[d] {
                Dist::None => (0, 0),
                Dist::Block => (1, 0),
                Dist::BlockOf(k) => (2, k),
                Dist::Cyclic(k) => (3, k),
            };
            self.numbers(&[spec.shape[d], u64::from(spec.grid[d]), tag, k]);
        }
        self.number(u64::from(!spec.ghost.is_empty()));
        self.numbers(&spec.ghost);
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        match bytes.first() {
            Some(&VERSION) => Ok(Self { bytes, at: 1 }),
            Some(_) => Err(Error::Encoding {
                at: 0,
                why: "unknown version; this reads version 1",
            }),
            None => Err(Error::Encoding {
                at: 0,
                why: "there is nothing",
            }),
        }
    }

    fn refuse(&self, why: &'static str) -> Error {
        Error::Encoding { at: self.at, why }
    }

    fn finish(&self) -> Result<(), Error> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(self.refuse("bytes are left over"))
        }
    }

    fn number(&mut self) -> Result<u64, Error> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self
                .bytes
                .get(self.at)
                .ok_or(self.refuse("it ends inside a number"))?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            self.at += 1;
            n |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(self.refuse("a number is longer than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64, Error> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn small(&mut self) -> Result<u32, Error> {
        u32::try_from(self.number()?).map_err(|_| self.refuse("a count is larger than 32 bits"))
    }

    /// A number of things that each take at least one byte.
    fn length(&mut self) -> Result<usize, Error> {
        let n = self.number()?;
        if n > (self.bytes.len() - self.at) as u64 {
            return Err(self.refuse("a list is longer than the input"));
        }
        Ok(n as usize)
    }

    fn part(&mut self) -> Result<Part, Error> {
        match self.number()? {
            0 => Ok(Part::empty()),
            1 => {
                let (file, view) = (self.number()?, self.number()?);
                if file > LIMIT || view > LIMIT {
                    return Err(self.refuse("an offset is 2^63 or more"));
                }
                let raw = self.node(0)?;
                Part::from_raw(0, &Raw::List(vec![(file as i64, view as i64, raw)]))
            }
            _ => Err(self.refuse("unknown kind of part")),
        }
    }

    fn node(&mut self, depth: usize) -> Result<Raw, Error> {
        if depth > MAX_DEPTH {
            return Err(self.refuse("nested too deep"));
        }
        match self.number()? {
            1 => Ok(Raw::Run(self.number()?)),
            2 => {
                let (count, stride) = (self.number()?, self.number()?);
                let file =
                    i64::try_from(stride).map_err(|_| self.refuse("a stride is too large"))?;
                let view = self.signed()?;
                let child = self.node(depth + 1)?.into();
                Ok(Raw::Repeat {
                    count,
                    file,
                    view,
                    child,
                })
            }
            3 => {
                let n = self.length()?;
                let mut items = Vec::new();
                for _ in 0..n {
                    let file = i64::try_from(self.number()?)
                        .map_err(|_| self.refuse("an offset is too large"))?;
                    let view = self.signed()?;
                    items.push((file, view, self.node(depth + 1)?));
                }
                Ok(Raw::List(items))
            }
            _ => Err(self.refuse("unknown kind of segment")),
        }
    }

    fn array(&mut self) -> Result<ArraySpec, Error> {
        let record = self.number()?;
        let order = match self.number()? {
            0 => Order::RowMajor,
            1 => Order::ColumnMajor,
            _ => return Err(self.refuse("unknown element order")),
        };
        let processes = self.small()?;
        let rank = self.length()?;
        let (mut shape, mut grid, mut distribution) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rank {
            shape.push(self.number()?);
            grid.push(self.small()?);
            let (tag, k) = (self.number()?, self.number()?);
            distribution.push(match tag {
                0 => Dist::None,
                1 => Dist::Block,
                2 => Dist::BlockOf(k),
                3 => Dist::Cyclic(k),
                _ => return Err(self.refuse("unknown distribution")),
            });
        }
        let mut ghost = Vec::new();
        if self.number()? == 1 {
            for _ in 0..rank {
                ghost.push(self.number()?);
            }
        }
        Ok(ArraySpec {
            shape,
            record,
            distribution,
            grid,
            order,
            ghost,
            processes,
        })
    }
}
