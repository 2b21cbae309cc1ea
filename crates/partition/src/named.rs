//! The short pattern names of "Disk-directed I/O for MIMD Multiprocessors" (Kotz), section 5, Table 2.
//!
//! `r` or `w` for reading or writing, then one letter per dimension: `n` NONE, `b` BLOCK, `c`
//! CYCLIC; `ra` gives everybody everything. Matrices are row-major.

use crate::array::{ArraySpec, Dist};
use crate::{Error, Partition};

/// The read patterns that the paper measures, in its order.
pub const READ_PATTERNS: [&str; 10] = [
    "ra", "rn", "rb", "rc", "rnb", "rbb", "rcb", "rbc", "rcc", "rcn",
];

/// The write patterns that the paper measures, in its order.
pub const WRITE_PATTERNS: [&str; 9] = ["wn", "wb", "wc", "wnb", "wbb", "wcb", "wbc", "wcc", "wcn"];

impl Partition {
    /// The distribution that a short name stands for, of a file of `bytes` bytes in records of
    /// `record` bytes over `processes` processes; see [`ArraySpec::named`].
    pub fn named(name: &str, record: u64, bytes: u64, processes: u32) -> Result<Self, Error> {
        match ArraySpec::named(name, record, bytes, processes)? {
            Some(spec) => Self::array(spec),
            None => Self::all(bytes, processes),
        }
    }
}

impl ArraySpec {
    /// The distributed array that a short name stands for; none for `ra`, which gives everybody
    /// everything.
    ///
    /// One-dimensional names take the file as a vector of records, two-dimensional ones as a
    /// matrix with as many columns as the largest divisor of the number of records up to its square
    /// root: 1280 x 1024 for the paper's 10 MB of 8-byte records, 40 x 32 for 8 KB. A grid for two
    /// divided dimensions is found the same way: 4 x 4 for 16 processes.
    pub fn named(
        name: &str,
        record: u64,
        bytes: u64,
        processes: u32,
    ) -> Result<Option<Self>, Error> {
        let unknown = |why: &str| Error::Text {
            text: name.to_owned(),
            why: why.to_owned(),
        };
        let mut letters = name.chars();
        let op = letters.next();
        if !matches!(op, Some('r' | 'w')) {
            return Err(unknown(
                "a pattern's name starts with r (read) or w (write)",
            ));
        }
        if record == 0 {
            return Err(Error::invalid(
                "the record",
                0,
                "an element has at least one byte",
            ));
        }
        if processes == 0 {
            return Err(Error::invalid(
                "the number of processes",
                0,
                "at least one is needed",
            ));
        }
        if letters.as_str() == "a" {
            if op == Some('w') {
                return Err(unknown(
                    "all processes would write the same bytes; 'ra' reads them",
                ));
            }
            return Ok(None);
        }
        if !bytes.is_multiple_of(record) {
            return Err(Error::Mismatch {
                what: "the file's size",
                value: bytes,
                with: "the record",
                other: record,
                why: "a file holds whole records",
            });
        }
        let dist = letters
            .map(|letter| match letter {
                'n' => Some(Dist::None),
                'b' => Some(Dist::Block),
                'c' => Some(Dist::Cyclic(1)),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| unknown("dimensions are n (NONE), b (BLOCK) or c (CYCLIC)"))?;
        let records = bytes / record;
        let (shape, grid) = match dist[..] {
            [a] => (
                vec![records],
                vec![if a == Dist::None { 1 } else { processes }],
            ),
            [a, b] => {
                let columns = divisor_near_root(records);
                let grid = match (a, b) {
                    (Dist::None, Dist::None) => vec![1, 1],
                    (Dist::None, _) => vec![1, processes],
                    (_, Dist::None) => vec![processes, 1],
                    _ => {
                        let rows = divisor_near_root(u64::from(processes)) as u32;
                        vec![rows, processes / rows]
                    }
                };
                (vec![records / columns, columns], grid)
            }
            _ => {
                return Err(unknown(
                    "one or two dimensions are possible, as in rb or rcc",
                ));
            }
        };
        Ok(Some(
            Self::new(&shape, record, &dist, &grid).for_processes(processes),
        ))
    }
}

/// The largest divisor of `n` up to its square root; 1 for 0. At most a million trial divisions: a
/// larger number without a near divisor is a vector for our purposes.
fn divisor_near_root(n: u64) -> u64 {
    let root = n.isqrt();
    let least = root.saturating_sub(1_000_000).max(1);
    (least..=root)
        .rev()
        .find(|d| n.is_multiple_of(*d))
        .unwrap_or(1)
}
