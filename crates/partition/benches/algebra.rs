//! The algebra's speed, as ratios to `memcpy` of the same bytes in the same run.
//!
//! `cargo bench -p trireme-partition` runs criterion and ends with a table of the bars that this
//! crate set itself. A figure is the fastest of criterion's samples, for other load on the machine can
//! only slow a sample down; a copy of the same bytes is timed in turn with every sample, so that both
//! sides of a ratio see the same machine.

#[path = "../tests/support/counting.rs"]
mod counting;

use counting::{Counting, allocated_by};
use criterion::{Criterion, Throughput};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};
use trireme_partition::pack::{Owner, pack, unpack};
use trireme_partition::{ArraySpec, Datatype, Dist, Part, Partition};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A block as collective I/O moves it, and one that no cache holds.
const BLOCKS: [(&str, usize); 2] = [("1 MiB", 1 << 20), ("64 MiB", 64 << 20)];

/// Best nanoseconds per iteration, by name.
type Best = BTreeMap<String, f64>;

fn measure(c: &mut Criterion, best: &mut Best, name: &str, bytes: u64, work: impl FnMut()) {
    measure_beside(c, best, name, bytes, work, || {});
}

/// Times `work`, and `peer` in turn with it under the name "memcpy NAME".
fn measure_beside(
    c: &mut Criterion,
    best: &mut Best,
    name: &str,
    bytes: u64,
    mut work: impl FnMut(),
    mut peer: impl FnMut(),
) {
    let mut fastest = [f64::INFINITY; 2];
    let mut group = c.benchmark_group("algebra");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|n| {
            let time = |work: &mut dyn FnMut()| {
                let start = Instant::now();
                (0..n).for_each(|_| work());
                start.elapsed()
            };
            let elapsed = [time(&mut work), time(&mut peer)];
            for (fastest, elapsed) in fastest.iter_mut().zip(elapsed) {
                *fastest = fastest.min(elapsed.as_nanos() as f64 / n as f64);
            }
            elapsed[0]
        });
    });
    best.insert(name.to_owned(), fastest[0]);
    best.insert(format!("memcpy {name}"), fastest[1]);
}

/// Record sizes and owners, and the share of memcpy that is wanted (none for those shown beside).
const SHAPES: [(u64, u32, Option<f64>); 8] = [
    (8, 4, Some(0.40)),
    (8, 16, Some(0.40)),
    (4, 4, None),
    (16, 4, None),
    (16, 16, None),
    (1024, 4, Some(0.85)),
    (4096, 16, Some(0.85)),
    (65_536, 4, Some(0.85)),
];

fn packing(c: &mut Criterion, best: &mut Best) {
    for (size, len) in BLOCKS {
        let source = vec![1u8; len];
        let mut target = vec![2u8; len];
        let mut memcpy = || {
            target.copy_from_slice(black_box(&source));
            black_box(&mut target);
        };
        for (record, owners, _) in SHAPES {
            let view = Partition::named("rc", record, len as u64, owners).unwrap();
            let parts: Vec<Part> = (0..owners).map(|i| view.part(i).unwrap()).collect();
            let mut block = vec![3u8; len];
            let mut buffers: Vec<Vec<u8>> =
                parts.iter().map(|p| vec![4u8; p.size() as usize]).collect();
            let shape = format!("{record} B x {owners}, {size}");
            let deal = || {
                let mut owners: Vec<_> = parts
                    .iter()
                    .zip(&mut buffers)
                    .map(|(part, buffer)| Owner::new(part, 0, &mut buffer[..]))
                    .collect();
                unpack(black_box(&block), 0, &mut owners).unwrap();
            };
            measure_beside(
                c,
                best,
                &format!("unpack {shape}"),
                len as u64,
                deal,
                &mut memcpy,
            );
            let gather = || {
                let owners: Vec<_> = parts
                    .iter()
                    .zip(&buffers)
                    .map(|(part, buffer)| Owner::new(part, 0, &buffer[..]))
                    .collect();
                pack(black_box(&mut block), 0, &owners).unwrap();
            };
            measure_beside(
                c,
                best,
                &format!("pack {shape}"),
                len as u64,
                gather,
                &mut memcpy,
            );
        }
    }
}

