//! A way around a weakness of processors: some copy several times slower to a place that lies up to 31
//! bytes further into its page than the source does. Files begin on a page, and allocators put large
//! buffers 16 bytes behind the beginning of one, so most reads of most programs are of this kind
//! (`trireme bench stream`, local files: 3.3 instead of 9.8 GB/s). Two good copies beat one bad one.

use std::cell::RefCell;

/// Bytes at a time: they stay in the second-level cache until they are copied on.
pub(super) const DETOUR: usize = 256 << 10;

const PAGE: usize = 4096;

/// How far into its page the buffer in between begins: far from where files and allocators do.
const AMID: usize = PAGE / 2;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Whether bytes of a file from `offset` on come to `buffer` faster by way of another.
pub(super) fn pays(buffer: &[u8], offset: u64) -> bool {
    let further = (buffer.as_ptr() as usize).wrapping_sub(offset as usize) % PAGE;
    (1..32).contains(&further)
}

/// Lends this thread's buffer in between.
pub(super) fn with<T>(work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(PAGE + AMID + DETOUR, 0);
        let start = buffer.as_ptr().align_offset(PAGE) + AMID;
        work(&mut buffer[start..start + DETOUR])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_a_little_further_into_their_page_than_the_file_are_avoided() {
        let memory = vec![0; 3 * PAGE];
        let start = memory.as_ptr().align_offset(PAGE);
        for (place, offset, expected) in [
            (0, 0, false),
            (16, 0, true),
            (31, 1 << 40, true),
            (32, 0, false),
            (16, 16, false),
            (0, PAGE - 16, true),
            (PAGE - 16, 0, false),
        ] {
            let buffer = &memory[start + place..];
            assert_eq!(pays(buffer, offset as u64), expected, "{place} {offset}");
        }
        with(|there| {
            assert_eq!(there.len(), DETOUR);
            assert!(!pays(there, 0) && there.as_ptr() as usize % PAGE == AMID);
        });
    }
}
