//! File types that show a byte more than once, which is allowed for files that are only read, and those whose
//! copies reach into each other: nothing that the algebra of partitions knows. Kept as a list of runs, which
//! are moved one by one: right, not fast.

use std::ops::Range;

use crate::abi::Handle;
use crate::class::{Class, Failure, Result};
use crate::memory::{self, Described};
use crate::mpi;

/// Larger types of this kind are refused: the list is made by looking at each of their bytes.
const MOST: u64 = 64 << 20;

/// One copy after the other of a type that overlaps itself, or the next copy.
#[derive(Debug, PartialEq, Eq)]
pub struct Folded {
    displacement: u64,
    extent: u64,
    /// Bytes that one copy shows.
    size: u64,
    /// Where in the copy each stretch of them is, in their order.
    runs: Vec<Run>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    view: u64,
    file: u64,
    len: u64,
}

impl Folded {
    /// The view through an MPI type in native representation.
    pub fn of(displacement: u64, filetype: Handle) -> Result<Folded> {
        let measured = mpi::extent(filetype)?;
        let (lower, upper) = mpi::true_span(filetype)?;
        let possible = lower >= 0 && measured.extent > 0 && upper.unsigned_abs() <= MOST;
        if !possible || measured.size == 0 || measured.size > MOST {
            let why = "a file type that overlaps itself has 1 byte to 64 MiB and goes forward";
            return Err(Failure::new(Class::Io, why));
        }
        // MPI itself says where each byte comes from: it packs memory that tells its own addresses.
        let mut places = vec![0u32; measured.size as usize];
        for byte in 0..4 {
            let mut addresses: Vec<u8> = (0..upper as u32)
                .map(|at| (at >> (8 * byte)) as u8)
                .collect();
            let described = Described {
                buffer: addresses.as_mut_ptr().cast(),
                count: 1,
                datatype: filetype,
            };
            let packed = memory::pack(described, measured.size)?;
            for (place, part) in places.iter_mut().zip(packed) {
                *place |= u32::from(part) << (8 * byte);
            }
        }
        Ok(Folded::new(displacement, measured.extent as u64, &places))
    }

    fn new(displacement: u64, extent: u64, places: &[u32]) -> Folded {
        let mut runs: Vec<Run> = Vec::new();
        for (view, &file) in (0..).zip(places) {
            let file = u64::from(file);
            match runs.last_mut() {
                Some(run) if run.file + run.len == file => run.len += 1,
                _ => runs.push(Run { view, file, len: 1 }),
            }
        }
        Folded {
            displacement,
            extent,
            size: places.len() as u64,
            runs,
        }
    }

    /// The file's places of the view's bytes from `at` on, in their order.
    pub fn places(&self, at: u64) -> impl Iterator<Item = Range<u64>> {
        let (copy, skip) = (at / self.size, at % self.size);
        let first = self.runs.partition_point(|run| run.view + run.len <= skip);
        let rest = self.runs[first..].iter().map(move |run| {
            let skip = skip.saturating_sub(run.view);
            (copy, run.file + skip..run.file + run.len)
        });
        let later = (copy + 1..).flat_map(|copy| {
            let runs = self.runs.iter();
            runs.map(move |run| (copy, run.file..run.file + run.len))
        });
        rest.chain(later).map(|(copy, place)| {
            let start = self.displacement + copy * self.extent;
            start + place.start..start + place.end
        })
    }

    /// The same for so many bytes.
    pub fn pieces(&self, at: u64, bytes: u64) -> impl Iterator<Item = Range<u64>> {
        self.places(at).scan(bytes, |left, place| {
            let length = (place.end - place.start).min(*left);
            *left -= length;
            (length > 0).then(|| place.start..place.start + length)
        })
    }

    /// How many bytes of the view come before the first that a file of `size` bytes does not have.
    pub fn visible(&self, size: u64) -> u64 {
        let reach = self.runs.iter().map(|run| run.file + run.len).max();
        let whole = size.saturating_sub(self.displacement + reach.unwrap_or(0));
        let mut visible = whole / self.extent * self.size;
        for place in self.places(visible) {
            visible += size.clamp(place.start, place.end) - place.start;
            if place.end > size {
                break;
            }
        }
        visible
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes 0..12 and then 4..8 again, of each 16, from 100 on.
    fn folded() -> Folded {
        let places: Vec<u32> = (0..12).chain(4..8).collect();
        Folded::new(100, 16, &places)
    }

    #[test]
    fn places_come_in_the_views_order() {
        let folded = folded();
        let from = |at: u64| -> Vec<Range<u64>> { folded.places(at).take(3).collect() };
        assert_eq!(from(0), [100..112, 104..108, 116..128]);
        assert_eq!(from(13), [105..108, 116..128, 120..124]);
        assert_eq!(from(16), [116..128, 120..124, 132..144]);
    }

    #[test]
    fn pieces_end_with_the_bytes_and_may_go_back() {
        let folded = folded();
        let pieces: Vec<Range<u64>> = folded.pieces(6, 9).collect();
        assert_eq!(pieces, [106..112, 104..107]);
    }

    #[test]
    fn the_end_of_the_file_hides_what_lies_behind_it() {
        let folded = folded();
        let brute = |size: u64| -> u64 {
            let bytes = folded.places(0).take(40).flatten();
            bytes.take_while(|place| *place < size).count() as u64
        };
        for size in 90..180 {
            assert_eq!(folded.visible(size), brute(size), "{size}");
        }
    }
}
