//! Complement, clipping, coverage and overlap against counting owners byte by byte.

use crate::expr::part;
use crate::model::Model;
use proptest::prelude::*;
use trireme_partition::{Part, Partition, covers, multiplicity, overlap};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn owners_are_counted(
        parts in prop::collection::vec(part(), 1..5), start in 0u64..100, len in 1u64..400,
    ) {
        let range = start..start + len;
        let maps: Vec<_> = parts.iter().map(|(_, model)| model.by_file()).collect();
        let counts = range.clone()
            .map(|file| maps.iter().filter(|map| map.contains_key(&file)).count() as u32);
        let (least, most) = (counts.clone().min().unwrap(), counts.max().unwrap());
        let refs: Vec<&Part> = parts.iter().map(|(part, _)| part).collect();
        prop_assert_eq!(multiplicity(&refs, range.clone()), least..=most);
        prop_assert_eq!(covers(&refs, range.clone()), least > 0);
        if let [a, b] = refs[..] {
            prop_assert_eq!(overlap(a, b, range), most > 1);
        }
    }

    #[test]
    fn the_complement_is_the_rest((part, model) in part(), start in 0u64..200, len in 0u64..400) {
        let range = start..start + len;
        let owned = model.by_file();
        let free: Vec<i64> =
            range.clone().filter(|file| !owned.contains_key(file)).map(|f| f as i64).collect();
        let free = Model::new(&free).unwrap();
        let rest = part.complement(range.clone()).unwrap();
        prop_assert_eq!(rest.runs(0..1000).collect::<Vec<_>>(), free.runs(0..1000), "{}", part);
        prop_assert!(covers(&[&part, &rest], range.clone()));
        prop_assert!(!overlap(&part, &rest, range));
    }

    #[test]
    fn clipping_keeps_the_range((part, model) in part(), start in 0u64..200, len in 0u64..400) {
        let range = start..start + len;
        let mut kept: Vec<i64> = model.offsets.iter()
            .filter(|file| range.contains(file)).map(|&f| f as i64).collect();
        kept.sort_unstable();
        let kept = Model::new(&kept).unwrap();
        let clipped = part.clip(range).unwrap();
        prop_assert_eq!(clipped.runs(0..1000).collect::<Vec<_>>(), kept.runs(0..1000), "{}", part);
    }
}

#[test]
fn a_tebibyte_distribution_covers_its_array_once() {
    let bytes = 1u64 << 40;
    for name in ["rb", "rc", "rnb", "rbb", "rcb", "rbc", "rcc", "rcn"] {
        let view = Partition::named(name, 8, bytes, 16).unwrap();
        let parts: Vec<Part> = (0..16).map(|i| view.part(i).unwrap()).collect();
        let refs: Vec<&Part> = parts.iter().collect();
        assert_eq!(multiplicity(&refs, 0..bytes), 1..=1, "{name}");
        assert_eq!(multiplicity(&refs[..15], 0..bytes), 0..=1, "{name}");
        assert!(!covers(&refs, 0..bytes + 1), "{name}");
    }
}
