//! A member's buffer as the one who directs a transfer reaches it (the papers' Memget and Memput):
//! copied in this process, moved by the kernel between processes, or sent over a socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::region::Region;
use crate::remote_memory::{self, Place};
use crate::{Deadline, Window};

/// Moves bytes of a member's buffer over a socket.
pub trait Wire: Send + Sync {
    /// Asks for ranges of the member's buffer.
    fn ask(&self, worker: usize, ranges: &[Range<u64>], deadline: Deadline) -> io::Result<()>;

    /// Fills `into` with what was asked for.
    fn take(
        &self,
        worker: usize,
        into: &mut [IoSliceMut<'_>],
        deadline: Deadline,
    ) -> io::Result<()>;

    /// Puts `from` to the ranges of the member's buffer.
    fn put(
        &self,
        worker: usize,
        ranges: &[Range<u64>],
        from: &mut [IoSlice<'_>],
        deadline: Deadline,
    ) -> io::Result<()>;

    /// Tells the member that nothing more comes.
    fn finish(&self, deadline: Deadline) -> io::Result<()>;

    /// Whether the member is still at the other end.
    fn is_open(&self) -> bool;
}

/// Where a member's buffer is.
#[derive(Debug, Clone)]
pub enum Whereabouts {
    /// In this very process.
    Here(Arc<Region>),
    /// In memory that is mapped here too, from this place on.
    Shared(Arc<Window>, u64),
    /// In another process of this host: its number, and the address there.
    Process(u32, u64),
    /// Somewhere else.
    Away,
}

/// A member's buffer.
pub struct Reach<'w> {
    at: Whereabouts,
    length: u64,
    wire: Box<dyn Wire + 'w>,
    /// The kernel does not let us at the process: the socket is used.
    forbidden: AtomicBool,
}

impl std::fmt::Debug for Reach<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes {:?}", self.length, self.at)
    }
}

/// Memory of ours, as the kernel wants it described.
pub type Local = libc::iovec;

/// Describes a part of a buffer.
pub(crate) fn local(address: *mut u8, length: usize) -> Local {
    Local {
        iov_base: address.cast(),
        iov_len: length,
    }
}

