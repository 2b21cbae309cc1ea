//! Every engine, through the page cache and past it, is held to the same model, byte for byte.

mod support;

use std::os::fd::OwnedFd;
use std::path::Path;

use support::Random;
use trireme_store::{Engine, Options, Store, StoreError, range_lock};

const WAYS: [(Engine, bool); 4] = [
    (Engine::Pread, false),
    (Engine::Pread, true),
    (Engine::Uring, false),
    (Engine::Uring, true),
];

/// A store that works this way, unless the machine cannot.
fn open(dir: &Path, engine: Engine, direct: bool) -> Option<Store> {
    let options = Options {
        engine,
        direct,
        ..Options::default()
    };
    match Store::open_with(&[dir.into()], 0, 1, &options) {
        Ok(store) => Some(store),
        Err(error @ (StoreError::NoRing(_) | StoreError::Foreign { .. })) => {
            println!("skipped: {error}");
            if let Some(path) = std::env::var_os("TRIREME_SKIPPED")
                && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(path)
            {
                use std::io::Write;
                let _ = writeln!(file, "disk engine {engine:?}, direct {direct}: {error}");
            }
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Offsets and lengths of which many, but not all, are whole blocks.
fn place(random: &mut Random, limit: u64) -> (u64, usize) {
    let mut at = random.below(limit);
    let mut length = random.size(900_000).min(limit - at);
    if random.below(2) == 0 {
        at = at / 4096 * 4096;
    }
    if random.below(2) == 0 {
        length = (length / 4096 * 4096).max(1);
    }
    (at, length as usize)
}

fn exercise(store: &Store, seed: u64, steps: u64) {
    const LIMIT: u64 = 2 << 20;
    let mut random = Random::new(seed);
    let mut model: Vec<u8> = Vec::new();
    let subfile = store.find_or_make(seed + 1).unwrap();
    let mut memory = vec![0u8; (2 << 20) + 8192];
    for step in 0..steps {
        let (at, length) = place(&mut random, LIMIT);
        // Memory at a page's start as often as not.
        let skew = if random.below(2) == 0 {
            memory.as_ptr().align_offset(4096)
        } else {
            random.below(4096) as usize
        };
        let say = format!("seed {seed} step {step}: {length} at {at}, memory at {skew}");
        let from = (at as usize).min(model.len());
        let expected = model[from..(from + length).min(model.len())].to_vec();
        match random.below(10) {
            0..3 => {
                let data = random.bytes(length);
                memory[skew..skew + length].copy_from_slice(&data);
                subfile.write_at(&memory[skew..skew + length], at).unwrap();
                put(&mut model, at, &data);
            }
            3..5 => {
                // In runs, some of them empty, some of whole blocks.
                let data = random.bytes(length);
                memory[skew..skew + length].copy_from_slice(&data);
                let mut runs = Vec::new();
                let mut done = 0;
                while done < length {
                    let part = (random.below(4) * 4096 + random.below(2) * 77) as usize;
                    let part = part.min(length - done);
                    runs.push((memory[skew + done..].as_ptr(), part));
                    done += part;
                }
                // SAFETY: all runs lie in `memory`, which nobody touches meanwhile.
                unsafe { subfile.write_raw_at(&runs, at) }.unwrap();
                put(&mut model, at, &data);
            }
            5..7 => {
                let got = subfile
                    .read_at(&mut memory[skew..skew + length], at)
                    .unwrap();
                assert_eq!(got, expected.len(), "{say}: bytes read");
                assert!(memory[skew..skew + got] == expected, "{say}: read");
            }
            7 => {
                memory[skew..skew + length].fill(0xee);
                let half = length / 2;
                let start = memory[skew..].as_mut_ptr();
                let runs = [(start, half), (start.wrapping_add(half), length - half)];
                // SAFETY: both runs lie in `memory`, of which nobody holds a slice.
                unsafe { subfile.read_raw_at(&runs, at) }.unwrap();
                let got = &memory[skew..skew + length];
                assert!(got[..expected.len()] == expected, "{say}: read in runs");
                assert!(got[expected.len()..].iter().all(|byte| *byte == 0), "{say}");
            }
            8 => {
                let mut window = vec![0; length.min(256 << 10)];
                let data = random.bytes(7);
                let place = random.below(window.len() as u64) as usize;
                subfile
                    .change_at(&mut window, at, |window| {
                        for (byte, new) in window[place..].iter_mut().zip(&data) {
                            *byte = *new;
                        }
                    })
                    .unwrap();
                put(&mut model, at, &window);
            }
            _ => {
                subfile.truncate(at).unwrap();
                model.resize(at as usize, 0);
                assert_eq!(subfile.stat().unwrap().size, at, "{say}");
            }
        }
    }
    store.sync(seed + 1).unwrap();
    let mut all = vec![0; model.len() + 1];
    assert_eq!(subfile.read_at(&mut all, 0).unwrap(), model.len());
    assert!(all[..model.len()] == model, "seed {seed}: at the end");
}

fn put(model: &mut Vec<u8>, at: u64, data: &[u8]) {
    let end = at as usize + data.len();
    if model.len() < end {
        model.resize(end, 0);
    }
    model[at as usize..end].copy_from_slice(data);
}

#[test]
fn every_engine_gives_the_same_bytes() {
    for (engine, direct) in WAYS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(store) = open(dir.path(), engine, direct) else {
            continue;
        };
        for seed in 0..support::times(8) {
            println!("{engine:?} direct {direct} seed {seed}");
            exercise(&store, support::seed() + seed, 150);
        }
    }
}

#[test]
fn writers_of_neighbouring_bytes_do_not_disturb_each_other_on_any_engine() {
    const WRITERS: usize = 4;
    for (engine, direct) in WAYS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(store) = open(dir.path(), engine, direct) else {
            continue;
        };
        let subfile = store.find_or_make(1).unwrap();
        // Pieces of one block's length, none of them at a block's start.
        let piece = 4096 * 2;
        std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let subfile = &subfile;
                scope.spawn(move || {
                    for round in 0..40 {
                        let at = (round * WRITERS + writer) * piece + 100;
                        let bytes = vec![writer as u8 + 1; piece];
                        subfile.write_at(&bytes, at as u64).unwrap();
                    }
                });
            }
        });
        let mut back = vec![0; 40 * WRITERS * piece + 100];
        assert_eq!(subfile.read_at(&mut back, 0).unwrap(), back.len());
        for (at, byte) in back[100..].iter().enumerate() {
            assert_eq!(
                *byte as usize,
                at / piece % WRITERS + 1,
                "{engine:?} direct {direct} at {at}"
            );
        }
    }
}

