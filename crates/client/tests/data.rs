//! All data operations on an embedded cluster, over Unix sockets and over TCP.

use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};

use trireme::embedded::Embedded;
use trireme::{Cluster, LayoutWish, OpenOptions, Part, Schedule, TransferOptions};

fn each_transport(test: impl Fn(&Cluster)) {
    for tcp in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let start = if tcp {
            Embedded::start_tcp
        } else {
            Embedded::start
        };
        let embedded = start(dir.path(), 4).unwrap();
        test(&embedded.connect().unwrap());
    }
}

fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

fn small_units(cluster: &Cluster, path: &str, unit: u64) -> trireme::File {
    let layout = LayoutWish {
        unit: Some(unit),
        ..LayoutWish::default()
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .layout(layout)
        .open(cluster, path)
        .unwrap()
}

#[test]
fn what_was_written_is_read_back_whatever_the_size_and_offset() {
    each_transport(|cluster| {
        for (number, unit) in [4096u64, 65536, 1 << 20].into_iter().enumerate() {
            let file = small_units(cluster, &format!("/f{number}"), unit);
            for (offset, length) in [
                (0, 1),
                (1, 10),
                (4095, 2),
                (5000, 100_000),
                (123_456, 3_000_001),
                (9, 9_000_000),
            ] {
                let data = bytes(offset + length as u64, length);
                file.write_at(&data, offset).unwrap();
                let mut back = vec![0; length];
                file.read_exact_at(&mut back, offset).unwrap();
                assert!(back == data, "unit {unit} offset {offset} length {length}");
            }
            assert_eq!(file.size().unwrap(), 9_000_009);
        }
    });
}

#[test]
fn holes_are_zero_and_reads_stop_at_the_end() {
    each_transport(|cluster| {
        let file = small_units(cluster, "/holes", 4096);
        file.write_at(b"end", 1_000_000).unwrap();
        assert_eq!(file.size().unwrap(), 1_000_003);
        let mut back = vec![7; 1_100_000];
        assert_eq!(file.read_at(&mut back, 0).unwrap(), 1_000_003);
        assert!(back[..1_000_000].iter().all(|byte| *byte == 0));
        assert_eq!(&back[1_000_000..1_000_003], b"end");
        assert_eq!(file.read_at(&mut back[..10], 1_000_003).unwrap(), 0);
        assert_eq!(file.read_at(&mut back[..10], 1 << 50).unwrap(), 0);
        let mut one = [7; 100];
        assert_eq!(file.read_at(&mut one, 999_990).unwrap(), 13);
        assert_eq!(&one[..13], b"\0\0\0\0\0\0\0\0\0\0end");
    });
}

#[test]
fn truncate_cuts_and_extends() {
    each_transport(|cluster| {
        let file = small_units(cluster, "/t", 4096);
        let data = bytes(3, 100_000);
        file.write_at(&data, 0).unwrap();
        for size in [50_001, 10, 200_000, 0, 5] {
            file.set_len(size).unwrap();
            assert_eq!(file.size().unwrap(), size);
        }
        let mut back = [9; 5];
        file.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(back, [0; 5], "cut and extended bytes are zero");
    });
}

#[test]
fn another_client_sees_writes_and_size_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 4).unwrap();
    let (one, two) = (embedded.connect().unwrap(), embedded.connect().unwrap());
    let writer = small_units(&one, "/shared", 4096);
    let reader = two.open("/shared").unwrap();
    for round in 1..50u64 {
        let data = bytes(round, 5000);
        writer.write_at(&data, (round - 1) * 5000).unwrap();
        assert!(reader.size().unwrap() >= round * 5000);
        let mut back = vec![0; 5000];
        reader.read_exact_at(&mut back, (round - 1) * 5000).unwrap();
        assert!(back == data);
    }
}