impl<'w> Reach<'w> {
    /// A buffer of `length` bytes.
    pub fn new(at: Whereabouts, length: u64, wire: Box<dyn Wire + 'w>) -> Reach<'w> {
        let at = match at {
            Whereabouts::Shared(window, place) if window.at(place, length).is_none() => {
                Whereabouts::Away
            }
            at => at,
        };
        Reach {
            at,
            length,
            wire,
            forbidden: AtomicBool::new(false),
        }
    }

    /// Whether the bytes go over a socket.
    pub fn is_away(&self) -> bool {
        match self.at {
            Whereabouts::Away => true,
            Whereabouts::Process(..) => self.forbidden.load(Ordering::Relaxed),
            _ => false,
        }
    }

    /// The address of the buffer's bytes in this process, if the kernel can be given it directly.
    pub fn mapped(&self) -> Option<*mut u8> {
        match &self.at {
            Whereabouts::Shared(window, place) => window.at(*place, self.length),
            _ => None,
        }
    }

    /// Fills `into` with ranges of the member's buffer; both are equally long in all.
    ///
    /// # Safety
    /// Each of `into` must be writable memory of ours that nobody else uses meanwhile.
    pub unsafe fn get(
        &self,
        worker: usize,
        ranges: &[Range<u64>],
        into: &[Local],
        deadline: Deadline,
    ) -> io::Result<()> {
        self.check(ranges)?;
        match &self.at {
            // SAFETY: the caller's promise; the ranges are inside the region, which is on loan.
            Whereabouts::Here(region) => region
                .with(|base| unsafe { copy(ranges, into, base, false) })
                .ok_or_else(gone),
            Whereabouts::Shared(window, place) => {
                let base = window.at(*place, self.length).expect("checked when made");
                // SAFETY: the caller's promise; the ranges are inside the mapping.
                unsafe { copy(ranges, into, base, false) };
                Ok(())
            }
            Whereabouts::Process(pid, base) if !self.forbidden.load(Ordering::Relaxed) => {
                let places = places(*base, ranges);
                // SAFETY: the caller's promise.
                match unsafe { remote_memory::pull(*pid, &places, into) } {
                    Err(error) if is_forbidden(&error) => {
                        self.forbidden.store(true, Ordering::Relaxed);
                        // SAFETY: the caller's promise.
                        unsafe { self.get(worker, ranges, into, deadline) }
                    }
                    other => other,
                }
            }
            _ => {
                self.ask(worker, ranges, deadline)?;
                // SAFETY: the caller's promise.
                unsafe { self.take(worker, into, deadline) }
            }
        }
    }

    /// Asks a member that [is away](Reach::is_away) for ranges of its buffer; [`Reach::take`] waits
    /// for them.
    pub fn ask(&self, worker: usize, ranges: &[Range<u64>], deadline: Deadline) -> io::Result<()> {
        self.check(ranges)?;
        self.wire.ask(worker, ranges, deadline)
    }

    /// Fills `into` with what was asked for.
    ///
    /// # Safety
    /// As for [`Reach::get`].
    pub unsafe fn take(&self, worker: usize, into: &[Local], deadline: Deadline) -> io::Result<()> {
        let mut slices: Vec<IoSliceMut<'_>> = into
            .iter()
            // SAFETY: the caller's promise.
            .map(|one| unsafe {
                IoSliceMut::new(std::slice::from_raw_parts_mut(
                    one.iov_base.cast(),
                    one.iov_len,
                ))
            })
            .collect();
        self.wire.take(worker, &mut slices, deadline)
    }

    /// Copies `from` to ranges of the member's buffer; both are equally long in all.
    ///
    /// # Safety
    /// Each of `from` must be readable memory of ours that nobody changes meanwhile.
    pub unsafe fn put(
        &self,
        worker: usize,
        ranges: &[Range<u64>],
        from: &[Local],
        deadline: Deadline,
    ) -> io::Result<()> {
        self.check(ranges)?;
        match &self.at {
            // SAFETY: the caller's promise; the ranges are inside the region, which is on loan.
            Whereabouts::Here(region) => region
                .with(|base| unsafe { copy(ranges, from, base, true) })
                .ok_or_else(gone),
            Whereabouts::Shared(window, place) => {
                let base = window.at(*place, self.length).expect("checked when made");
                // SAFETY: the caller's promise; the ranges are inside the mapping.
                unsafe { copy(ranges, from, base, true) };
                Ok(())
            }
            Whereabouts::Process(pid, base) if !self.forbidden.load(Ordering::Relaxed) => {
                // A member that gave up has closed its connection first: its memory may be in other
                // use by now.
                if !self.wire.is_open() {
                    return Err(gone());
                }
                let places = places(*base, ranges);
                // SAFETY: the caller's promise; the member waits for the bytes.
                match unsafe { remote_memory::push(*pid, &places, from) } {
                    Err(error) if is_forbidden(&error) => {
                        self.forbidden.store(true, Ordering::Relaxed);
                        // SAFETY: the caller's promise.
                        unsafe { self.put(worker, ranges, from, deadline) }
                    }
                    other => other,
                }
            }
            _ => {
                let mut slices: Vec<IoSlice<'_>> = from
                    .iter()
                    // SAFETY: the caller's promise.
                    .map(|one| unsafe {
                        IoSlice::new(std::slice::from_raw_parts(
                            one.iov_base.cast_const().cast(),
                            one.iov_len,
                        ))
                    })
                    .collect();
                self.wire.put(worker, ranges, &mut slices, deadline)
            }
        }
    }

    /// Tells a member that [is away](Reach::is_away) that nothing more comes.
    pub fn finish(&self, deadline: Deadline) -> io::Result<()> {
        self.wire.finish(deadline)
    }

    fn check(&self, ranges: &[Range<u64>]) -> io::Result<()> {
        if ranges
            .iter()
            .all(|range| range.start <= range.end && range.end <= self.length)
        {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "beyond the member's buffer",
        ))
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the member gave up")
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

fn places(base: u64, ranges: &[Range<u64>]) -> Vec<Place> {
    ranges
        .iter()
        .map(|range| Place {
            address: base.wrapping_add(range.start),
            length: range.end - range.start,
        })
        .collect()
}

/// Copies between ranges of a buffer at `base` and `local`: there when `put`, else from there.
///
/// # Safety
/// All of both sides must be valid memory, `local` as [`Reach::get`] and [`Reach::put`] ask.
unsafe fn copy(ranges: &[Range<u64>], local: &[Local], base: *mut u8, put: bool) {
    let mut ours = local.iter().copied();
    let mut one = ours.next();
    for range in ranges {
        let mut at = range.start;
        while at < range.end {
            let Some(current) = &mut one else { return };
            let step = ((range.end - at) as usize).min(current.iov_len);
            // SAFETY: `step` bytes are inside both sides, which are different buffers.
            unsafe {
                let there = base.add(at as usize);
                if put {
                    std::ptr::copy_nonoverlapping(current.iov_base.cast::<u8>(), there, step);
                } else {
                    std::ptr::copy_nonoverlapping(there, current.iov_base.cast::<u8>(), step);
                }
            }
            at += step as u64;
            current.iov_base = current.iov_base.wrapping_byte_add(step);
            current.iov_len -= step;
            if current.iov_len == 0 {
                one = ours.next();
            }
        }
    }
}