#[test]
fn errors_of_the_disk_come_through_every_engine() {
    for (engine, direct) in WAYS {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let Some(store) = open(dir.path(), engine, direct) else {
            continue;
        };
        let subfile = store.find_or_make(1).unwrap();
        // Beyond what any file system holds.
        let error = subfile.write_at(&[1; 8192], (1 << 62) - 4096).unwrap_err();
        assert_eq!(error.errno(), libc::EFBIG, "{engine:?} {direct}: {error}");
        subfile.write_at(&[1; 8192], 0).unwrap();
    }
}

#[test]
fn nobody_writes_back_what_was_read_while_others_write_without_asking() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let store = open(dir.path(), WAYS[0].0, WAYS[0].1).unwrap();
    let subfile = store.find_or_make(7).unwrap();
    let lent = || OwnedFd::from(subfile.lend(true).unwrap().unwrap());
    let mut window = [0; 10];
    let mut change = || subfile.change_at(&mut window, 5, |window| window.fill(1));
    assert!(change().unwrap());
    // Two of them, and the last one counts.
    let first = range_lock::announce(lent(), 1).unwrap();
    let second = range_lock::announce(lent(), 2).unwrap();
    assert!(
        range_lock::announce(lent(), 2).is_err(),
        "that number is taken"
    );
    assert!(!change().unwrap());
    drop(first);
    assert!(!change().unwrap());
    // Who locks what they write need not mind.
    let other = lent();
    assert!(range_lock::try_lock(&other, 0, 100).is_some());
    drop(second);
    assert!(change().unwrap());
    let alone = range_lock::try_lock_alone(&other, 0, 10).unwrap();
    assert!(
        range_lock::announce(lent(), 3).is_err(),
        "somebody changes it"
    );
    drop(alone);
    assert!(range_lock::announce(lent(), 3).is_ok());
}
