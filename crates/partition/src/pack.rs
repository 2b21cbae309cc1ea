//! Copies between a block of the file and the owners' contiguous buffers: the kernel of collective I/O.
//!
//! [`unpack`] deals a block out to many owners, [`pack`] gathers it from them. Both go through the
//! block once, tile by tile, so that however many owners there are the block comes from memory once:
//! a tile stays in the cache while each owner takes its records from it.
//!
//! Long runs are limited by the C library: in a profile of packing runs of 1 and 4 KiB its `memmove`
//! takes 66 % of all samples and the code here 1.3 %; what is lost against one large `memcpy` is lost
//! by calling it for a kilobyte or two at a time.

use crate::cursor::Batch;
use crate::row::{ROW, Walks, collect_row, deal_row};
use crate::{Error, Part};
use std::ops::Range;

/// Longest single copy. The C library copies longer ones with `rep movsb`, which some processors do
/// byte by byte when source and target are alike modulo the page size, as buffers often are.
const COPY: usize = 2048;

/// One owner of bytes in a block, with the window of its own bytes that `buffer` holds.
pub struct Owner<'a, B> {
    /// What it owns of the file.
    pub part: &'a Part,
    /// Its bytes.
    pub buffer: B,
    /// View offset of the buffer's first byte. A block of an ordered part touches exactly
    /// [`Part::view_range`].
    pub view: u64,
}

impl<'a, B> Owner<'a, B> {
    /// An owner whose buffer starts at view offset `view`.
    pub fn new(part: &'a Part, view: u64, buffer: B) -> Self {
        Self { part, buffer, view }
    }
}