#[test]
fn std_io_and_vectored_calls_work() {
    each_transport(|cluster| {
        let mut file = small_units(cluster, "/stream", 4096);
        file.write_all(b"hello ").unwrap();
        file.write_all(b"world").unwrap();
        file.seek(SeekFrom::Start(6)).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "world");
        assert_eq!(file.seek(SeekFrom::End(-5)).unwrap(), 6);
        assert!(file.seek(SeekFrom::Current(-7)).is_err());

        let (a, b) = (bytes(1, 3000), bytes(2, 2_000_000));
        file.write_vectored_at(&[IoSlice::new(&a), IoSlice::new(&b)], 77)
            .unwrap();
        let (mut x, mut y) = (vec![0; 1000], vec![0; 2_002_000]);
        let got = file
            .read_vectored_at(&mut [IoSliceMut::new(&mut x), IoSliceMut::new(&mut y)], 77)
            .unwrap();
        assert_eq!(got, 2_003_000);
        assert!(x == a[..1000] && y[..2000] == a[1000..] && y[2000..] == b);
    });
}

#[test]
fn started_operations_overlap_and_can_be_awaited() {
    each_transport(|cluster| {
        let file = small_units(cluster, "/async", 65536);
        let writes: Vec<_> = (0..20u64)
            .map(|i| file.start_write(i * 100_000, bytes(i, 100_000)))
            .collect();
        for write in writes {
            write.wait().unwrap();
        }
        file.start_sync().wait().unwrap();
        let reads: Vec<_> = (0..20u64)
            .map(|i| file.start_read(i * 100_000, vec![0; 100_000]))
            .collect();
        for (i, read) in reads.into_iter().enumerate() {
            let (back, got) = block_on(read).unwrap();
            assert!(got == 100_000 && back == bytes(i as u64, 100_000));
        }
    });
}

/// The smallest executor: parks this thread until woken.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

#[test]
fn views_read_and_write_their_own_bytes_and_no_others() {
    each_transport(|cluster| {
        for (number, (record, stride, unit)) in [
            (8u64, 32u64, 4096u64),
            (100, 333, 4096),
            (5000, 12_000, 4096),
            (1, 7, 65536),
            (70_000, 200_000, 65536),
        ]
        .into_iter()
        .enumerate()
        {
            let file = small_units(cluster, &format!("/v{number}"), unit);
            let count = 2_000_000 / stride;
            let mut model = bytes(9, (count * stride) as usize);
            file.write_at(&model, 0).unwrap();
            let offset = stride - record;
            let part = Part::strided(offset, record, stride, count).unwrap();
            let view = file.view(&part);
            let mine = bytes(10, part.size() as usize);
            // In two pieces that do not respect records.
            let middle = mine.len() / 2 + 3;
            view.write_at(&mine[..middle], 0).unwrap();
            view.write_at(&mine[middle..], middle as u64).unwrap();
            for (i, chunk) in mine.chunks(record as usize).enumerate() {
                let at = (offset + i as u64 * stride) as usize;
                model[at..at + chunk.len()].copy_from_slice(chunk);
            }
            let mut back = vec![0; model.len()];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(
                back == model,
                "record {record} stride {stride}: the whole file"
            );
            let mut back = vec![0; mine.len()];
            assert_eq!(view.read_at(&mut back, 0).unwrap(), mine.len());
            assert!(back == mine, "record {record} stride {stride}: the view");
            let mut some = vec![0; 1001];
            assert_eq!(view.read_at(&mut some, 501).unwrap(), 1001);
            assert!(some == mine[501..1502]);
            assert_eq!(view.read_at(&mut some, part.size()).unwrap(), 0);
            assert!(view.write_at(&[0; 2], part.size() - 1).is_err());
        }
    });
}

#[test]
fn writes_from_shared_memory_are_the_same_bytes() {
    each_transport(|cluster| {
        let file = small_units(cluster, "/shared", 10_000);
        let mut buffer = cluster.buffer(3_000_001).unwrap();
        let mut other = cluster.buffer(70_000).unwrap();
        let mut model = vec![0; 3_200_000];
        for round in 0..6u64 {
            // Two shared buffers and an ordinary one in turn, whole and in part, over one connection.
            buffer.copy_from_slice(&bytes(round, 3_000_001));
            other.copy_from_slice(&bytes(round + 50, 70_000));
            let plain = bytes(round + 99, 200_000);
            let cut = round as usize * 1_003;
            for (data, at) in [
                (&buffer[cut..], 11),
                (&other[..], 500 + cut),
                (&plain[..], 9 * cut),
            ] {
                file.write_at(data, at as u64).unwrap();
                model[at..at + data.len()].copy_from_slice(data);
            }
            let mut back = vec![0; file.size().unwrap() as usize];
            file.read_exact_at(&mut back, 0).unwrap();
            assert!(back == model[..back.len()], "round {round}");
        }
        drop(buffer);
        file.write_at(&other, 0).unwrap();
        assert!(cluster.buffer(0).is_err());
    });
}

