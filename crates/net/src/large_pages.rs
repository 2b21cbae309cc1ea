//! Large pages for buffers that other processes reach into: the kernel looks up every page of such a
//! buffer on every transfer, and of large ones there are 512 times fewer.
//!
//! The buffer stays the program's own; nothing but its speed changes. A new buffer is only marked, which
//! is free and helps the parts that have not been touched yet. One that comes back is moved to large
//! pages. That costs about three times what it saves on each transfer, so it is done on the fourth.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Bytes of a large page, of which a buffer must hold at least two to be worth it.
const PAGE: usize = 2 << 20;

/// Buffers remembered, the latest.
const REMEMBERED: usize = 64;

/// Uses of a buffer before it is moved.
const PAYS: u64 = 4;

/// A buffer and how often it came, as a whole or in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    address: usize,
    times: u64,
}

/// What to do for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Mark,
    Move,
    Nothing,
}

/// Takes note of a buffer that is about to be reached into.
///
/// # Safety
/// It must be memory of this process that stays mapped meanwhile.
pub unsafe fn prepare(address: *mut u8, length: usize) {
    static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());
    let start = (address as usize).next_multiple_of(PAGE);
    let end = (address as usize).saturating_add(length) / PAGE * PAGE;
    if end < start + 2 * PAGE || !is_wanted() {
        return;
    }
    let step = next(
        &mut SEEN.lock().unwrap_or_else(PoisonError::into_inner),
        address as usize,
    );
    let at = address.wrapping_add(start - address as usize);
    let advise = |advice| {
        // SAFETY: inside the caller's memory; neither advice changes a byte of it. A kernel that does
        // not know or want it says so, and all stays as it was.
        let _ = unsafe { libc::madvise(at.cast(), end - start, advice) };
    };
    match step {
        Step::Mark => advise(libc::MADV_HUGEPAGE),
        Step::Move => {
            advise(libc::MADV_HUGEPAGE);
            advise(libc::MADV_COLLAPSE);
        }
        Step::Nothing => {}
    }
}

/// Counts a use. The move is tried again now and then: the program may have got other memory at the
/// same address, or the kernel may have had no large pages.
fn next(seen: &mut Vec<Seen>, address: usize) -> Step {
    let known = seen.iter().position(|one| one.address == address);
    let mut one = match known {
        Some(index) => seen.remove(index),
        None => Seen { address, times: 0 },
    };
    one.times += 1;
    if seen.len() == REMEMBERED {
        seen.remove(0);
    }
    seen.push(one);
    match one.times {
        1 => Step::Mark,
        times if times >= PAYS && times.is_power_of_two() => Step::Move,
        _ => Step::Nothing,
    }
}

/// Whether who runs this machine allows large pages.
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| {
        std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled")
            .is_ok_and(|text| !text.contains("[never]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_comes_back_is_moved_once_in_a_while() {
        let mut seen = Vec::new();
        let steps: Vec<Step> = (0..20).map(|_| next(&mut seen, 1)).collect();
        let moves: Vec<usize> = (0..20).filter(|&i| steps[i] == Step::Move).collect();
        assert_eq!(steps[0], Step::Mark);
        assert_eq!(moves, [3, 7, 15]);
        assert_eq!(next(&mut seen, 2), Step::Mark);
        for other in 0..REMEMBERED {
            next(&mut seen, 10 + other);
        }
        assert_eq!(seen.len(), REMEMBERED);
        assert_eq!(next(&mut seen, 1), Step::Mark, "forgotten by then");
    }

    #[test]
    fn bytes_stay_as_they_are_while_others_change_them() {
        let mut buffer: Vec<u8> = (0..5 * PAGE).map(|i| (i / 4096) as u8).collect();
        let (address, length) = (buffer.as_mut_ptr(), buffer.len());
        let shared = address as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for round in 0..200u8 {
                    // SAFETY: the only one who touches the bytes meanwhile; the advice does not.
                    unsafe { (shared as *mut u8).add(3 * PAGE).write_volatile(round) };
                }
            });
            for _ in 0..16 {
                // SAFETY: the buffer outlives the call.
                unsafe { prepare(address, length) };
            }
        });
        for (i, byte) in buffer.iter().enumerate() {
            let wanted = if i == 3 * PAGE { 199 } else { (i / 4096) as u8 };
            assert_eq!(*byte, wanted, "byte {i}");
        }
        // Too short, odd and at the end of the addresses: nothing happens.
        // SAFETY: never touched, since too short.
        unsafe {
            prepare(address.wrapping_add(1), 4096);
            prepare(std::ptr::null_mut(), 0);
        }
    }
}