fn walking(c: &mut Criterion, best: &mut Best) {
    let matrix = Partition::named("rcc", 8, 10 << 20, 16)
        .unwrap()
        .part(6)
        .unwrap();
    let layout = Partition::striped(64 << 10, 4, 0).unwrap().part(2).unwrap();
    let pieces = matrix.runs(0..10 << 20).count() as u64;
    measure(
        c,
        best,
        "enumerate 81920 runs (rcc 8 B)",
        pieces * 8,
        || {
            let sum: u64 = black_box(&matrix)
                .runs(0..10 << 20)
                .map(|run| run.view)
                .sum();
            black_box(sum);
        },
    );
    measure(
        c,
        best,
        "enumerate 20480 pieces (rcc 8 B in stripes)",
        pieces * 2,
        || {
            let pieces = black_box(&matrix).intersect(&layout, 0..10 << 20);
            black_box(pieces.map(|piece| piece.part).sum::<u64>());
        },
    );
    let deep = Datatype::bytes(8).unwrap();
    let deep = deep
        .hvector(10, 1, 24)
        .unwrap()
        .hvector(10, 1, 500)
        .unwrap();
    let deep = Part::of(7, &deep.hvector(1 << 30, 1, 10_007).unwrap(), 1).unwrap();
    let size = deep.size();
    let mut at = 0u64;
    measure(c, best, "map a view offset at depth 3", 8, || {
        at = (at + 0x9e37_79b9_7f4a) % size;
        black_box(deep.to_file(black_box(at)));
    });
    measure(c, best, "map a file offset at depth 3", 8, || {
        at = (at + 0x9e37_79b9_7f4a) % size;
        black_box(deep.to_view(black_box(at)));
    });
}

fn allocation() -> usize {
    let of = |rows, columns| {
        let dist = [Dist::Cyclic(rows), Dist::Cyclic(columns)];
        Partition::array(ArraySpec::new(&[1 << 20, 1 << 17], 8, &dist, &[4, 4])).unwrap()
    };
    allocated_by(|| {
        let (view, layout) = (of(64, 48).part(6).unwrap(), of(100, 36).part(9).unwrap());
        black_box(
            view.intersect(&layout, 1 << 39..1 << 40)
                .take(100_000)
                .count(),
        );
    })
    .0
}

/// One bar: what, measured, wanted, and whether it is met.
fn row(what: &str, measured: String, wanted: String, met: bool) {
    println!(
        "{what:<44} {measured:>16} {wanted:>18}   {}",
        if met { "met" } else { "MISSED" }
    );
}

fn summary(best: &Best, allocated: usize) {
    println!("\nThe bars, in one run (fastest sample of each):\n");
    println!("{:<44} {:>16} {:>18}", "", "measured", "wanted");
    for (size, len) in BLOCKS {
        for (record, owners, bar) in SHAPES {
            for op in ["unpack", "pack"] {
                let name = format!("{op} {record} B x {owners}, {size}");
                let memcpy = best[&format!("memcpy {name}")];
                let ratio = memcpy / best[&name];
                let wanted = bar.map_or("-".to_owned(), |bar| format!(">= {bar:.2} memcpy"));
                let rate = len as f64 / memcpy;
                let measured = format!("{ratio:.2} of {rate:.0} GB/s");
                row(&name, measured, wanted, bar.is_none_or(|bar| ratio >= bar));
            }
        }
    }
    for (name, pieces) in [
        ("enumerate 81920 runs (rcc 8 B)", 81_920.0),
        ("enumerate 20480 pieces (rcc 8 B in stripes)", 20_480.0),
    ] {
        let rate = pieces / best[name] * 1e3;
        row(
            name,
            format!("{rate:.0} M/s"),
            ">= 100 M/s".to_owned(),
            rate >= 100.0,
        );
    }
    for name in [
        "map a view offset at depth 3",
        "map a file offset at depth 3",
    ] {
        let ns = best[name];
        row(name, format!("{ns:.1} ns"), "< 50 ns".to_owned(), ns < 50.0);
    }
    row(
        "intersect two block-cyclic 2-D parts of 1 TiB",
        format!("{allocated} B allocated"),
        "<= 8192 B".to_owned(),
        allocated <= 8192,
    );
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800))
        .sample_size(20)
        .configure_from_args();
    let mut best = Best::new();
    walking(&mut criterion, &mut best);
    packing(&mut criterion, &mut best);
    criterion.final_summary();
    // With a filter on the command line there is no complete table to print.
    if std::env::args().skip(1).all(|arg| arg.starts_with("--")) {
        summary(&best, allocation());
    }
}
