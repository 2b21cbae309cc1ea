//! Distributed arrays and hyperslabs against element-by-element ownership.

use crate::expr::{dimension, indices, owner};
use crate::model::Model;
use proptest::prelude::*;
use trireme_partition::{ArraySpec, Dist, Hyperslab, Order, Part, Partition};

fn orders() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::RowMajor), Just(Order::ColumnMajor)]
}

fn model(shape: &[u64], record: u64, order: Order, mine: impl Fn(&[u64]) -> bool) -> Model {
    let elements = indices(shape, order);
    let owned = elements.iter().enumerate().filter(|(_, index)| mine(index));
    let bytes = owned.flat_map(|(n, _)| (0..record).map(move |b| n as u64 * record + b));
    Model {
        offsets: bytes.collect(),
    }
}

fn same(part: &Part, model: &Model) -> Result<(), TestCaseError> {
    let end = model.end() + 10;
    prop_assert_eq!(
        part.runs(0..end).collect::<Vec<_>>(),
        model.runs(0..end),
        "{}",
        part
    );
    prop_assert_eq!(part.size(), model.offsets.len() as u64);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_element_belongs_to_its_hpf_owner(
        dims in prop::collection::vec(dimension(), 1..4),
        record in 1u64..10,
        order in orders(),
    ) {
        let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
        let dist: Vec<Dist> = dims.iter().map(|d| d.1).collect();
        let grid: Vec<u32> = dims.iter().map(|d| d.2).collect();
        let spec = ArraySpec::new(&shape, record, &dist, &grid).in_order(order);
        let partition = Partition::array(spec).unwrap();
        let wide: Vec<u64> = grid.iter().map(|&p| u64::from(p)).collect();
        for (rank, place) in indices(&wide, Order::RowMajor).iter().enumerate() {
            let mine = |index: &[u64]| (0..dims.len()).all(|d| {
                u64::from(owner(dist[d], shape[d], grid[d], index[d])) == place[d]
            });
            same(&partition.part(rank as u32).unwrap(), &model(&shape, record, order, mine))?;
        }
    }

    #[test]
    fn ghost_cells_widen_a_block_on_both_sides(
        dims in prop::collection::vec((1u64..8, 1u32..4, 0u64..3), 1..3),
        record in 1u64..5,
        order in orders(),
    ) {
        let shape: Vec<u64> = dims.iter().map(|d| d.0).collect();
        let grid: Vec<u32> = dims.iter().map(|d| d.1).collect();
        let ghost: Vec<u64> = dims.iter().map(|d| d.2).collect();
        let dist = vec![Dist::Block; dims.len()];
        let spec = ArraySpec::new(&shape, record, &dist, &grid).in_order(order);
        let partition = Partition::array(spec.with_ghosts(&ghost)).unwrap();
        let wide: Vec<u64> = grid.iter().map(|&p| u64::from(p)).collect();
        for (rank, place) in indices(&wide, Order::RowMajor).iter().enumerate() {
            let mine = |index: &[u64]| (0..dims.len()).all(|d| {
                let block = shape[d].div_ceil(wide[d]);
                let (start, end) = (place[d] * block, ((place[d] + 1) * block).min(shape[d]));
                start < end && index[d] + ghost[d] >= start && index[d] < end + ghost[d]
            });
            same(&partition.part(rank as u32).unwrap(), &model(&shape, record, order, mine))?;
        }
    }

    #[test]
    fn hyperslabs_select_their_blocks(
        dims in prop::collection::vec((1u64..4, 1u64..4, 0u64..3, 0u64..3, 0u64..3), 1..4),
        record in 1u64..5,
        order in orders(),
    ) {
        let count: Vec<u64> = dims.iter().map(|d| d.0).collect();
        let block: Vec<u64> = dims.iter().map(|d| d.1).collect();
        let stride: Vec<u64> = dims.iter().map(|d| d.1 + d.2).collect();
        let start: Vec<u64> = dims.iter().map(|d| d.3).collect();
        let shape: Vec<u64> = (0..dims.len())
            .map(|d| start[d] + (count[d] - 1) * stride[d] + block[d] + dims[d].4)
            .collect();
        let mine = |index: &[u64]| (0..dims.len()).all(|d| {
            index[d].checked_sub(start[d]).is_some_and(|i| {
                i / stride[d] < count[d] && i % stride[d] < block[d]
            })
        });
        let model = model(&shape, record, order, mine);
        let slab = Hyperslab { shape, record, start, stride, count, block, order };
        same(&Part::hyperslab(&slab).unwrap(), &model)?;
    }

    #[test]
    fn stripes_go_round_the_servers(
        unit in 1u64..9, count in 1u32..6, first in 0u32..6, offset in 0u64..500,
    ) {
        let first = first % count;
        let layout = Partition::striped(unit, count, first).unwrap();
        let turn = offset / unit;
        let server = ((turn + u64::from(first)) % u64::from(count)) as u32;
        prop_assert_eq!(layout.owner_of(offset).unwrap(), Some(server));
        for index in 0..count {
            let expected = (index == server)
                .then(|| turn / u64::from(count) * unit + offset % unit);
            prop_assert_eq!(layout.part(index).unwrap().to_view(offset), expected);
        }
    }
}

#[test]
fn stripes_over_as_many_servers_as_can_be_numbered() {
    let layout = Partition::striped(89, u32::MAX, 7).unwrap();
    assert_eq!(
        layout
            .part(u32::MAX - 1)
            .unwrap()
            .to_view((u64::from(u32::MAX) - 8) * 89),
        Some(0)
    );
    assert_eq!(layout.part(7).unwrap().to_file(0), Some(0));
}
