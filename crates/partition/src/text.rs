//! The readable form of partitions and parts: what errors, logs and tools print, and what users type.
//!
//! Partitions: `striped 64 KiB over 4 from 0`, `2-D 1280x1024 of 8 B, BLOCK x CYCLIC over 4x4`,
//! `all of 80 B for 4`. A part is `PARTITION, part 6`, or its segments: `at 8: 1000x(8)/32` is a
//! thousand runs of 8 bytes, 32 bytes apart, from offset 8 on; `{0: 4, 16: 2}` is a list. Where view
//! order is not file order, `~` gives the place or the step in the view.

use crate::array::{ArraySpec, Dist, Order};
use crate::node::Node;
use crate::partition::Kind;
use crate::raw::Raw;
use crate::{Error, MAX_DEPTH, Part, Partition};
use std::fmt;
use std::str::FromStr;

impl Partition {
    /// One part in the words of its partition: `2-D ..., part 6`.
    pub fn describe(&self, part: u32) -> String {
        format!("{self}, part {part}")
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Striped { unit, count, first } => {
                write!(f, "striped {} over {count} from {first}", Bytes(*unit))
            }
            Kind::Array(spec) => write!(f, "{spec}"),
            Kind::All { bytes, count } => write!(f, "all of {} for {count}", Bytes(*bytes)),
            Kind::Parts(parts) => {
                write!(f, "parts")?;
                parts.iter().try_for_each(|part| write!(f, " [{part}]"))
            }
        }
    }
}

impl fmt::Display for ArraySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |numbers: Vec<String>, sign: &str| numbers.join(sign);
        let plain = |numbers: &[u64]| by(numbers.iter().map(u64::to_string).collect(), "x");
        write!(
            f,
            "{}-D {} of {}, ",
            self.shape.len(),
            plain(&self.shape),
            Bytes(self.record)
        )?;
        let dist = self.distribution.iter().map(Dist::to_string).collect();
        let grid = self.grid.iter().map(u32::to_string).collect();
        write!(f, "{} over {}", by(dist, " x "), by(grid, "x"))?;
        if self.grid.iter().product::<u32>() != self.processes {
            write!(f, ", {} processes", self.processes)?;
        }
        if !self.ghost.is_empty() {
            write!(f, ", ghost {}", plain(&self.ghost))?;
        }
        if self.order == Order::ColumnMajor {
            write!(f, ", column-major")?;
        }
        Ok(())
    }
}

impl fmt::Display for Dist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => write!(f, "NONE"),
            Self::Block => write!(f, "BLOCK"),
            Self::BlockOf(k) => write!(f, "BLOCK({k})"),
            Self::Cyclic(1) => write!(f, "CYCLIC"),
            Self::Cyclic(k) => write!(f, "CYCLIC({k})"),
        }
    }
}

/// A size in the largest binary unit that divides it.
struct Bytes(u64);

const UNITS: [(&str, u32); 5] = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |shift: u32| self.0 > 0 && self.0.trailing_zeros() >= shift;
        let (unit, shift) = UNITS.iter().find(|(_, s)| fits(*s)).unwrap_or(&("B", 0));
        write!(f, "{} {unit}", self.0 >> shift)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(node) = &self.node else {
            return write!(f, "nothing");
        };
        write!(f, "at {}", self.file)?;
        if self.view != 0 {
            write!(f, "~{}", self.view)?;
        }
        write!(f, ": ")?;
        write_node(f, node)
    }
}

fn write_node(f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
    match node {
        Node::Run(len) => write!(f, "{len}"),
        Node::Repeat(r) => {
            write!(f, "{}x(", r.count)?;
            write_node(f, &r.child)?;
            write!(f, ")/{}", r.stride)?;
            if r.step != r.inner.size as i64 {
                write!(f, "~{}", r.step)?;
            }
            Ok(())
        }
        Node::List(l) => {
            for (i, e) in l.entries.iter().enumerate() {
                write!(f, "{}{}", if i == 0 { "{" } else { ", " }, e.file)?;
                if e.view != e.before as i64 {
                    write!(f, "~{}", e.view)?;
                }
                write!(f, ": ")?;
                write_node(f, &e.node)?;
            }
            write!(f, "}}")
        }
    }
}

