//! Collectives against a brute-force model: every pattern, method and number of members, odd sizes and
//! stripe units, holes and overlaps; members are threads of this process, each a client of its own.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use trireme::embedded::Embedded;
use trireme::{
    ArraySpec, Cluster, Collective, Dist, File, Group, LayoutWish, Method, OpenOptions, Options,
    Part, Partition, Schedule, TransferOptions,
};
use trireme_partition::{Extent, READ_PATTERNS, WRITE_PATTERNS};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// How the members of a test reach the servers.
#[derive(Clone, Copy)]
enum Transport {
    /// In this process: plain copies.
    Here,
    /// Over TCP.
    Network,
    /// Some so, some so.
    Mixed,
}

/// Runs `member` once per rank, each in a thread with a client of its own, in a new group.
fn together<T: Send>(
    embedded: &Embedded,
    size: u32,
    transport: Transport,
    member: impl Fn(&Cluster, &Group) -> T + Sync,
) -> Vec<T> {
    let name = format!("test {}", NEXT.fetch_add(1, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size)
            .map(|rank| {
                let (name, member) = (&name, &member);
                scope.spawn(move || {
                    let options = Options {
                        network_only: match transport {
                            Transport::Here => false,
                            Transport::Network => true,
                            Transport::Mixed => rank % 2 == 1,
                        },
                        ..Options::default()
                    };
                    let cluster = embedded.connect_with(options).unwrap();
                    let group = Group::join(&cluster, name, rank, size).unwrap();
                    member(&cluster, &group)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn open(cluster: &Cluster, path: &str, unit: u64) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(LayoutWish {
            unit: Some(unit),
            ..LayoutWish::default()
        })
        .open(cluster, path)
        .unwrap()
}

/// What the byte at an offset is, so that none can stand in for another.
fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The bytes that a member has of a file full of [`content`].
fn bytes_of(part: &Part) -> Vec<u8> {
    let mut bytes = vec![0; part.size() as usize];
    for run in part.runs(part.file_span()) {
        for i in 0..run.len {
            bytes[(run.view + i) as usize] = content(run.file + i);
        }
    }
    bytes
}

const OTHERS: u8 = 0xee;

/// One member's side: write, check the whole file, read back.
fn write_check_read(
    cluster: &Cluster,
    group: &Group,
    path: &str,
    unit: u64,
    parts: &[Part],
    method: Method,
) {
    let file = open(cluster, path, unit);
    let part = &parts[group.rank() as usize];
    let end = parts.iter().map(|part| part.file_span().end).max().unwrap() + 100;
    if group.rank() == 0 {
        file.write_at(&vec![OTHERS; end as usize], 0).unwrap();
    }
    group.barrier().unwrap();
    let mine = bytes_of(part);
    let collective = Collective::new(&file, group)
        .view(part.clone())
        .method(method);
    let report = collective.write(&mine).unwrap();
    assert_eq!((report.bytes, report.method), (mine.len() as u64, method));
    group.barrier().unwrap();
    if group.rank() == 0 {
        let mut model = vec![OTHERS; end as usize];
        for run in parts.iter().flat_map(|part| part.runs(part.file_span())) {
            for byte in run.file..run.file + run.len {
                model[byte as usize] = content(byte);
            }
        }
        let mut bytes = vec![0; model.len()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        if let Some(at) = (0..bytes.len()).find(|at| bytes[*at] != model[*at]) {
            let (is, should) = (bytes[at], model[at]);
            panic!("{path}, {method}: byte {at} is {is} instead of {should}: {parts:?}");
        }
    }
    group.barrier().unwrap();
    let mut back = vec![0x55; mine.len()];
    collective.read(&mut back).unwrap();
    assert!(
        back == mine,
        "{path}, {method}: member {} read something else: {parts:?}",
        group.rank()
    );
}

#[test]
fn every_pattern_method_and_number_of_members() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start_both(dir.path(), 3).unwrap();
    let seen = Mutex::new(std::collections::BTreeSet::new());
    for (size, transport) in [
        (1, Transport::Here),
        (3, Transport::Network),
        (4, Transport::Here),
        (16, Transport::Mixed),
    ] {
        together(&embedded, size, transport, |cluster, group| {
            for method in Method::ALL {
                for name in READ_PATTERNS.iter().chain(&WRITE_PATTERNS) {
                    // Odd sizes: records that no unit, block or page is a multiple of.
                    for (record, bytes, unit) in [
                        (8, 8 * 64 * 97, 1000),
                        (37, 37 * 64 * 5, 64 << 10),
                        (5000, 5000 * 64, 4096),
                    ] {
                        let Ok(partition) = Partition::named(name, record, bytes, size) else {
                            continue;
                        };
                        let parts: Vec<Part> = (0..size)
                            .map(|rank| partition.part(rank).unwrap())
                            .collect();
                        let path = format!("/{name}-{method}-{size}-{record}");
                        write_check_read(cluster, group, &path, unit, &parts, method);
                        seen.lock().unwrap().insert((*name, size, record));
                    }
                }
            }
        });
    }
    // Nothing was left out because the sizes did not suit it.
    let patterns = READ_PATTERNS.len() + WRITE_PATTERNS.len();
    assert_eq!(seen.into_inner().unwrap().len(), patterns * 4 * 3);
}

/// Parts with holes, overlaps, short and long pieces, in any order.
fn views(size: usize) -> impl Strategy<Value = Vec<Part>> {
    let pieces = prop_oneof![
        prop::collection::vec((0u64..3000, 1u64..2000), 0..12),
        prop::collection::vec((0u64..60, 1u64..20), 0..200),
        prop::collection::vec((0u64..300_000, 1u64..200_000), 0..4),
    ];
    let part = (0u64..50_000, pieces, any::<bool>()).prop_map(|(start, pieces, backwards)| {
        let mut at = start;
        let mut extents: Vec<Extent> = pieces
            .into_iter()
            .map(|(gap, len)| {
                let offset = at + gap;
                at = offset + len;
                Extent { offset, len }
            })
            .collect();
        if backwards {
            extents.reverse();
        }
        Part::from_extents(&extents).unwrap()
    });
    prop::collection::vec(part, size)
}

#[test]
fn random_views_with_holes_and_overlaps() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start_both(dir.path(), 3).unwrap();
    let mut runner = TestRunner::deterministic();
    let mut cases: Vec<(Vec<Part>, u64)> = (0..60)
        .map(|number| {
            let parts = views(4).new_tree(&mut runner).unwrap().current();
            (parts, [17, 1000, 4096, 65536][number % 4])
        })
        .collect();
    // As many bytes as a unit has, but some twice and some not at all.
    let piece = |offset, len| Part::contiguous(offset, len).unwrap();
    let parts = vec![piece(0, 60), piece(40, 40), piece(300, 70), piece(330, 30)];
    cases.push((parts, 100));
    for transport in [Transport::Here, Transport::Mixed] {
        together(&embedded, 4, transport, |cluster, group| {
            for (number, (parts, unit)) in cases.iter().enumerate() {
                for method in Method::ALL {
                    let path = format!("/random-{number}-{method}");
                    write_check_read(cluster, group, &path, *unit, parts, method);
                }
            }
        });
    }
}

#[test]
fn memory_with_gaps_offsets_in_the_view_and_members_without_anything() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 2).unwrap();
    together(&embedded, 3, Transport::Here, |cluster, group| {
        for method in Method::ALL {
            let file = open(cluster, &format!("/gaps-{method}"), 512);
            // Member 2 takes part with nothing; the others have every other record of 100 bytes.
            if group.rank() == 2 {
                let collective = Collective::new(&file, group).method(method);
                assert_eq!(collective.write(&[1, 2, 3]).unwrap().bytes, 0);
                assert_eq!(collective.read(&mut [9; 5]).unwrap().bytes, 0);
                continue;
            }
            let view = Part::strided(u64::from(group.rank()) * 100, 100, 200, 1000).unwrap();
            // Records of 10 bytes, 16 apart in memory, go to the view from byte 50 on.
            let memory = Part::strided(3, 10, 16, 700).unwrap();
            let data: Vec<u8> = (0..20_000).map(|i| (i % 251) as u8).collect();
            let collective = Collective::new(&file, group)
                .view(view.clone())
                .at(50)
                .memory(memory.clone())
                .method(method);
            collective.write(&data).unwrap();
            let mut back = vec![0xaa; data.len()];
            collective.read(&mut back).unwrap();
            for (at, byte) in back.iter().enumerate() {
                let inside = memory.to_view(at as u64).is_some();
                assert_eq!(*byte, if inside { data[at] } else { 0xaa }, "byte {at}");
            }
            let mut whole = vec![0; 7050];
            file.view(&view).read_at(&mut whole, 0).unwrap();
            for run in memory.runs(memory.file_span()) {
                let (from, to, len) = (run.file as usize, 50 + run.view as usize, run.len as usize);
                assert_eq!(whole[to..to + len], data[from..from + len]);
            }
        }
    });
}

#[test]
fn an_array_written_in_one_distribution_is_read_in_another_overlapping_computation() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 4).unwrap();
    let rows = ArraySpec::new(&[120, 90], 8, &[Dist::Block, Dist::None], &[4, 1]);
    let tiles = ArraySpec::new(&[120, 90], 8, &[Dist::Cyclic(1), Dist::Block], &[2, 2]);
    together(&embedded, 4, Transport::Here, |cluster, group| {
        let file = open(cluster, "/array", 1000);
        let part = |spec: &ArraySpec| {
            let partition = Partition::array(spec.clone()).unwrap();
            partition.part(group.rank()).unwrap()
        };
        group
            .write_array(&file, &rows, &bytes_of(&part(&rows)))
            .unwrap();
        let mut back = vec![0; part(&tiles).size() as usize];
        group.read_array(&file, &tiles, &mut back).unwrap();
        assert_eq!(back, bytes_of(&part(&tiles)));
        // Started one after the other, they run in that order on every member.
        let first = Collective::new(&file, group).view(part(&tiles));
        let write = first.start_write(vec![group.rank() as u8; back.len()]);
        let read = first.start_read(vec![0xff; back.len()]);
        let (_, report) = write.wait().unwrap();
        assert_eq!(report.servers.len(), 4);
        assert!(report.servers.iter().all(|server| server.phases.bytes > 0));
        let (bytes, _) = read.wait().unwrap();
        assert!(bytes.iter().all(|byte| *byte == group.rank() as u8));
    });
}