#[test]
fn schedules_blocks_and_windows_change_nothing_but_speed() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 4).unwrap();
    let cluster = embedded.connect().unwrap();
    let file = small_units(&cluster, "/s", 10_000);
    for schedule in Schedule::ALL {
        for (block, in_flight, window, lend, second) in [
            (4096, 1, true, false, false),
            (100_000, 2, false, false, false),
            (1 << 20, 3, true, false, false),
            (4 << 20, 2, true, true, false),
            (4 << 20, 1, true, true, true),
        ] {
            file.set_transfer(TransferOptions {
                in_flight,
                total: 0,
                schedule,
                block,
                window,
                lend,
                second,
            });
            let data = bytes(block + u64::from(in_flight), 5_000_003);
            file.write_at(&data, 77).unwrap();
            let mut back = vec![0; data.len()];
            file.read_exact_at(&mut back, 77).unwrap();
            assert!(
                back == data,
                "{schedule} block {block} in flight {in_flight} window {window} lend {lend} {second}"
            );
        }
    }
}

/// The longest file that the disk of `dir` has.
fn longest(dir: &std::path::Path) -> u64 {
    let file = std::fs::File::create(dir.join("long")).unwrap();
    let (mut possible, mut too_long) = (0, i64::MAX as u64);
    while possible + 1 < too_long {
        let middle = possible + (too_long - possible) / 2;
        if file.set_len(middle).is_ok() {
            possible = middle;
        } else {
            too_long = middle;
        }
    }
    possible
}

#[test]
fn what_a_disk_cannot_hold_changes_nothing_on_any() {
    const UNIT: u64 = 65536;
    const EFBIG: i32 = 27;
    let local = tempfile::tempdir().unwrap();
    // Whole rows of stripe units that four such disks have; some have longer files than ours can be.
    let rows = (longest(local.path()) / UNIT).min((1 << 60) / UNIT);
    let end = rows * UNIT * 4;
    each_transport(|cluster| {
        let file = small_units(cluster, "/f", UNIT);
        file.write_at(b"hello", 0).unwrap();
        let data = bytes(7, 4 * UNIT as usize);
        let half = 2 * UNIT;
        let reserve = trireme_proto::message::io::Allocate::Reserve { keep_size: false };
        for _ in 0..2 {
            // The first half is possible.
            let refused = file.write_at(&data, end - half).unwrap_err();
            assert_eq!(refused.errno(), EFBIG, "{refused}");
            let refused = file.allocate(reserve, end - half, 4 * UNIT).unwrap_err();
            assert_eq!(refused.errno(), EFBIG, "{refused}");
            for size in [end + 4 * UNIT, i64::MAX as u64] {
                let refused = file.set_len(size).unwrap_err();
                assert_eq!(refused.errno(), EFBIG, "{refused}");
            }
            assert_eq!(file.size().unwrap(), 5);
            assert_eq!(cluster.stat("/f").unwrap().attr.size, 5);
        }
        file.write_at(&data[..half as usize], end - half).unwrap();
        assert_eq!(file.size().unwrap(), end);
        let mut back = vec![0; half as usize];
        file.read_exact_at(&mut back, end - half).unwrap();
        assert_eq!(back, data[..half as usize]);
        file.set_len(5).unwrap();
        assert_eq!(file.size().unwrap(), 5);
        // Far beyond there is nothing to read, and that is no error.
        assert_eq!(file.read_at(&mut back, u64::MAX / 2 - 9).unwrap(), 0);
    });
}
