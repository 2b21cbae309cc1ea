//! Files that servers lend to clients of their own host: quicker, and otherwise as if they did not.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use support::{World, world};
use trireme::{Cluster, File, LayoutWish, OpenOptions, Options, Part};

const BYTES: usize = 300_000;

/// What may be lent to a process is limited, so tests take turns.
static TURN: Mutex<()> = Mutex::new(());

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn open(cluster: &Cluster, path: &str) -> File {
    let layout = LayoutWish {
        unit: Some(65536),
        ..LayoutWish::default()
    };
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(layout)
        .open(cluster, path)
        .unwrap()
}

fn hasty(world: &World) -> Cluster {
    world.client_with(Options {
        deadline: Duration::from_millis(500),
        ..Options::default()
    })
}

/// Writes and reads until all servers have lent what they have.
fn borrow(file: &File) {
    let mut back = vec![0; BYTES];
    for _ in 0..4 {
        file.write_at(&vec![1; BYTES], 0).unwrap();
        file.read_exact_at(&mut back, 0).unwrap();
    }
}

fn stop(world: &World) {
    for server in world.local.servers() {
        server.signal(Signal::STOP);
        support::wait_until_stopped(server.pid());
    }
}

fn go_on(world: &World) {
    for server in world.local.servers() {
        server.signal(Signal::CONT);
    }
}

#[test]
fn what_is_lent_is_read_and_written_without_the_servers() {
    let _turn = turn();
    let world = world(3);
    let cluster = hasty(&world);
    let (lent, asked) = (open(&cluster, "/lent"), open(&cluster, "/asked"));
    let mut plain = asked.transfer();
    plain.lend = false;
    asked.set_transfer(plain);
    borrow(&lent);
    borrow(&asked);
    stop(&world);
    let mut back = vec![0; BYTES];
    let data: Vec<u8> = (0..BYTES).map(|i| (i / 100) as u8).collect();
    let wrote = lent.write_at(&data, 0);
    let read = lent.read_exact_at(&mut back, 0);
    let small = lent.read_exact_at(&mut [0; 10], 70_000);
    let refused = asked.read_exact_at(&mut vec![0; BYTES], 0);
    go_on(&world);
    wrote.and(read).and(small).unwrap();
    refused.expect_err("this one asks the servers");
    assert!(back == data);
    // Everybody sees it: by the servers, in size, after a cut.
    let other = open(&world.client(), "/lent");
    other.set_transfer(plain);
    assert_eq!(other.size().unwrap(), BYTES as u64);
    other.read_exact_at(&mut back, 0).unwrap();
    assert!(back == data);
    other.set_len(100_000).unwrap();
    assert_eq!(lent.read_at(&mut back, 0).unwrap(), 100_000);
    other.set_len(200_000).unwrap();
    other.write_at(&[9; 10], 150_000).unwrap();
    assert_eq!(lent.read_at(&mut back, 0).unwrap(), 200_000);
    assert!(back[..100_000] == data[..100_000]);
    assert!(back[100_000..150_000].iter().all(|byte| *byte == 0));
    assert_eq!(back[150_000..150_010], [9; 10]);
}

/// Reads to some places take a detour by way of another buffer, piece by piece.
#[test]
fn bytes_are_right_wherever_they_are_read_to() {
    const PAGE: usize = 4096;
    let _turn = turn();
    let world = world(3);
    let file = open(&world.client(), "/anywhere");
    borrow(&file);
    let data: Vec<u8> = (0..BYTES)
        .map(|i| (i / 97) as u8 ^ (i / 65_536) as u8)
        .collect();
    file.write_at(&data, 0).unwrap();
    let mut memory = vec![0; BYTES + 2 * PAGE];
    let start = memory.as_ptr().align_offset(PAGE);
    for further in [0, 1, 16, 31, 32] {
        for from in [0, 5, 70_000] {
            // From the file's page to this far behind the beginning of one.
            let begin = start + from % PAGE + further;
            let buffer = &mut memory[begin..begin + BYTES - from];
            buffer.fill(0);
            file.read_exact_at(buffer, from as u64).unwrap();
            assert!(*buffer == data[from..], "{further} behind, from {from}");
        }
    }
}

