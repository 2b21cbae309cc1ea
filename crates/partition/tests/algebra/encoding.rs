//! Both forms of writing a partition down, and what is read from garbage.

use crate::expr::part;
use proptest::prelude::*;
use trireme_partition::{ArraySpec, Dist, Order, Part, Partition};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn parts_survive_both_forms((part, _) in part()) {
        prop_assert_eq!(&Part::decode(&part.encode()).unwrap(), &part);
        let text = part.to_string();
        prop_assert_eq!(&text.parse::<Part>().unwrap(), &part, "{}", text);
    }

    #[test]
    fn partitions_survive_both_forms(
        unit in 1u64..1 << 40, count in 1u32..2000, first in 0u32..2000,
        extents in prop::collection::vec(0u64..1 << 20, 1..4), ghost in any::<bool>(),
        column in any::<bool>(), processes in 1u32..9, record in 1u64..9000,
    ) {
        let mut all = vec![
            Partition::striped(unit, count, first % count).unwrap(),
            Partition::all(unit, count).unwrap(),
            Partition::named("rn", record, record * unit % (1 << 40) / record * record, processes).unwrap(),
        ];
        let dist: Vec<Dist> = (0..extents.len())
            .map(|d| if d == 0 && !ghost { Dist::Cyclic(unit) } else { Dist::Block })
            .collect();
        let grid = vec![processes; extents.len()];
        let order = if column { Order::ColumnMajor } else { Order::RowMajor };
        let mut spec = ArraySpec::new(&extents, 1, &dist, &grid).in_order(order);
        if ghost {
            spec = spec.with_ghosts(&vec![2; extents.len()]);
        }
        all.push(Partition::array(spec).unwrap());
        let parts = (0..processes).map(|i| all[3].part(i).unwrap()).collect();
        all.push(Partition::from_parts(parts).unwrap());
        for partition in all {
            prop_assert_eq!(&Partition::decode(&partition.encode()).unwrap(), &partition);
            let text = partition.to_string();
            prop_assert_eq!(&text.parse::<Partition>().unwrap(), &partition, "{}", text);
        }
    }

    #[test]
    fn a_damaged_encoding_is_an_error_or_a_valid_part(
        (part, _) in part(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let mut bytes = part.encode();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        if let Ok(part) = Part::decode(&bytes) {
            // Whatever it is now, it keeps its promises.
            prop_assert_eq!(&Part::decode(&part.encode()).unwrap(), &part);
            prop_assert_eq!(part.bytes_in(0..1 << 63), part.size());
            part.runs(0..1 << 63).take(100).for_each(drop);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), tag in 0u8..4) {
        let mut input = vec![1, tag];
        input.extend(bytes);
        let _ = Part::decode(&input);
        let _ = Partition::decode(&input);
    }

    #[test]
    fn random_text_never_panics(text in "[0-9xX(){}~:,/ a-zA-Z-]{0,40}") {
        let _ = text.parse::<Part>();
        let _ = text.parse::<Partition>();
    }
}

#[test]
fn the_text_of_the_papers_matrix_reads_as_a_user_would_write_it() {
    let text = "2-D 1280x1024 of 8 B, BLOCK x CYCLIC over 4x4, part 6";
    let part: Part = text.parse().unwrap();
    let partition = Partition::named("rbc", 8, 10 << 20, 16).unwrap();
    assert_eq!(partition.describe(6), text);
    assert_eq!(part, partition.part(6).unwrap());
}

#[test]
fn a_distribution_takes_a_few_bytes_whatever_the_arrays_size() {
    for bytes in [10u64 << 20, 1 << 40, 1 << 60] {
        let partition = Partition::named("rcc", 8, bytes, 16).unwrap();
        assert!(partition.encode().len() <= 40);
        assert!(partition.part(5).unwrap().encode().len() <= 40);
    }
}

#[test]
fn a_small_input_cannot_ask_for_much_memory() {
    // A list that claims four thousand million entries, and an interleaving of as many pieces.
    let huge = [1, 1, 0, 0, 3, 0xff, 0xff, 0xff, 0xff, 0x0f];
    assert!(Part::decode(&huge).is_err());
    let interleaved = "at 0: 1000000000x(1000x(1)/3)/2".parse::<Part>();
    assert!(interleaved.is_err(), "{interleaved:?}");
}

#[test]
fn a_list_that_interleaves_and_reaches_too_far_is_refused() {
    // By the fuzzer: places that each fit, and whose runs do not.
    let input = [
        1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 255, 1, 1, 3, 3, 1, 61, 1, 11, 255, 1, 1, 3, 1, 1, 1, 1, 1,
        145, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1, 1, 1, 1, 255, 1, 1, 3, 97, 116, 1,
        1, 255, 1, 1, 1, 255, 1, 1, 1,
    ];
    let error = Part::decode(&input).unwrap_err().to_string();
    assert!(error.contains("2^63"), "{error}");
}
