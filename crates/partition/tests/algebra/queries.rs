//! Every constructor and every query of one part, against the model.

use crate::expr::{expr, part};
use proptest::prelude::*;
use trireme_partition::{Extent, Part, Run};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6000))]

    #[test]
    fn a_type_is_accepted_exactly_when_no_byte_is_there_twice(
        e in expr(), displacement in 0u64..40, count in 0u64..4,
    ) {
        let (part, model) = e.part(displacement, count);
        match (part, model) {
            (Ok(part), Some(model)) => prop_assert_eq!(part.size(), model.offsets.len() as u64),
            (Err(_), None) => {}
            (part, model) => prop_assert!(false, "{part:?}\nbut the model says {model:?}"),
        }
    }

    #[test]
    fn offsets_map_both_ways((part, model) in part()) {
        let by_file = model.by_file();
        for (view, &file) in model.offsets.iter().enumerate() {
            prop_assert_eq!(part.to_file(view as u64), Some(file), "{}", part);
        }
        prop_assert_eq!(part.to_file(model.offsets.len() as u64), None);
        for file in 0..model.end() + 3 {
            prop_assert_eq!(part.to_view(file), by_file.get(&file).copied(), "{} at {}", part, file);
        }
        let in_order = model.offsets.is_sorted();
        prop_assert_eq!(part.is_ordered(), in_order, "{}", part);
    }

    #[test]
    fn ranges_are_counted_walked_and_bounded((part, model) in part(), a in 0u64..400, len in 0u64..400) {
        let range = a..a + len;
        let runs = model.runs(range.clone());
        let bytes: u64 = runs.iter().map(|run| run.len).sum();
        prop_assert_eq!(part.bytes_in(range.clone()), bytes, "{} in {:?}", part, range);
        prop_assert_eq!(part.runs(range.clone()).collect::<Vec<_>>(), &runs[..], "{} in {:?}", part, range);
        prop_assert_eq!(part.runs_in(range.clone()), runs.len() as u64, "{} in {:?}", part, range);
        let touched = part.view_range(range.clone());
        if let (Some(low), Some(high)) = (
            runs.iter().map(|r| r.view).min(), runs.iter().map(|r| r.view + r.len).max()) {
            prop_assert_eq!(&touched, &(low..high), "{} in {:?}", part, range);
        } else {
            prop_assert!(touched.is_empty());
        }
        let next = model.by_file().range(a..).next().map(|(&file, _)| file);
        prop_assert_eq!(part.next_owned(a), next);
    }

    #[test]
    fn batches_are_the_same_bytes((part, model) in part(), a in 0u64..300, len in 0u64..300) {
        let range = a..a + len;
        let mut seen = Vec::new();
        for batch in part.batches(range.clone()) {
            for i in 0..batch.count {
                for byte in 0..batch.len {
                    let view = batch.view.wrapping_add_signed(i as i64 * batch.step) + byte;
                    seen.push((batch.file + i * batch.stride + byte, view));
                }
            }
        }
        let expected: Vec<_> =
            model.by_file().into_iter().filter(|(file, _)| range.contains(file)).collect();
        prop_assert_eq!(seen, expected, "{}", part);
    }

    #[test]
    fn extent_lists_are_the_same_bytes_in_any_order(
        extents in prop::collection::vec((0u64..60, 0u64..5), 0..12),
    ) {
        let list: Vec<Extent> = extents.iter().map(|&(o, len)| Extent { offset: o, len }).collect();
        let offsets: Vec<i64> =
            extents.iter().flat_map(|&(o, len)| o as i64..(o + len) as i64).collect();
        match (Part::from_extents(&list), crate::model::Model::new(&offsets)) {
            (Ok(part), Some(model)) => {
                let runs: Vec<Run> = part.runs(0..100).collect();
                prop_assert_eq!(runs, model.runs(0..100));
            }
            (Err(_), None) => {}
            (part, model) => prop_assert!(false, "{part:?}\nbut the model says {model:?}"),
        }
    }
}

#[test]
fn a_regular_list_of_extents_becomes_a_few_numbers() {
    let list: Vec<Extent> = (0..10_000)
        .map(|i| Extent {
            offset: (i / 100) * 1_000_000 + (i % 100) * 24,
            len: 8,
        })
        .collect();
    let part = Part::from_extents(&list).unwrap();
    assert_eq!(part.to_string(), "at 0: 100x(100x(8)/24)/1000000");
    assert!(part.encode().len() < 20);
}

#[test]
fn the_end_of_the_largest_file_can_be_reached() {
    let part = Part::everything_from(5).unwrap();
    assert_eq!(part.to_file(part.size() - 1), Some(i64::MAX as u64 - 1));
    let layout = trireme_partition::Partition::striped(1 << 20, 7, 3).unwrap();
    let last = (1 << 63) - (64 << 20);
    let owner = layout.owner_of(last).unwrap().unwrap();
    assert!(layout.part(owner).unwrap().to_view(last).is_some());
}