#[test]
fn reads_beyond_the_end_are_zeros_and_shared_buffers_work() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 3).unwrap();
    together(&embedded, 2, Transport::Here, |cluster, group| {
        for method in Method::ALL {
            let file = open(cluster, &format!("/end-{method}"), 4096);
            let view = |records| {
                Part::strided(u64::from(group.rank()) * 5000, 5000, 10_000, records).unwrap()
            };
            let mut buffer = cluster.buffer(100_000).unwrap();
            buffer.fill(7);
            let long = Collective::new(&file, group).view(view(20)).method(method);
            group
                .write_all(&file, &view(10), &buffer[..50_000])
                .unwrap();
            buffer.fill(9);
            long.read(&mut buffer).unwrap();
            assert!(buffer[..50_000].iter().all(|byte| *byte == 7));
            assert!(buffer[50_000..].iter().all(|byte| *byte == 0));
            assert_eq!(file.size().unwrap(), 100_000);
        }
    });
}

#[test]
fn calls_that_do_not_match_and_bad_arguments_are_errors_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 2).unwrap();
    together(&embedded, 3, Transport::Here, |cluster, group| {
        for method in Method::ALL {
            let file = open(cluster, "/mismatch", 4096);
            let view = Part::contiguous(u64::from(group.rank()) * 100, 100).unwrap();
            let collective = Collective::new(&file, group)
                .view(view.clone())
                .method(method);
            // Member 1 brings more than its view has.
            let bytes = if group.rank() == 1 { 101 } else { 100 };
            let error = collective.write(&vec![1; bytes]).unwrap_err().to_string();
            assert!(
                error.contains("do not fit") && (group.rank() == 1 || error.contains("member 1")),
                "{method}: {error}"
            );
            // The group goes on.
            collective.write(&[2; 100]).unwrap();
            if method == Method::Independent {
                continue;
            }
            let error = if group.rank() == 2 {
                collective.read(&mut [0; 100]).unwrap_err()
            } else {
                collective.write(&[3; 100]).unwrap_err()
            };
            let error = error.to_string();
            assert!(error.contains("all must call for the same"), "{error}");
            let mut back = [0; 100];
            collective.read(&mut back).unwrap();
            assert_eq!(back, [2; 100]);
        }
    });
}

