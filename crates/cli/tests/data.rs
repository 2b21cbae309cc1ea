//! Many clients on one cluster of real processes, byte for byte against a model.

mod support;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use support::{Random, World, world};
use trireme::{File, LayoutWish, OpenOptions, Part};

const CLIENTS: u64 = 8;

fn create(world: &World, path: &str, unit: u64) -> File {
    let layout = LayoutWish {
        unit: Some(unit),
        ..LayoutWish::default()
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(layout)
        .open(&world.client(), path)
        .unwrap();
    // In turn: borrowed, through shared memory, through the sockets as if from another host, and borrowed
    // by two threads.
    static OPENED: AtomicU64 = AtomicU64::new(0);
    let way = OPENED.fetch_add(1, Ordering::Relaxed) % 4;
    let mut transfer = file.transfer();
    transfer.lend = way == 0 || way == 3;
    transfer.window = way == 1;
    transfer.second = way == 3;
    file.set_transfer(transfer);
    file
}

/// Random reads, writes, truncations and views of one file against a `Vec`, as fsx does.
fn exercise(file: &File, seed: u64, steps: u32) {
    const LIMIT: u64 = 600_000;
    let mut random = Random::new(seed);
    let mut model: Vec<u8> = Vec::new();
    for step in 0..steps {
        let at = random.below(LIMIT);
        let length = random.size(200_000).min(LIMIT - at) as usize;
        let say = format!("seed {seed} step {step} at {at} length {length}");
        match random.below(10) {
            0..4 => {
                let data = random.bytes(length);
                file.write_at(&data, at).unwrap();
                let end = at as usize + length;
                if model.len() < end {
                    model.resize(end, 0);
                }
                model[at as usize..end].copy_from_slice(&data);
            }
            4..8 => {
                let mut back = vec![0xee; length];
                let got = file.read_at(&mut back, at).unwrap();
                let from = (at as usize).min(model.len());
                let expected = &model[from..(from + length).min(model.len())];
                assert_eq!(got, expected.len(), "{say}: bytes read of {}", model.len());
                assert!(back[..got] == *expected, "{say}: read");
            }
            8 => {
                file.set_len(at).unwrap();
                model.resize(at as usize, 0);
                assert_eq!(file.size().unwrap(), at, "{say}: truncate");
            }
            _ => {
                let record = random.size(5000);
                let stride = record + random.below(5000);
                let count = 1 + random.below(60);
                let part = Part::strided(at, record, stride, count).unwrap();
                let data = random.bytes(part.size() as usize);
                file.view(&part).write_at(&data, 0).unwrap();
                let end = (at + (count - 1) * stride + record) as usize;
                if model.len() < end {
                    model.resize(end, 0);
                }
                for (i, chunk) in data.chunks(record as usize).enumerate() {
                    let from = at as usize + i * stride as usize;
                    model[from..from + chunk.len()].copy_from_slice(chunk);
                }
            }
        }
    }
    let mut back = vec![0xee; model.len() + 10];
    assert_eq!(
        file.read_at(&mut back, 0).unwrap(),
        model.len(),
        "seed {seed}: size at the end"
    );
    assert!(
        back[..model.len()] == model,
        "seed {seed}: content at the end"
    );
}

#[test]
fn eight_clients_on_four_servers_read_and_write_as_the_model_does() {
    let world = world(4);
    for round in 0..support::times(12) {
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let world = &world;
                scope.spawn(move || {
                    let seed = support::seed() + round * CLIENTS + client;
                    let unit = [512, 4096, 10_000, 65536][(seed % 4) as usize];
                    let file = create(world, &format!("/fsx-{seed}"), unit);
                    exercise(&file, seed, 60);
                });
            }
        });
    }
}

#[test]
fn every_disk_engine_serves_as_the_model_does() {
    for arguments in [
        &["--direct"][..],
        &["--disk-engine", "uring"],
        &["--disk-engine", "uring", "--direct"],
    ] {
        let world = match support::world_with(4, arguments) {
            Ok(world) => world,
            Err(error) => {
                support::skip("disk engines end to end", &error.to_string());
                continue;
            }
        };
        std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let world = &world;
                scope.spawn(move || {
                    let seed = support::seed() + 1000 + client;
                    let unit = [512, 4096, 10_000, 65536][(seed % 4) as usize];
                    let file = create(world, &format!("/fsx-{seed}"), unit);
                    exercise(&file, seed, 60);
                    file.sync().unwrap();
                });
            }
        });
    }
}

