//! A power cut at any moment of an engine's work: the namespace opens again, and every operation that
//! had returned is there; of the one under way, all or nothing.
//!
//! The engines do their own I/O, so this process stands between them and the C library
//! (`power_cut/witness.rs`). Then, for each thing that was asked of the disk, the disk is built as a power
//! cut could have left it.

#[path = "../../store/tests/support/mod.rs"]
mod chance;
mod support;
#[path = "power_cut/witness.rs"]
mod witness;

use std::path::Path;
use std::sync::Arc;

use chance::Random;
use chance::disk::{Model as Disk, workplace};
use support::model::{Model, Step};
use support::tree::{listing, problems, request};
use support::{manager, options, root};
use trireme_meta::Manager;
use trireme_meta::kv::{Engine, EngineError, Fjall, Redb};
use trireme_proto::message::meta::RenameMode;
use witness::Seen;

/// Operations of one sequence.
const OPERATIONS: usize = 10;

type Open = fn(&Path) -> Result<Arc<dyn Engine>, EngineError>;

fn path(random: &mut Random) -> Vec<u8> {
    let depth = 1 + random.below(2);
    (0..depth)
        .flat_map(|_| [b'/', b'a' + random.below(3) as u8])
        .collect()
}

fn step(random: &mut Random) -> Step {
    let (one, two) = (path(random), path(random));
    match random.below(12) {
        0..=2 => Step::Create(one),
        3 | 4 => Step::Mkdir(one),
        5 => Step::Link(one, two),
        6 => Step::Unlink(one),
        7 => Step::Rmdir(one),
        8 => Step::Chmod(one, 0o700 | random.below(64) as u32),
        9 => Step::Rename(one, two, RenameMode::Exchange),
        _ => Step::Rename(one, two, RenameMode::Replace),
    }
}

/// Waits until a manager's threads have let go of its engine.
fn closed(engine: Arc<dyn Engine>) {
    while Arc::strong_count(&engine) > 1 {
        std::thread::yield_now();
    }
}

/// Random operations, started again in the middle; gives all that was asked of the disk, and the tree
/// after each operation.
fn work(dir: &Path, open: Open, random: &mut Random) -> (Vec<Seen>, Vec<Vec<String>>) {
    witness::watch(dir);
    let mut engine = open(dir).unwrap();
    let (mut current, _) = manager(engine.clone());
    witness::note(0);
    let mut model = Model::default();
    let mut trees = vec![model.listing()];
    while trees.len() <= OPERATIONS {
        if trees.len() == OPERATIONS / 2 {
            drop(current);
            closed(engine);
            engine = open(dir).unwrap();
            current = Manager::open(engine.clone(), options()).unwrap();
        }
        let step = step(random);
        let expected = model.apply(&step);
        let got = current.call(&root(), request(&step)).map(|_| ());
        assert_eq!(got.map_err(|failure| failure.errno), expected, "{step:?}");
        if expected.is_ok() {
            witness::note(trees.len());
            trees.push(model.listing());
        }
    }
    drop(current);
    closed(engine);
    (witness::end(), trees)
}

fn cuts(name: &str, open: Open, sequences: u64) {
    let (mut cuts, mut returned) = (0u64, 0);
    for seed in 0..chance::times(sequences) {
        let mut random = Random::new(chance::seed() + seed + 1);
        let top = tempfile::tempdir_in(workplace()).unwrap();
        let dir = top.path().join("disk");
        std::fs::create_dir(&dir).unwrap();
        let (seen, trees) = work(&dir, open, &mut random);
        let mut disk = Disk::new(&dir);
        // How many operations had returned; none: the file system was still being made.
        let mut done = None;
        for (number, seen) in seen.iter().enumerate() {
            match seen {
                Seen::Disk(step) => disk.take(step),
                Seen::Returned(operations) => done = Some(*operations),
            }
            // The first start is the same each time: some cuts are enough for it.
            if done.is_none() && number as u64 % 10 != seed % 10 {
                continue;
            }
            let say = format!("{name}, seed {seed}, cut after step {number}");
            let after = top.path().join(format!("cut-{number}"));
            disk.cut(&after, &mut random);
            let engine = open(&after).unwrap_or_else(|error| panic!("{say}: {error}"));
            let manager = Manager::open(engine.clone(), options())
                .unwrap_or_else(|failure| panic!("{say}: {failure}"));
            if let Some(done) = done {
                let tree = listing(&manager);
                let next = trees.get(done + 1).unwrap_or(&trees[done]);
                assert!(
                    tree == trees[done] || tree == *next,
                    "{say}: after {done} operations {tree:#?} instead of {:#?} or {next:#?}",
                    trees[done]
                );
                assert_eq!(problems(&manager), Vec::<String>::new(), "{say}");
                returned += 1;
            }
            drop(manager);
            closed(engine);
            std::fs::remove_dir_all(&after).unwrap();
            cuts += 1;
        }
        witness::compare(&dir, &disk);
    }
    println!("{name}: {cuts} power cuts, {returned} of them after operations that had returned");
    assert!(returned >= 10 * sequences, "{returned}");
}

#[test]
fn operations_that_returned_survive_power_cuts() {
    cuts(
        "fjall",
        |dir| Ok(Arc::new(Fjall::open(&dir.join("fjall"))?)),
        60,
    );
    // Tables are written again and again, and merged.
    cuts(
        "fjall with small tables",
        |dir| Ok(Arc::new(Fjall::open_with(&dir.join("fjall"), 2048)?)),
        20,
    );
    cuts(
        "redb",
        |dir| Ok(Arc::new(Redb::open(&dir.join("redb"))?)),
        10,
    );
}