#[test]
fn the_schedule_of_a_call_changes_nothing_but_speed() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 3).unwrap();
    let partition = Partition::named("wcc", 8, 8 * 64 * 97, 4).unwrap();
    together(&embedded, 4, Transport::Here, |cluster, group| {
        let part = partition.part(group.rank()).unwrap();
        let mine = bytes_of(&part);
        for method in Method::ALL {
            for schedule in Schedule::ALL {
                let file = open(cluster, &format!("/{method}-{schedule}"), 1000);
                let transfer = TransferOptions {
                    schedule,
                    block: 4096,
                    ..TransferOptions::default()
                };
                let collective = Collective::new(&file, group)
                    .view(part.clone())
                    .method(method)
                    .transfer(transfer);
                collective.write(&mine).unwrap();
                let mut back = vec![0; mine.len()];
                collective.read(&mut back).unwrap();
                assert!(back == mine, "{method} {schedule}");
                let mut plain = vec![0; 5000];
                file.read_at_with(transfer, &mut plain, 10).unwrap();
                assert!(
                    (10..5010)
                        .zip(&plain)
                        .all(|(at, byte)| content(at) == *byte)
                );
            }
        }
    });
}

#[test]
fn what_others_write_into_the_holes_stays() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 2).unwrap();
    const RECORDS: u64 = 3000;
    let holes = Part::strided(20, 10, 30, RECORDS).unwrap();
    for method in Method::ALL {
        let done = std::sync::atomic::AtomicBool::new(false);
        let path = format!("/holes-{method}");
        std::thread::scope(|scope| {
            // Somebody outside the group writes every third record, again and again.
            scope.spawn(|| {
                let cluster = embedded.connect().unwrap();
                let file = open(&cluster, &path, 1000);
                let mut round = 0u8;
                while !done.load(Ordering::SeqCst) {
                    round = round.wrapping_add(1);
                    for record in (0..RECORDS).step_by(17) {
                        let bytes = [round; 10];
                        file.write_at(&bytes, 20 + record * 30).unwrap();
                        let mut back = [0; 10];
                        file.read_exact_at(&mut back, 20 + record * 30).unwrap();
                        assert_eq!(back, bytes, "{method}: record {record}, written just now");
                    }
                }
            });
            together(&embedded, 2, Transport::Here, |cluster, group| {
                let file = open(cluster, &path, 1000);
                let part = Part::strided(u64::from(group.rank()) * 10, 10, 30, RECORDS).unwrap();
                for round in 0..30 {
                    let mine = vec![round; part.size() as usize];
                    let collective = Collective::new(&file, group)
                        .view(part.clone())
                        .method(method);
                    collective.write(&mine).unwrap();
                    let mut back = vec![0xff; mine.len()];
                    collective.read(&mut back).unwrap();
                    assert!(back == mine);
                }
            });
            done.store(true, Ordering::SeqCst);
        });
        let cluster = embedded.connect().unwrap();
        let mut others = vec![0; holes.size() as usize];
        let view = open(&cluster, &path, 1000);
        view.view(&holes).read_at(&mut others, 0).unwrap();
        for (number, record) in others.chunks(10).enumerate() {
            let touched = number % 17 == 0;
            assert!(
                touched || record.iter().all(|byte| *byte == 0),
                "record {number}"
            );
        }
    }
}