/// Copies `block`, the file's bytes from `offset` on, to the buffers of its owners.
///
/// Bytes without an owner are left out; bytes with several go to each. Refused, before anything is
/// copied, if a buffer does not hold all that the block touches.
///
/// ```
/// use trireme_partition::{Partition, pack};
/// let view = Partition::named("rc", 1, 8, 2)?;
/// let (even, odd) = (view.part(0)?, view.part(1)?);
/// let (mut a, mut b) = ([0; 4], [0; 4]);
/// let owners = &mut [pack::Owner::new(&even, 0, &mut a[..]), pack::Owner::new(&odd, 0, &mut b[..])];
/// pack::unpack(b"AaBbCcDd", 0, owners)?;
/// assert_eq!((&a, &b), (b"ABCD", b"abcd"));
/// # Ok::<(), trireme_partition::Error>(())
/// ```
pub fn unpack(block: &[u8], offset: u64, owners: &mut [Owner<'_, &mut [u8]>]) -> Result<(), Error> {
    let range = block_range(block.len(), offset)?;
    for owner in &*owners {
        check_window(owner.part, owner.view, owner.buffer.len(), &range)?;
    }
    let mut walks = Walks::new(owners.iter().map(|owner| owner.part), &range);
    for end in walks.tiles(range) {
        for (row, owners) in walks.rows.iter_mut().zip(owners.chunks_mut(ROW)) {
            while row.advance(end) {
                let whole = <&mut [_; ROW]>::try_from(&mut *owners);
                if let (Some(shape), Ok(owners)) = (row.alike(), whole) {
                    let starts = row.starts(owners.each_ref().map(|owner| owner.view));
                    let buffers = owners.each_mut().map(|owner| &mut *owner.buffer);
                    deal_row(
                        &shape,
                        &block[(shape.file - offset) as usize..],
                        buffers,
                        starts,
                    );
                    continue;
                }
                for (batch, owner) in row.taken.iter().zip(&mut *owners) {
                    if let Some(batch) = batch {
                        let (file, view) = (batch.file - offset, batch.view - owner.view);
                        copy(&Places::gather(batch, file, view), block, owner.buffer);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Fills `block`, the file's bytes from `offset` on, from the buffers of its owners.
///
/// Bytes without an owner are left as they are; where several own a byte the last one wins. Refused
/// like [`unpack`].
pub fn pack(block: &mut [u8], offset: u64, owners: &[Owner<'_, &[u8]>]) -> Result<(), Error> {
    let range = block_range(block.len(), offset)?;
    for owner in owners {
        check_window(owner.part, owner.view, owner.buffer.len(), &range)?;
    }
    let mut walks = Walks::new(owners.iter().map(|owner| owner.part), &range);
    for end in walks.tiles(range) {
        for (row, owners) in walks.rows.iter_mut().zip(owners.chunks(ROW)) {
            while row.advance(end) {
                if let (Some(shape), Ok(owners)) = (row.alike(), <&[_; ROW]>::try_from(owners)) {
                    let starts = row.starts(owners.each_ref().map(|owner| owner.view));
                    let buffers = owners.each_ref().map(|owner| owner.buffer);
                    let block = &mut block[(shape.file - offset) as usize..];
                    collect_row(&shape, block, buffers, starts);
                    continue;
                }
                for (batch, owner) in row.taken.iter().zip(owners) {
                    if let Some(batch) = batch {
                        let (file, view) = (batch.file - offset, batch.view - owner.view);
                        copy(&Places::scatter(batch, file, view), owner.buffer, block);
                    }
                }
            }
        }
    }
    Ok(())
}

fn block_range(len: usize, offset: u64) -> Result<Range<u64>, Error> {
    let end = offset
        .checked_add(len as u64)
        .filter(|&end| end <= crate::MAX_FILE);
    Ok(offset..end.ok_or(Error::overflow("the block"))?)
}

fn check_window(part: &Part, view: u64, len: usize, range: &Range<u64>) -> Result<(), Error> {
    let touched = part.view_range(range.clone());
    if touched.is_empty() {
        return Ok(());
    }
    if touched.start < view || touched.end > view + len as u64 {
        return Err(Error::Mismatch {
            what: "the last view offset in the block",
            value: touched.end,
            with: "the buffer's end",
            other: view + len as u64,
            why: "a buffer holds all that its owner has in the block",
        });
    }
    Ok(())
}

/// Equal runs at fixed distances in a source and in a target.
struct Places {
    from: usize,
    from_step: isize,
    to: usize,
    to_step: isize,
    len: usize,
    count: usize,
}

impl Places {
    /// From the block at `file` to the buffer at `view`.
    fn gather(batch: &Batch, file: u64, view: u64) -> Self {
        Self {
            from: file as usize,
            from_step: batch.stride as isize,
            to: view as usize,
            to_step: batch.step as isize,
            len: batch.len as usize,
            count: batch.count as usize,
        }
    }

    /// From the buffer at `view` to the block at `file`.
    fn scatter(batch: &Batch, file: u64, view: u64) -> Self {
        Self {
            from: view as usize,
            from_step: batch.step as isize,
            to: file as usize,
            to_step: batch.stride as isize,
            len: batch.len as usize,
            count: batch.count as usize,
        }
    }
}

fn copy(places: &Places, from: &[u8], to: &mut [u8]) {
    match places.len {
        4 if places.count > 1 => records::<4>(places, from, to),
        8 if places.count > 1 => records::<8>(places, from, to),
        16 if places.count > 1 => records::<16>(places, from, to),
        _ => runs(places, from, to),
    }
}

/// Runs of any length.
fn runs(places: &Places, from: &[u8], to: &mut [u8]) {
    let (mut a, mut b) = (places.from, places.to);
    for _ in 0..places.count {
        let (target, source) = (&mut to[b..b + places.len], &from[a..a + places.len]);
        if places.len <= COPY {
            target.copy_from_slice(source);
        } else {
            for (target, source) in target.chunks_mut(COPY).zip(source.chunks(COPY)) {
                target.copy_from_slice(source);
            }
        }
        a = a.wrapping_add_signed(places.from_step);
        b = b.wrapping_add_signed(places.to_step);
    }
}

/// Records of a known size: each is one load and one store.
fn records<const N: usize>(places: &Places, from: &[u8], to: &mut [u8]) {
    let step = |step: isize| usize::try_from(step).ok().filter(|&step| step >= N);
    match (step(places.from_step), step(places.to_step)) {
        (Some(stride), Some(dense)) if dense == N => {
            let to = &mut to[places.to..places.to + places.count * N];
            let from = &from[places.from..][..(places.count - 1) * stride + N];
            gather::<N>(from, stride, to);
        }
        (Some(dense), Some(stride)) if dense == N => {
            let from = &from[places.from..places.from + places.count * N];
            let to = &mut to[places.to..][..(places.count - 1) * stride + N];
            scatter::<N>(from, to, stride);
        }
        _ => runs(places, from, to),
    }
}

fn gather<const N: usize>(from: &[u8], stride: usize, to: &mut [u8]) {
    // The last record has no whole stride after it. Without it every chunk is exact, and the
    // comparisons leave the loop.
    let (records, _) = to.as_chunks_mut::<N>();
    let Some((last, records)) = records.split_last_mut() else {
        return;
    };
    for (record, source) in records.iter_mut().zip(from.chunks_exact(stride)) {
        record.copy_from_slice(&source[..N]);
    }
    last.copy_from_slice(&from[from.len() - N..]);
}

fn scatter<const N: usize>(from: &[u8], to: &mut [u8], stride: usize) {
    let (records, _) = from.as_chunks::<N>();
    let Some((last, records)) = records.split_last() else {
        return;
    };
    for (record, target) in records.iter().zip(to.chunks_exact_mut(stride)) {
        target[..N].copy_from_slice(record);
    }
    let end = to.len();
    to[end - N..].copy_from_slice(last);
}
