//! Memory that bytes pass through on their way to the kernel.

use std::sync::{Mutex, PoisonError};

const PAGE: usize = 4096;

/// Buffers that are kept for later, at most: as many as threads that stay.
const KEPT: usize = 8;

/// Buffers that nobody uses. The last one that was used is the next: it is still in the processor's cache.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// Lends `length` bytes that begin on a page: what an allocator gives lies a few bytes further, and the
/// kernel copies to that several times slower.
pub(crate) fn with_buffer<T>(length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    let free = || FREE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = free().pop().unwrap_or_default();
    if buffer.len() < length + PAGE {
        buffer.resize(length + PAGE, 0);
    }
    let start = buffer.as_ptr().align_offset(PAGE);
    let result = work(&mut buffer[start..start + length]);
    let mut free = free();
    if free.len() < KEPT {
        free.push(buffer);
    }
    drop(free);
    result
}
