//! An allocator that counts, to show how little an operation allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts the bytes that the current thread asks for.
pub struct Counting;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Bytes allocated by this thread while `work` ran, freed or not.
pub fn allocated_by<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = BYTES.get();
    let result = work();
    (BYTES.get() - before, result)
}

// SAFETY: every call is passed on unchanged to the system allocator; counting touches only a
// thread-local number that needs no allocation itself.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.set(BYTES.get() + layout.size());
        // SAFETY: the caller's promises are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}
