//! What a thread moves at a time, of a transfer that two share.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

/// Bytes that a thread moves before it looks what else there is to do: whoever is done first waits for the other.
const TURN: usize = 128 << 10;

/// Some of a transfer's bytes, side by side in memory.
pub(super) trait Piece {
    fn length(&self) -> usize;
}

impl Piece for IoSlice<'_> {
    fn length(&self) -> usize {
        self.len()
    }
}

impl Piece for IoSliceMut<'_> {
    fn length(&self) -> usize {
        self.len()
    }
}

/// Where they lie in a buffer.
impl Piece for Range<usize> {
    fn length(&self) -> usize {
        self.len()
    }
}

/// What a thread moves to or from one server before it looks what else there is to do.
#[derive(Debug)]
pub(super) struct Turn<L, S> {
    pub server: usize,
    pub loan: L,
    pub at: u64,
    pub slices: S,
}

/// All of a request in turns, of one server after the other so that two threads rarely meet at one. If it is not
/// shared, each server's part is one.
pub(super) fn turns<L: Clone, T: Piece, S>(
    loans: Vec<Option<L>>,
    parts: Vec<(u64, Vec<T>)>,
    shared: bool,
    keep: impl Fn(Vec<T>) -> S,
) -> Vec<Turn<L, S>> {
    let mut turns = Vec::new();
    for (server, (loan, (mut at, mut slices))) in loans.into_iter().zip(parts).enumerate() {
        let Some(loan) = loan else { continue };
        for number in 0.. {
            let length = if shared {
                first_turn(&slices)
            } else {
                slices.len()
            };
            let rest = slices.split_off(length);
            let bytes: u64 = slices.iter().map(|slice| slice.length() as u64).sum();
            let turn = Turn {
                server,
                loan: loan.clone(),
                at,
                slices: keep(slices),
            };
            turns.push((number, turn));
            if rest.is_empty() {
                break;
            }
            (at, slices) = (at + bytes, rest);
        }
    }
    turns.sort_by_key(|(number, _)| *number);
    turns.into_iter().map(|(_, turn)| turn).collect()
}

/// How many slices make a turn.
fn first_turn<T: Piece>(slices: &[T]) -> usize {
    let mut bytes = 0;
    let full = slices.iter().position(|slice| {
        bytes += slice.length();
        bytes >= TURN
    });
    full.map_or(slices.len(), |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Piece for &[u8] {
        fn length(&self) -> usize {
            self.len()
        }
    }

    #[test]
    fn turns_are_of_one_server_after_the_other_and_move_each_byte_once() {
        let bytes = vec![0u8; 1 << 20];
        let unit = 64 << 10;
        let parts = || -> Vec<(u64, Vec<&[u8]>)> {
            let units = |server: usize, count: usize| {
                let all = bytes.chunks(unit).skip(server).step_by(4);
                (1000 * server as u64, all.take(count).collect())
            };
            vec![units(0, 4), (0, Vec::new()), units(2, 3), units(3, 1)]
        };
        let loans = || vec![Some('a'), None, Some('c'), Some('d')];
        let shape = |shared| -> Vec<_> {
            let turns = turns(loans(), parts(), shared, |slices| slices);
            let turn = |turn: &Turn<char, Vec<&[u8]>>| {
                assert_eq!(turn.server, (turn.loan as u8 - b'a') as usize);
                (turn.loan, turn.at, turn.slices.concat().len())
            };
            turns.iter().map(turn).collect()
        };
        let long = 2 * unit;
        let begin = [('a', 0, long), ('c', 2000, long), ('d', 3000, unit)];
        let rest = [('a', long as u64, long), ('c', 2000 + long as u64, unit)];
        assert_eq!(shape(true), [&begin[..], &rest].concat());
        let whole = [('a', 0, 4 * unit), ('c', 2000, 3 * unit), ('d', 3000, unit)];
        assert_eq!(shape(false), whole);
    }
}
