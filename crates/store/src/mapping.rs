//! A subfile's bytes in memory, for the kernel to copy from without a buffer in between.
//!
//! Nobody but the kernel may touch them: a subfile that is cut meanwhile makes an access fail, which
//! for a system call is an error and for a program its end.

use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::Subfile;

/// A mapped subfile.
#[derive(Debug)]
pub struct Mapping {
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping stays until drop and is only read, by the kernel.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Subfile {
    /// Maps the subfile as long as it is now; `None` if it is empty or cannot be mapped.
    pub fn map(&self) -> Option<Mapping> {
        let length = usize::try_from(self.stat().ok()?.size).ok()?;
        if length == 0 {
            return None;
        }
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::SHARED,
                self.as_fd(),
                0,
            )
        };
        let address = NonNull::new(address.ok()?.cast::<u8>())?;
        // SAFETY: our own mapping; only a hint.
        let _ = unsafe { rustix::mm::madvise(address.as_ptr().cast(), length, Advice::Sequential) };
        Some(Mapping { address, length })
    }
}

impl Mapping {
    /// The address of `length` bytes at `offset`, for system calls; `None` if not all of them are mapped.
    pub fn at(&self, offset: u64, length: usize) -> Option<*const u8> {
        let end = usize::try_from(offset).ok()?.checked_add(length)?;
        (end <= self.length).then(|| {
            self.address
                .as_ptr()
                .wrapping_add(offset as usize)
                .cast_const()
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length, and nobody keeps an address beyond our life.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length) };
    }
}
