//! Memory that bytes pass through on their way to the kernel, one for each thread.

use std::cell::RefCell;

const PAGE: usize = 4096;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends `length` bytes of this thread's buffer, which begin on a page: what an allocator gives lies a
/// few bytes further, and the kernel copies to that several times slower.
pub(crate) fn with_buffer<T>(length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < length + PAGE {
            buffer.resize(length + PAGE, 0);
        }
        let start = buffer.as_ptr().align_offset(PAGE);
        work(&mut buffer[start..start + length])
    })
}
