//! Pack and unpack against copying byte by byte.

use crate::expr::part;
use crate::model::Model;
use proptest::prelude::*;
use trireme_partition::pack::{Owner, pack, unpack};
use trireme_partition::{Part, Partition};

/// A block whose bytes tell where they are.
fn block(offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64)
        .map(|o| (o.wrapping_mul(0x9e37_79b9) >> 7) as u8)
        .collect()
}

fn deal_out(parts: &[(Part, Model)], offset: u64, len: usize) -> Result<(), TestCaseError> {
    let data = block(offset, len);
    let range = offset..offset + len as u64;
    let windows: Vec<_> = parts
        .iter()
        .map(|(part, _)| part.view_range(range.clone()))
        .collect();
    let mut buffers: Vec<Vec<u8>> = windows
        .iter()
        .map(|w| vec![0xee; (w.end - w.start) as usize])
        .collect();
    let mut owners: Vec<_> = parts
        .iter()
        .zip(&mut buffers)
        .zip(&windows)
        .map(|(((part, _), buffer), window)| Owner::new(part, window.start, &mut buffer[..]))
        .collect();
    unpack(&data, offset, &mut owners).unwrap();
    for (((_, model), buffer), window) in parts.iter().zip(&buffers).zip(&windows) {
        for view in window.clone() {
            let file = model.offsets[view as usize];
            let expected = if range.contains(&file) {
                data[(file - offset) as usize]
            } else {
                0xee
            };
            prop_assert_eq!(buffer[(view - window.start) as usize], expected);
        }
    }
    let mut packed = vec![0x55; len];
    let owners: Vec<_> = parts
        .iter()
        .zip(&buffers)
        .zip(&windows)
        .map(|(((part, _), buffer), window)| Owner::new(part, window.start, &buffer[..]))
        .collect();
    pack(&mut packed, offset, &owners).unwrap();
    let owned: std::collections::BTreeSet<u64> = parts
        .iter()
        .flat_map(|(_, model)| model.offsets.iter().copied())
        .collect();
    for (i, &byte) in packed.iter().enumerate() {
        let expected = if owned.contains(&(offset + i as u64)) {
            data[i]
        } else {
            0x55
        };
        prop_assert_eq!(byte, expected, "at {}", i);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn any_owners_get_their_bytes_and_give_them_back(
        parts in prop::collection::vec(part(), 1..4), offset in 0u64..200, len in 0usize..500,
    ) {
        deal_out(&parts, offset, len)?;
    }

    #[test]
    fn whole_distributions_are_dealt_out(
        name in prop::sample::select(vec!["rb", "rc", "rnb", "rbb", "rcb", "rbc", "rcc", "rcn"]),
        record in prop::sample::select(vec![1u64, 3, 4, 8, 16, 24, 1024]),
        records in 1u64..3000, processes in 1u32..9, offset in 0u64..5000, len in 0usize..60_000,
    ) {
        let bytes = records * record;
        let partition = Partition::named(name, record, bytes, processes).unwrap();
        let parts: Vec<Part> = (0..processes).map(|i| partition.part(i).unwrap()).collect();
        let range = offset..offset + len as u64;
        let data = block(offset, len);
        let windows: Vec<_> = parts.iter().map(|p| p.view_range(range.clone())).collect();
        let mut buffers: Vec<Vec<u8>> =
            windows.iter().map(|w| vec![0; (w.end - w.start) as usize]).collect();
        let mut owners: Vec<_> = parts.iter().zip(&mut buffers).zip(&windows)
            .map(|((part, buffer), window)| Owner::new(part, window.start, &mut buffer[..]))
            .collect();
        unpack(&data, offset, &mut owners).unwrap();
        for ((part, buffer), window) in parts.iter().zip(&buffers).zip(&windows) {
            for run in part.runs(range.clone()) {
                let (a, b) = ((run.view - window.start) as usize, (run.file - offset) as usize);
                prop_assert_eq!(&buffer[a..a + run.len as usize], &data[b..b + run.len as usize]);
            }
        }
        let mut back = vec![0; len];
        let owners: Vec<_> = parts.iter().zip(&buffers).zip(&windows)
            .map(|((part, buffer), window)| Owner::new(part, window.start, &buffer[..]))
            .collect();
        pack(&mut back, offset, &owners).unwrap();
        let owned = bytes.saturating_sub(offset).min(len as u64) as usize;
        prop_assert_eq!(&back[..owned], &data[..owned]);
    }
}

#[test]
fn a_buffer_that_is_too_small_is_refused_before_anything_is_copied() {
    let part = Part::contiguous(0, 100).unwrap();
    let mut buffer = [7; 99];
    let error = unpack(&[0; 100], 0, &mut [Owner::new(&part, 0, &mut buffer[..])]).unwrap_err();
    assert!(
        error.to_string().contains("100") && error.to_string().contains("99"),
        "{error}"
    );
    assert_eq!(buffer, [7; 99]);
}