#[test]
fn what_a_dead_server_lent_is_not_used_and_comes_back_with_it() {
    let _turn = turn();
    let mut world = world(3);
    let quick = open(&hasty(&world), "/file");
    let patient = open(&world.client(), "/file");
    borrow(&quick);
    borrow(&patient);
    world.local.kill_server(1);
    let mut back = vec![0; BYTES];
    let error = quick.read_exact_at(&mut back, 0).unwrap_err();
    assert!(error.to_string().contains("server 1"), "{error}");
    let error = quick.write_at(&vec![5; BYTES], 0).unwrap_err();
    assert!(error.to_string().contains("server 1"), "{error}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            patient.write_at(&vec![2; BYTES], 0).unwrap();
            patient.read_exact_at(&mut vec![0; BYTES], 0).unwrap();
        });
        world.local.restart_server(1).unwrap();
        waits.join().unwrap();
    });
    for file in [&quick, &patient] {
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|byte| *byte == 2));
        borrow(file);
        file.sync().unwrap();
        file.write_at(&vec![2; BYTES], 0).unwrap();
    }
    // Lent again; not for good at once, as the connection to where the server was may still be replaced.
    let lent = (0..10).any(|_| {
        borrow(&quick);
        stop(&world);
        let read = quick.read_exact_at(&mut back, 0);
        go_on(&world);
        read.is_ok()
    });
    assert!(lent && back.iter().all(|byte| *byte == 1));
}

#[test]
fn nothing_lent_is_written_while_a_write_that_was_given_up_may_still_come() {
    let _turn = turn();
    let world = world(1);
    let cluster = hasty(&world);
    let (lent, asked) = (open(&cluster, "/file"), open(&cluster, "/file"));
    let mut plain = asked.transfer();
    plain.lend = false;
    asked.set_transfer(plain);
    for round in 2..6u8 {
        borrow(&lent);
        asked.read_exact_at(&mut [0; 10], 0).unwrap();
        stop(&world);
        // It stays in the server's socket.
        let given_up = asked.write_at(&[100; 1000], 0);
        let early = lent.write_at(&[101; 1000], 0);
        go_on(&world);
        given_up.expect_err("the server is stopped");
        early.expect_err("it could be overwritten by what was given up");
        let mut back = [0; 1000];
        lent.write_at(&[round; 1000], 0).unwrap();
        for _ in 0..20 {
            lent.read_exact_at(&mut back, 0).unwrap();
            assert_eq!(back, [round; 1000]);
        }
    }
}

#[test]
fn no_more_is_lent_than_was_granted() {
    let _turn = turn();
    let world = world(2);
    let cluster = hasty(&world);
    borrow(&open(&cluster, "/file"));
    let reader = OpenOptions::new()
        .read(true)
        .open(&cluster, "/file")
        .unwrap();
    let writer = OpenOptions::new()
        .write(true)
        .open(&cluster, "/file")
        .unwrap();
    let mut back = vec![0; BYTES];
    for _ in 0..4 {
        reader.read_exact_at(&mut back, 0).unwrap();
        writer.write_at(&vec![7; BYTES], 0).unwrap();
        assert!(reader.write_at(&vec![8; BYTES], 0).is_err());
        assert!(writer.read_exact_at(&mut back, 0).is_err());
    }
    reader.read_exact_at(&mut back, 0).unwrap();
    assert!(back.iter().all(|byte| *byte == 7));
}

#[test]
fn a_process_with_many_files_keeps_descriptors_for_itself() {
    let _turn = turn();
    let world = world(2);
    let cluster = world.client();
    let files: Vec<File> = (0..1200)
        .map(|number| {
            let file = open(&cluster, &format!("/file-{number}"));
            for _ in 0..4 {
                file.write_at(&vec![number as u8; 100_000], 0).unwrap();
            }
            file
        })
        .collect();
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let used = support::descriptors(std::process::id()) as u64;
    assert!(
        limit.current.is_none_or(|limit| used < limit / 2 + 100),
        "{used} are used"
    );
    let mut back = vec![0; 100_000];
    for (number, file) in files.iter().enumerate() {
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|byte| *byte == number as u8));
    }
}

#[test]
fn rewriting_small_pieces_puts_no_old_bytes_over_those_of_a_borrower() {
    let _turn = turn();
    const RECORDS: u64 = 4000;
    let world = world(1);
    let (borrower, other) = (world.client(), world.client());
    let (borrower, other) = (open(&borrower, "/file"), open(&other, "/file"));
    // Records of 8 bytes, in turn the one's and the other's; the server rewrites whole stretches.
    let theirs = Part::strided(0, 8, 16, RECORDS).unwrap();
    let bytes = vec![1; RECORDS as usize * 8];
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rewriter = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                other.view(&theirs).write_at(&bytes, 0).unwrap();
            }
        });
        let mut random = support::Random::new(support::seed());
        for round in 0..20_000u64 {
            let at = random.below(RECORDS) * 16 + 8;
            let mut back = [0; 8];
            borrower.write_at(&round.to_le_bytes(), at).unwrap();
            borrower.read_exact_at(&mut back, at).unwrap();
            if back != round.to_le_bytes() {
                stop.store(true, Ordering::Relaxed);
                panic!("round {round}: what was written at {at} is gone");
            }
        }
        stop.store(true, Ordering::Relaxed);
        rewriter.join().unwrap();
    });
}
