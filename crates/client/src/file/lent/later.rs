//! Writes to lent files that go on after the call that asked for them: the bytes are put aside, and the second
//! thread writes them while the caller fetches the next ones. Who comes with those before that is done helps
//! first, so that both have the same to do.

use std::fmt;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::pair::PAIR;
use super::turn::{Turn, turns};
use super::{Inner, Lent, Loan, SHARED, add, unit_at};

/// What is to be done when a write is over: hears whether all bytes were written, and has them once more.
pub type Then = Box<dyn FnOnce(bool, &[u8]) + Send>;

/// Longer writes are done before the call returns.
const LONGEST: usize = 1 << 20;

/// Places for bytes that are kept for later writes: one is being written, one filled.
const KEPT: usize = 2;

const PAGE: usize = 4096;

/// Bytes that were put aside, from the beginning of a page on.
struct Aside {
    memory: Vec<u8>,
    length: usize,
}

/// Places that nobody uses.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Aside {
    fn free() -> MutexGuard<'static, Vec<Vec<u8>>> {
        FREE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(bytes: &[u8]) -> Aside {
        let kept = Aside::free().pop();
        let mut memory = kept.unwrap_or_else(|| vec![0; PAGE + LONGEST]);
        let start = memory.as_ptr().align_offset(PAGE);
        past_caches(&mut memory[start..][..bytes.len()], bytes);
        Aside {
            memory,
            length: bytes.len(),
        }
    }

    fn bytes(&self) -> &[u8] {
        let start = self.memory.as_ptr().align_offset(PAGE);
        &self.memory[start..][..self.length]
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let mut free = Aside::free();
        if free.len() < KEPT {
            free.push(std::mem::take(&mut self.memory));
        }
    }
}

/// Copies for another processor, which has what was there before in its caches. Where the two share none, as on
/// large machines or on virtual ones now and then, to write there in the usual way takes up to ten times as long.
fn past_caches(to: &mut [u8], from: &[u8]) {
    assert_eq!(to.len(), from.len());
    #[cfg(target_arch = "x86_64")]
    let (to, from) = {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};
        // SAFETY: any bytes are such a number.
        let (first, whole, rest) = unsafe { to.align_to_mut::<__m128i>() };
        let (before, from) = from.split_at(first.len());
        first.copy_from_slice(before);
        let (from, after) = from.split_at(size_of_val(whole));
        for (to, from) in whole.iter_mut().zip(from.chunks_exact(16)) {
            // SAFETY: 16 bytes each, those of `to` aligned; every processor of this kind can do it.
            unsafe { _mm_stream_si128(to, _mm_loadu_si128(from.as_ptr().cast())) };
        }
        // SAFETY: as above. Whoever is told of the bytes after this finds them.
        unsafe { _mm_sfence() };
        (rest, after)
    };
    to.copy_from_slice(from);
}

/// A write that is under way; over when the last of those who carry it out let go of it.
struct Later {
    file: Arc<Inner>,
    aside: Aside,
    end: u64,
    turns: Vec<Turn<Arc<Loan>, Vec<Range<usize>>>>,
    next: AtomicUsize,
    well: AtomicUsize,
    then: Mutex<Option<Then>>,
}

impl fmt::Debug for Later {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a write of {} bytes", self.aside.length)
    }
}

impl Later {
    /// Carries out what nobody has taken yet.
    fn share(&self) {
        let bytes = self.aside.bytes();
        while let Some(turn) = self.turns.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let slices = turn.slices.iter().cloned();
            let slices: Vec<_> = slices.map(|range| IoSlice::new(&bytes[range])).collect();
            if self.file.wrote(turn.server, &turn.loan, &slices, turn.at) {
                self.well.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        let written = *self.well.get_mut() == self.turns.len();
        if written {
            self.file.has_written(self.end);
        }
        let then = self.then.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(then) = then.take() {
            then(written, self.aside.bytes());
        }
    }
}

impl Lent {
    /// Begins to write `buffer` if all of its places are lent and the second thread is there, and returns before
    /// that is done. False when nothing was begun: then `then` hears of nothing.
    pub fn write_later(&self, file: &Arc<Inner>, buffer: &[u8], offset: u64, then: Then) -> bool {
        let fits = (SHARED..=LONGEST).contains(&buffer.len()) && file.shares(buffer.len());
        if !fits {
            return false;
        }
        if !PAIR.is_awake() {
            PAIR.stir();
            return false;
        }
        let mut parts = self.parts();
        let (mut at, mut place) = (0, offset);
        while at < buffer.len() {
            let length = unit_at(file, place).min((buffer.len() - at) as u64);
            let end = at + length as usize;
            add(&mut parts, file, place, at..end);
            (at, place) = (end, place + length);
        }
        let Some(loans) = self.loans(file, &parts) else {
            return false;
        };
        // There is one at a time.
        PAIR.hurry();
        let later = Later {
            file: file.clone(),
            aside: Aside::put(buffer),
            end: offset + buffer.len() as u64,
            // Two threads would only wait for each other at a single server's file.
            turns: turns(loans, parts, file.layout.servers.len() > 1, |ranges| ranges),
            next: AtomicUsize::new(0),
            well: AtomicUsize::new(0),
            then: Mutex::new(Some(then)),
        };
        PAIR.leave(Arc::new(move || later.share()));
        true
    }
}

/// Helps with what was left to the second thread, and waits until it is done.
pub fn hurry() {
    PAIR.hurry();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_aside_is_what_was_there() {
        let source: Vec<u8> = (0..10_000u32).map(|index| (index * 7) as u8).collect();
        for (from, to, length) in [
            (0, 0, 0),
            (1, 0, 5),
            (3, 7, 9000),
            (16, 32, 4096),
            (5, 15, 31),
        ] {
            let mut place = vec![255; 10_000];
            past_caches(&mut place[to..to + length], &source[from..from + length]);
            assert_eq!(place[to..to + length], source[from..from + length]);
            let others = place[..to].iter().chain(&place[to + length..]);
            assert!(others.into_iter().all(|byte| *byte == 255));
        }
        for round in 0..3 {
            let asides: Vec<_> = (0..4).map(|at| Aside::put(&source[round + at..])).collect();
            for (at, aside) in asides.iter().enumerate() {
                assert_eq!(aside.bytes(), &source[round + at..]);
                assert_eq!(aside.bytes().as_ptr() as usize % PAGE, 0);
            }
        }
    }
}
