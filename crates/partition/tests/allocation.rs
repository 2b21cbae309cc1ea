//! Regular patterns cost a few numbers, whatever the array's size: counted at the allocator.

#[path = "support/counting.rs"]
mod counting;

use counting::{Counting, allocated_by};
use trireme_partition::{ArraySpec, Dist, Partition};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const TEBIBYTE: u64 = 1 << 40;
const A_FEW_KIB: usize = 8 << 10;

fn block_cyclic(rows: u64, columns: u64) -> Partition {
    let dist = [Dist::Cyclic(rows), Dist::Cyclic(columns)];
    let side = 1 << 20;
    Partition::array(ArraySpec::new(&[side, side / 8], 8, &dist, &[4, 4])).unwrap()
}

#[test]
fn intersecting_two_block_cyclic_partitions_of_a_tebibyte_allocates_a_few_kib() {
    let (bytes, pieces) = allocated_by(|| {
        let view = block_cyclic(64, 48).part(6).unwrap();
        let layout = block_cyclic(100, 36).part(9).unwrap();
        let middle = TEBIBYTE / 2;
        view.intersect(&layout, middle..TEBIBYTE)
            .take(100_000)
            .count()
    });
    assert_eq!(pieces, 100_000);
    assert!(bytes < A_FEW_KIB, "{bytes} bytes were allocated");
}

#[test]
fn walking_allocates_nothing_per_piece() {
    let view = Partition::named("rcc", 8, TEBIBYTE, 16)
        .unwrap()
        .part(6)
        .unwrap();
    let walk = |n: usize| allocated_by(|| view.runs(12_345..TEBIBYTE).take(n).count()).0;
    assert_eq!(walk(10), walk(1_000_000));
}
