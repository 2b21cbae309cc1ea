//! The bytes that benchmarks move: every word says where it belongs, so that each run can be verified.
//!
//! The word at offset 8 k of a file is k * MIX + seed. Another seed for each write tells a run that
//! wrote nothing from one that wrote what was there before; `mpi/patterns.c` does the same.

use trireme::Part;

/// Odd, and with bits all over the word: neighbours differ in every byte.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a buffer holds before a read: no word that any file has.
pub const POISON: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// The word at this offset of the file, for seed 0.
fn word(offset: u64) -> u64 {
    (offset / 8).wrapping_mul(MIX)
}

/// The words of a part in view order, for seed 0: what is added to them is the seed.
pub fn of_part(part: &Part) -> Vec<u64> {
    let mut words = Vec::with_capacity((part.size() / 8) as usize);
    for run in part.runs(part.file_span()) {
        words.extend((run.file..run.file + run.len).step_by(8).map(word));
    }
    words
}

/// Words that begin on a page, as those of `mpi/patterns.c` do. Where an allocator puts large buffers, 16
/// bytes after the beginning of a page, some processors copy from the page cache several times slower,
/// and then that is what is measured.
#[derive(Debug, Default)]
pub struct Buffer {
    store: Vec<u64>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// Makes it so long; what it holds then is anything.
    fn resize(&mut self, length: usize) {
        const PAGE: usize = 4096;
        self.store.resize(length + PAGE / 8, 0);
        self.start = self.store.as_ptr().cast::<u8>().align_offset(PAGE) / 8;
        self.length = length;
    }

    /// So many words, all of them [`POISON`].
    pub fn poison(&mut self, length: usize) {
        self.resize(length);
        self.fill(POISON);
    }

    /// The words of `base` for a seed.
    pub fn seed(&mut self, base: &[u64], seed: u64) {
        self.resize(base.len());
        for (word, base) in self.iter_mut().zip(base) {
            *word = base.wrapping_add(seed);
        }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        &self.store[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u64] {
        &mut self.store[self.start..self.start + self.length]
    }
}

/// Whether `words` are those of `base` for a seed.
pub fn same(words: &[u64], base: &[u64], seed: u64) -> bool {
    words.len() == base.len()
        && words
            .chunks(4096)
            .zip(base.chunks(4096))
            .all(|(words, base)| {
                // Without an early way out this is as fast as memory.
                words
                    .iter()
                    .zip(base)
                    .fold(0, |wrong, (a, b)| wrong | (a ^ b.wrapping_add(seed)))
                    == 0
            })
}

/// Whether `words` are those of the file from `offset` on.
pub fn same_from(words: &[u64], offset: u64, seed: u64) -> bool {
    let mut wrong = 0;
    for (i, found) in words.iter().enumerate() {
        wrong |= found ^ word(offset + 8 * i as u64).wrapping_add(seed);
    }
    wrong == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use trireme::Partition;

    #[test]
    fn a_wrong_or_misplaced_word_is_noticed() {
        let part = Partition::named("rcc", 8, 1 << 16, 4)
            .unwrap()
            .part(3)
            .unwrap();
        let base = of_part(&part);
        let mut words = Buffer::default();
        words.seed(&base, 77);
        assert_eq!(words.as_ptr() as usize % 4096, 0);
        assert!(same(&words, &base, 77));
        assert!(!same(&words, &base, 78));
        assert!(!same(&words[1..], &base, 77));
        words.swap(5, 6);
        assert!(!same(&words, &base, 77));
    }

    #[test]
    fn a_part_holds_the_words_of_its_offsets() {
        let part = Partition::named("rb", 8, 800, 4).unwrap().part(2).unwrap();
        let base = of_part(&part);
        assert_eq!(base.len(), 25);
        assert!(same_from(&base, 400, 0));
        assert!(!same_from(&base, 408, 0));
    }
}