impl FromStr for Partition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut reader = Reader { text, rest: text };
        let partition = reader.partition()?;
        reader.end()?;
        Ok(partition)
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut reader = Reader { text, rest: text };
        let part = match text.rsplit_once(", part ") {
            Some((partition, index)) => {
                let index = index.trim().parse();
                let index = index.map_err(|_| reader.wrong("the part's number is not a number"))?;
                return partition.parse::<Partition>()?.part(index);
            }
            None => reader.part()?,
        };
        reader.end()?;
        Ok(part)
    }
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn wrong(&self, why: &str) -> Error {
        let at = self.text.len() - self.rest.len();
        Error::Text {
            text: self.text.to_owned(),
            why: format!("{why} (at character {at})"),
        }
    }

    fn end(&self) -> Result<(), Error> {
        if self.rest.trim().is_empty() {
            return Ok(());
        }
        Err(self.wrong("something is left over"))
    }

    fn eat(&mut self, word: &str) -> bool {
        match self.rest.trim_start().strip_prefix(word) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), Error> {
        if self.eat(word) {
            Ok(())
        } else {
            Err(self.wrong(&format!("'{word}' was expected")))
        }
    }

    fn number<T: FromStr>(&mut self) -> Result<T, Error> {
        let rest = self.rest.trim_start();
        let sign = usize::from(rest.starts_with('-'));
        let digits = rest[sign..].find(|c: char| !c.is_ascii_digit());
        let digits = digits.map_or(rest.len(), |n| sign + n);
        let number = rest[..digits].parse();
        let number = number.map_err(|_| self.wrong("a number was expected, or it is too large"))?;
        self.rest = &rest[digits..];
        Ok(number)
    }

    fn bytes(&mut self) -> Result<u64, Error> {
        let number: u64 = self.number()?;
        for (unit, shift) in UNITS {
            if self.eat(unit) {
                let bytes = number.checked_mul(1 << shift);
                return bytes.ok_or_else(|| self.wrong("a size is 2^64 bytes or more"));
            }
        }
        Err(self.wrong("a unit was expected: B, KiB, MiB, GiB or TiB"))
    }

    fn numbers<T: FromStr>(&mut self) -> Result<Vec<T>, Error> {
        let mut numbers = vec![self.number()?];
        while self.eat("x") {
            numbers.push(self.number()?);
        }
        Ok(numbers)
    }

    fn partition(&mut self) -> Result<Partition, Error> {
        if self.eat("striped") {
            let unit = self.bytes()?;
            self.expect("over")?;
            let count = self.number()?;
            let first = if self.eat("from") { self.number()? } else { 0 };
            return Partition::striped(unit, count, first);
        }
        if self.eat("all of") {
            let bytes = self.bytes()?;
            self.expect("for")?;
            return Partition::all(bytes, self.number()?);
        }
        if self.eat("parts") {
            let mut parts = Vec::new();
            while self.eat("[") {
                parts.push(self.part()?);
                self.expect("]")?;
            }
            return Partition::from_parts(parts);
        }
        Partition::array(self.array()?)
    }

    fn array(&mut self) -> Result<ArraySpec, Error> {
        let rank: usize = self.number()?;
        self.expect("-D")?;
        let shape: Vec<u64> = self.numbers()?;
        if shape.len() != rank {
            return Err(self.wrong("the shape does not have that many dimensions"));
        }
        self.expect("of")?;
        let record = self.bytes()?;
        self.expect(",")?;
        let mut distribution = vec![self.dist()?];
        while self.eat("x") {
            distribution.push(self.dist()?);
        }
        self.expect("over")?;
        let grid: Vec<u32> = self.numbers()?;
        let mut spec = ArraySpec::new(&shape, record, &distribution, &grid);
        while self.rest.trim_start().starts_with(',') {
            self.expect(",")?;
            if self.eat("ghost") {
                spec.ghost = self.numbers()?;
            } else if self.eat("column-major") {
                spec.order = Order::ColumnMajor;
            } else {
                spec.processes = self.number()?;
                self.expect("processes")?;
            }
        }
        Ok(spec)
    }

    fn dist(&mut self) -> Result<Dist, Error> {
        let block = |reader: &mut Self| -> Result<Option<u64>, Error> {
            if !reader.eat("(") {
                return Ok(None);
            }
            let k = reader.number()?;
            reader.expect(")")?;
            Ok(Some(k))
        };
        if self.eat("NONE") {
            Ok(Dist::None)
        } else if self.eat("BLOCK") {
            Ok(block(self)?.map_or(Dist::Block, Dist::BlockOf))
        } else if self.eat("CYCLIC") {
            Ok(Dist::Cyclic(block(self)?.unwrap_or(1)))
        } else {
            Err(self.wrong("a distribution was expected: NONE, BLOCK, CYCLIC or CYCLIC(k)"))
        }
    }

    fn part(&mut self) -> Result<Part, Error> {
        if self.eat("nothing") {
            return Ok(Part::empty());
        }
        self.expect("at")?;
        let file = self.number()?;
        let view = if self.eat("~") { self.number()? } else { 0 };
        self.expect(":")?;
        let (raw, _) = self.node(0)?;
        Part::from_raw(0, &Raw::List(vec![(file, view, raw)]))
    }

    /// A node and its size, which is the default distance in the view.
    fn node(&mut self, depth: usize) -> Result<(Raw, u64), Error> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("it is nested too deep"));
        }
        if self.eat("{") {
            let mut items = Vec::new();
            let mut size = 0u64;
            loop {
                let file = self.number()?;
                let view = if self.eat("~") {
                    self.number()?
                } else {
                    size as i64
                };
                self.expect(":")?;
                let (raw, more) = self.node(depth + 1)?;
                items.push((file, view, raw));
                size = size
                    .checked_add(more)
                    .ok_or_else(|| self.wrong("it is too large"))?;
                if !self.eat(",") {
                    self.expect("}")?;
                    return Ok((Raw::List(items), size));
                }
            }
        }
        let number: u64 = self.number()?;
        if !self.eat("x(") {
            return Ok((Raw::Run(number), number));
        }
        let (child, size) = self.node(depth + 1)?;
        self.expect(")/")?;
        let file = self.number()?;
        let view = if self.eat("~") {
            self.number()?
        } else {
            size as i64
        };
        let size = size
            .checked_mul(number)
            .ok_or_else(|| self.wrong("it is too large"))?;
        Ok((
            Raw::Repeat {
                count: number,
                file,
                view,
                child: child.into(),
            },
            size,
        ))
    }
}
