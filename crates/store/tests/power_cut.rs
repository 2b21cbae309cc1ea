//! A power cut at any moment: what was synced is there, and the disk always opens again.
//!
//! The store runs on a real directory while a witness writes down everything that it asks of the disk.
//! Then, for many moments, the disk is built as a power cut could have left it (`support/disk.rs`).

mod support;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use support::Random;
use support::disk::{Bytes, Change, Model, Step, workplace};
use trireme_store::{Event, Options, Probe, Store};

/// An event, or what the store said.
#[derive(Debug, Clone)]
enum Note {
    Disk(Step),
    /// The store said that this file is durable, and this is what it holds.
    Promised(u64, Bytes),
    /// The file is being removed: nothing is promised of it any more.
    Released(u64),
}

#[derive(Debug, Default)]
struct Witness {
    steps: Mutex<Vec<Note>>,
}

impl Witness {
    fn note(&self, note: Note) {
        self.steps.lock().unwrap().push(note);
    }
}

impl Probe for Witness {
    fn saw(&self, event: Event<'_>) -> io::Result<()> {
        self.note(Note::Disk(match event {
            Event::MakeFolder(path) => Step::MakeFolder(path.into()),
            Event::Make(path) => Step::Make(path.into()),
            Event::Write {
                path,
                offset,
                bytes,
            } => Step::Write(path.into(), offset, bytes.into()),
            Event::Truncate { path, size } => Step::Truncate(path.into(), size),
            Event::Rename { from, to } => Step::Rename(from.into(), to.into()),
            Event::Remove(path) => Step::Remove(path.into()),
            Event::Sync(path) => Step::Sync(path.into()),
            Event::SyncFolder(path) => Step::SyncFolder(path.into()),
            Event::SyncAll(_) => Step::SyncAll,
        }));
        Ok(())
    }
}

fn options(witness: &Arc<Witness>, boot: &str) -> Options {
    Options {
        probe: Some(witness.clone()),
        boot: Some(boot.into()),
        ..Options::default()
    }
}

/// Random work of a server on some files; gives everything that happened, with the incarnation.
fn work(dir: &Path, random: &mut Random) -> (Vec<Note>, u64) {
    let witness = Arc::new(Witness::default());
    let open = || Store::open_with(&[dir.into()], 3, 9, &options(&witness, "first")).unwrap();
    let mut store = open();
    let mut models: BTreeMap<u64, Bytes> = BTreeMap::new();
    let mut next = 1;
    for round in 0..60 {
        if round == 30 {
            // The process was killed and started again: the machine's cache lives on.
            drop(store);
            store = open();
        }
        let file = match random.below(4) {
            0 => {
                next += 1;
                next
            }
            _ => 1 + random.below(next),
        };
        let model = models.entry(file).or_default();
        let subfile = store.find_or_make(file).unwrap();
        match random.below(8) {
            0..4 => {
                let at = random.below(6000);
                let length = random.size(5000) as usize;
                let data = random.bytes(length);
                subfile.write_at(&data, at).unwrap();
                model.apply(&Change::Write(at, data));
            }
            4 => {
                let size = random.below(8000);
                subfile.truncate(size).unwrap();
                model.apply(&Change::Truncate(size));
            }
            5..7 => {
                store.sync(file).unwrap();
                witness.note(Note::Promised(file, model.clone()));
            }
            _ => {
                witness.note(Note::Released(file));
                store.remove(file).unwrap();
                models.remove(&file);
                next += 1;
            }
        }
    }
    let incarnation = store.incarnation().load(Ordering::SeqCst);
    let steps = witness.steps.lock().unwrap().clone();
    (steps, incarnation)
}

/// Files that were synced: since which step, and what they held.
type Promised = HashMap<u64, (usize, Bytes)>;

/// What was promised is there, but for bytes that somebody changed later without a sync.
fn check(store: &Store, steps: &[Note], promised: &Promised, dir: &Path, say: &str) -> u64 {
    let mut bytes = 0;
    for (file, (since, promised)) in promised {
        let promised = promised.to_vec();
        let path = dir.join(format!("data/{:02x}/{file:016x}", file % 256));
        let mut certain = vec![true; promised.len()];
        for step in &steps[*since..] {
            let range = match step {
                Note::Disk(Step::Write(other, at, data)) if *other == path => {
                    *at..*at + data.len() as u64
                }
                Note::Disk(Step::Truncate(other, size)) if *other == path => *size..u64::MAX,
                _ => continue,
            };
            for (at, certain) in certain.iter_mut().enumerate() {
                *certain &= !range.contains(&(at as u64));
            }
        }
        let subfile = store
            .find(*file)
            .unwrap()
            .unwrap_or_else(|| panic!("{say}: file {file} was synced and is gone"));
        let mut back = vec![0; promised.len()];
        let got = subfile.read_at(&mut back, 0).unwrap();
        for (at, certain) in certain.iter().enumerate() {
            if *certain {
                assert!(
                    at < got,
                    "{say}: file {file} ends at {got}, byte {at} was synced"
                );
                assert_eq!(back[at], promised[at], "{say}: file {file}, byte {at}");
                bytes += 1;
            }
        }
    }
    bytes
}

#[test]
fn synced_bytes_survive_power_cuts_and_the_disk_always_opens() {
    let mut cuts = 0;
    let mut checked = 0;
    for seed in 0..support::times(20) {
        let mut random = Random::new(support::seed() + seed + 1);
        let top = tempfile::tempdir_in(workplace()).unwrap();
        let dir = top.path().join("disk");
        let (steps, before) = work(&dir, &mut random);
        let mut model = Model::new(&dir);
        let mut promised = Promised::new();
        for (number, note) in steps.iter().enumerate() {
            match note {
                Note::Disk(step) => model.take(step),
                Note::Promised(file, bytes) => {
                    promised.insert(*file, (number, bytes.clone()));
                }
                Note::Released(file) => {
                    promised.remove(file);
                }
            }
            // The folders of a start are hundreds of steps alike: few cuts are enough for them.
            let every = match note {
                Note::Disk(Step::MakeFolder(_)) => 64,
                Note::Disk(Step::Rename(..)) => 1,
                Note::Disk(Step::Make(path) | Step::Write(path, ..) | Step::Sync(path)) => {
                    // The label's are few.
                    if path.starts_with(dir.join("data")) {
                        4
                    } else {
                        1
                    }
                }
                _ => 4,
            };
            if number % every != seed as usize % every {
                continue;
            }
            let say = format!("seed {seed}, cut after step {number}");
            let after = top.path().join(format!("cut-{number}"));
            model.cut(&after, &mut random);
            let witness = Arc::new(Witness::default());
            let store = Store::open_with(
                std::slice::from_ref(&after),
                3,
                9,
                &options(&witness, "second"),
            )
            .unwrap_or_else(|error| panic!("{say}: {error}"));
            checked += check(&store, &steps[..=number], &promised, &dir, &say);
            assert_ne!(
                store.incarnation().load(Ordering::SeqCst),
                before,
                "{say}: bytes can be lost, and nobody would know"
            );
            store.list(0, 1000).unwrap();
            drop(store);
            std::fs::remove_dir_all(&after).unwrap();
            cuts += 1;
        }
    }
    println!("{cuts} power cuts, {checked} synced bytes checked");
    assert!(cuts >= 500, "{cuts}");
    assert!(checked > 100_000, "{checked}");
}
