//! Pieces of (view ∩ layout part ∩ range) against byte-by-byte intersection.

use crate::expr::part;
use crate::model::Model;
use proptest::prelude::*;
use std::ops::Range;
use trireme_partition::{Partition, Piece};

fn brute(view: &Model, layout: &Model, range: &Range<u64>) -> Vec<Piece> {
    let (view, layout) = (view.by_file(), layout.by_file());
    let mut pieces: Vec<Piece> = Vec::new();
    for (&file, &view) in view.range(range.clone()) {
        let Some(&part) = layout.get(&file) else {
            continue;
        };
        match pieces.last_mut() {
            Some(p)
                if p.file + p.len == file && p.view + p.len == view && p.part + p.len == part =>
            {
                p.len += 1;
            }
            _ => pieces.push(Piece {
                file,
                view,
                part,
                len: 1,
            }),
        }
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_two_parts_intersect_byte_by_byte(
        (a, a_model) in part(), (b, b_model) in part(), start in 0u64..150, len in 0u64..500,
    ) {
        let range = start..start + len;
        let pieces: Vec<Piece> = a.intersect(&b, range.clone()).collect();
        prop_assert_eq!(pieces, brute(&a_model, &b_model, &range), "{}\nwith {}", a, b);
    }

    #[test]
    fn a_view_falls_into_stripes(
        (view, model) in part(), unit in 1u64..40, count in 1u32..5, first in 0u32..5, len in 0u64..500,
    ) {
        let layout = Partition::striped(unit, count, first % count).unwrap();
        let range = 0..len;
        let mut bytes = 0;
        for index in 0..count {
            let part = layout.part(index).unwrap();
            let mine: Vec<i64> = (0..1000)
                .filter(|&o| layout.owner_of(o).unwrap() == Some(index))
                .map(|o| o as i64)
                .collect();
            let pieces: Vec<Piece> = view.intersect(&part, range.clone()).collect();
            bytes += pieces.iter().map(|p| p.len).sum::<u64>();
            let stripes = Model::new(&mine).unwrap();
            prop_assert_eq!(pieces, brute(&model, &stripes, &range), "{} with {}", view, layout);
        }
        prop_assert_eq!(bytes, view.bytes_in(range));
    }
}

#[test]
fn a_tebibyte_is_intersected_from_the_middle() {
    let bytes = 1u64 << 40;
    let view = Partition::named("rcc", 8, bytes, 16)
        .unwrap()
        .part(6)
        .unwrap();
    let layout = Partition::named("rcb", 8, bytes, 16)
        .unwrap()
        .part(9)
        .unwrap();
    let middle = bytes / 2 + 12_345;
    for piece in view.intersect(&layout, middle..bytes).take(1000) {
        assert!(piece.file >= middle);
        assert_eq!(view.to_view(piece.file), Some(piece.view));
        assert_eq!(layout.to_view(piece.file), Some(piece.part));
        assert_eq!(piece.len, 8);
    }
}
