//! Collectives against a brute-force model: every pattern, method, number of members, odd sizes and
//! stripe units; members are threads of this process, each with connections of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use trireme::embedded::Embedded;
use trireme::{Collective, File, Group, LayoutWish, Method, OpenOptions, Part, Partition};
use trireme_partition::{READ_PATTERNS, WRITE_PATTERNS};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// Runs `member` once per rank, each in a thread with a client of its own, in a new group.
fn together<T: Send>(
    embedded: &Embedded,
    size: u32,
    member: impl Fn(u32, &Group) -> T + Sync,
) -> Vec<T> {
    let name = format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (name, member) = (&name, &member);
                scope.spawn(move || {
                    let cluster = embedded.connect().unwrap();
                    let group = Group::join(&cluster, name, rank, size).unwrap();
                    member(rank, &group)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn open(embedded: &Embedded, path: &str, unit: u64) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(LayoutWish {
            unit: Some(unit),
            ..LayoutWish::default()
        })
        .open(&embedded.connect().unwrap(), path)
        .unwrap()
}

fn pattern_byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The bytes that a member has of a file full of [`pattern_byte`].
fn bytes_of(part: &Part) -> Vec<u8> {
    let mut bytes = vec![0; part.size() as usize];
    for run in part.runs(part.file_span()) {
        for i in 0..run.len {
            bytes[(run.view + i) as usize] = pattern_byte(run.file + i);
        }
    }
    bytes
}

fn write_and_read_back(embedded: &Embedded, path: &str, unit: u64, parts: &[Part], method: Method) {
    let size = parts.len() as u32;
    drop(open(embedded, path, unit));
    let end = parts.iter().map(|part| part.file_span().end).max().unwrap();
    let before = vec![0xee; end as usize + 100];
    open(embedded, path, unit).write_at(&before, 0).unwrap();
    together(embedded, size, |rank, group| {
        let file = open(embedded, path, unit);
        let mine = bytes_of(&parts[rank as usize]);
        let report = Collective::new(&file, group)
            .view(parts[rank as usize].clone())
            .method(method)
            .write(&mine)
            .unwrap();
        assert_eq!(report.bytes, mine.len() as u64);
    });
    let mut model = before;
    for part in parts {
        for run in part.runs(part.file_span()) {
            for byte in run.file..run.file + run.len {
                model[byte as usize] = pattern_byte(byte);
            }
        }
    }
    let file = open(embedded, path, unit);
    let mut bytes = vec![0; model.len()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    if let Some(at) = (0..bytes.len()).find(|at| bytes[*at] != model[*at]) {
        panic!(
            "{path}: byte {at} is {} instead of {}",
            bytes[at], model[at]
        );
    }
    together(embedded, size, |rank, group| {
        let file = open(embedded, path, unit);
        let part = &parts[rank as usize];
        let mut mine = vec![0x55; part.size() as usize];
        Collective::new(&file, group)
            .view(part.clone())
            .method(method)
            .read(&mut mine)
            .unwrap();
        assert!(
            mine == bytes_of(part),
            "{path}: member {rank} read something else"
        );
    });
}

#[test]
fn every_pattern_method_and_number_of_members() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 3).unwrap();
    for method in Method::ALL {
        for size in [1, 3, 4, 16] {
            for name in READ_PATTERNS.iter().chain(&WRITE_PATTERNS) {
                if *name == "ra" && method == Method::TwoPhase && size == 0 {
                    continue;
                }
                for (record, bytes, unit) in [(8, 8 * 4099, 1000), (37, 37 * 530, 64 << 10)] {
                    let Ok(partition) = Partition::named(name, record, bytes, size) else {
                        continue;
                    };
                    let parts: Vec<Part> = (0..size)
                        .map(|rank| partition.part(rank).unwrap())
                        .collect();
                    let path = format!("/{name}-{method}-{size}-{record}");
                    write_and_read_back(&embedded, &path, unit, &parts, method);
                }
            }
        }
    }
}