#[test]
fn writers_of_neighbouring_bytes_never_disturb_each_other() {
    let world = world(4);
    const BYTES: u64 = 3_000_000;
    for round in 0..support::times(50) {
        let path = format!("/pieces-{round}");
        // Cut the file at random into pieces of 1 byte to 1 MiB and deal them to the writers.
        let mut random = Random::new(support::seed() + round);
        let mut pieces: Vec<Vec<(u64, u64)>> = vec![Vec::new(); CLIENTS as usize];
        let mut at = 0;
        while at < BYTES {
            let longest = if round % 2 == 0 { 300 } else { 1 << 20 };
            let length = random.size(longest).min(BYTES - at);
            pieces[random.below(CLIENTS) as usize].push((at, length));
            at += length;
        }
        let writes: usize = pieces.iter().map(Vec::len).sum();
        std::thread::scope(|scope| {
            for (client, pieces) in pieces.iter().enumerate() {
                let (world, path) = (&world, &path);
                scope.spawn(move || {
                    let file = create(world, path, 4096);
                    for (at, length) in pieces.iter().rev() {
                        file.write_at(&vec![client as u8 + 1; *length as usize], *at)
                            .unwrap();
                    }
                });
            }
        });
        let file = create(&world, &path, 4096);
        let mut back = vec![0; BYTES as usize];
        file.read_exact_at(&mut back, 0).unwrap();
        for (client, pieces) in pieces.iter().enumerate() {
            for (at, length) in pieces {
                let piece = &back[*at as usize..(*at + *length) as usize];
                assert!(
                    piece.iter().all(|byte| *byte == client as u8 + 1),
                    "round {round}, {writes} writes: piece of client {client} at {at}"
                );
            }
        }
    }
}

#[test]
fn a_block_that_many_write_at_once_is_of_one_of_them() {
    let world = world(4);
    let file = create(&world, "/blocks", 4096);
    let mut back = vec![0; 4096];
    let barrier = Barrier::new(CLIENTS as usize + 1);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (world, barrier) = (&world, &barrier);
            scope.spawn(move || {
                let file = create(world, "/blocks", 4096);
                for block in 0..500u64 {
                    barrier.wait();
                    file.write_at(&[client as u8 + 1; 4096], block * 4096)
                        .unwrap();
                    barrier.wait();
                }
            });
        }
        for block in 0..500u64 {
            barrier.wait();
            barrier.wait();
            file.read_exact_at(&mut back, block * 4096).unwrap();
            assert!(
                back[0] > 0 && back.iter().all(|byte| *byte == back[0]),
                "block {block} is torn"
            );
        }
    });
}

#[test]
fn a_small_view_write_keeps_the_neighbours_newer_bytes() {
    // Eight clients interleave 8-byte records through views while a ninth writes the gaps plainly.
    let world = world(4);
    const RECORDS: u64 = 20_000;
    let path = "/interleaved";
    std::thread::scope(|scope| {
        for client in 0..=CLIENTS {
            let world = &world;
            scope.spawn(move || {
                let file = create(world, path, 4096);
                let stride = (CLIENTS + 1) * 8;
                if client == CLIENTS {
                    for record in 0..RECORDS / 20 {
                        file.write_at(&[client as u8 + 1; 8], record * stride + client * 8)
                            .unwrap();
                    }
                    return;
                }
                let part = Part::strided(client * 8, 8, stride, RECORDS).unwrap();
                let view = file.view(&part);
                let mine = vec![client as u8 + 1; 8 * 500];
                for at in (0..part.size()).step_by(mine.len()) {
                    view.write_at(&mine, at).unwrap();
                }
            });
        }
    });
    let file = create(&world, path, 4096);
    let mut back = vec![0; (RECORDS * (CLIENTS + 1) * 8) as usize - 8];
    file.read_exact_at(&mut back, 0).unwrap();
    for (number, record) in back.chunks(8).enumerate() {
        let owner = number as u64 % (CLIENTS + 1);
        if owner < CLIENTS || (number as u64) / (CLIENTS + 1) < RECORDS / 20 {
            assert!(
                record.iter().all(|byte| u64::from(*byte) == owner + 1),
                "record {number}"
            );
        }
    }
}
