//! A power cut at any moment: what was synced is there, and the disk always opens again.
//!
//! The store runs on a real directory while a witness writes down everything that it asks of the disk.
//! Then, for many moments, the disk is built as a power cut could have left it: what a sync covered is
//! there; of everything else (bytes, sizes, names) a random part, and writes torn at sectors.

mod support;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use support::Random;
use trireme_store::{Event, Options, Probe, Store};

/// What disks write whole.
const SECTOR: usize = 512;

/// An event with its bytes.
#[derive(Debug, Clone)]
enum Step {
    MakeFolder(PathBuf),
    Make(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Truncate(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    SyncAll,
    /// The store said that this file is durable, and this is what it holds.
    Promised(u64, Vec<u8>),
    /// The file is being removed: nothing is promised of it any more.
    Released(u64),
}

#[derive(Debug, Default)]
struct Witness {
    steps: Mutex<Vec<Step>>,
}

impl Witness {
    fn note(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }
}

impl Probe for Witness {
    fn saw(&self, event: Event<'_>) -> io::Result<()> {
        self.note(match event {
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
        });
        Ok(())
    }
}

/// A change of a file's bytes that no sync covers yet.
#[derive(Debug, Clone)]
enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

#[derive(Debug, Clone, Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<Change>,
}

/// Names: a folder's are durable or pending; `None` is a removal.
#[derive(Debug, Clone, Default)]
struct Folder {
    durable: BTreeMap<PathBuf, usize>,
    /// All parts of one entry are changed together: a rename is atomic.
    pending: Vec<Vec<(PathBuf, Option<usize>)>>,
}

/// A disk with its cache, as the kernel and POSIX allow it to be.
#[derive(Debug, Clone, Default)]
struct Model {
    inodes: Vec<Inode>,
    names: HashMap<PathBuf, usize>,
    folders: HashMap<PathBuf, Folder>,
    /// Folders made, and whether that is durable.
    made: BTreeMap<PathBuf, bool>,
    promised: HashMap<u64, (usize, Vec<u8>)>,
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => {
            let end = *offset as usize + data.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[*offset as usize..end].copy_from_slice(data);
        }
        Change::Truncate(size) => bytes.resize(*size as usize, 0),
    }
}

impl Model {
    fn folder(&mut self, path: &Path) -> &mut Folder {
        let parent = path.parent().unwrap().to_path_buf();
        self.folders.entry(parent).or_default()
    }

    fn take(&mut self, number: usize, step: &Step) {
        match step {
            Step::MakeFolder(path) => {
                for folder in [path.parent().unwrap(), path] {
                    self.made.entry(folder.into()).or_insert(false);
                }
            }
            Step::Make(path) => {
                if let Some(inode) = self.names.get(path) {
                    self.inodes[*inode].pending.push(Change::Truncate(0));
                } else {
                    let inode = self.inodes.len();
                    self.inodes.push(Inode::default());
                    self.names.insert(path.clone(), inode);
                    let entry = vec![(path.clone(), Some(inode))];
                    self.folder(path).pending.push(entry);
                }
            }
            Step::Write(path, offset, bytes) => {
                let inode = self.names[path];
                let change = Change::Write(*offset, bytes.clone());
                self.inodes[inode].pending.push(change);
            }
            Step::Truncate(path, size) => {
                let inode = self.names[path];
                self.inodes[inode].pending.push(Change::Truncate(*size));
            }
            Step::Rename(from, to) => {
                let inode = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), inode);
                let entry = vec![(from.clone(), None), (to.clone(), Some(inode))];
                self.folder(to).pending.push(entry);
            }
            Step::Remove(path) => {
                self.names.remove(path);
                self.folder(path).pending.push(vec![(path.clone(), None)]);
            }
            Step::Sync(path) => {
                let inode = self.names[path];
                self.inodes[inode].sync();
            }
            Step::SyncFolder(path) => {
                self.folders.entry(path.clone()).or_default().sync();
                for (made, durable) in &mut self.made {
                    *durable |= made.parent() == Some(path);
                }
            }
            Step::SyncAll => {
                self.inodes.iter_mut().for_each(Inode::sync);
                self.folders.values_mut().for_each(Folder::sync);
                self.made.values_mut().for_each(|durable| *durable = true);
            }
            Step::Promised(file, bytes) => {
                self.promised.insert(*file, (number, bytes.clone()));
            }
            Step::Released(file) => {
                self.promised.remove(file);
            }
        }
    }

    /// Writes the disk as a power cut may have left it.
    fn cut(&self, from: &Path, to: &Path, random: &mut Random) {
        let moved = |path: &Path| to.join(path.strip_prefix(from).unwrap());
        std::fs::create_dir_all(to).unwrap();
        for (folder, durable) in &self.made {
            // Parents come first; without a parent there is nothing to be in.
            if (*durable || random.below(2) == 0) && moved(folder.parent().unwrap()).exists() {
                std::fs::create_dir(moved(folder)).unwrap();
            }
        }
        for folder in self.folders.values() {
            let mut names = folder.durable.clone();
            for change in &folder.pending {
                if random.below(2) == 0 {
                    continue;
                }
                for (name, inode) in change {
                    match inode {
                        Some(inode) => names.insert(name.clone(), *inode),
                        None => names.remove(name),
                    };
                }
            }
            for (name, inode) in names {
                let bytes = self.inodes[inode].after_a_cut(random);
                if moved(name.parent().unwrap()).exists() {
                    std::fs::write(moved(&name), bytes).unwrap();
                }
            }
        }
    }
}

impl Inode {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &change);
        }
    }

    fn after_a_cut(&self, random: &mut Random) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for change in &self.pending {
            match (random.below(3), change) {
                (0, _) => {}
                (1, Change::Write(offset, data)) => {
                    // Torn: some sectors came through.
                    let mut at = 0;
                    while at < data.len() {
                        let start = *offset as usize + at;
                        let part = (SECTOR - start % SECTOR).min(data.len() - at);
                        if random.below(2) == 0 {
                            let piece = data[at..at + part].to_vec();
                            apply(&mut bytes, &Change::Write(start as u64, piece));
                        }
                        at += part;
                    }
                }
                (_, change) => apply(&mut bytes, change),
            }
        }
        bytes
    }
}

impl Folder {
    fn sync(&mut self) {
        for (name, inode) in std::mem::take(&mut self.pending).into_iter().flatten() {
            match inode {
                Some(inode) => self.durable.insert(name, inode),
                None => self.durable.remove(&name),
            };
        }
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
fn work(dir: &Path, random: &mut Random) -> (Vec<Step>, u64) {
    let witness = Arc::new(Witness::default());
    let open = || Store::open_with(&[dir.into()], 3, 9, &options(&witness, "first")).unwrap();
    let mut store = open();
    let mut models: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
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
                apply(model, &Change::Write(at, data));
            }
            4 => {
                let size = random.below(8000);
                subfile.truncate(size).unwrap();
                apply(model, &Change::Truncate(size));
            }
            5..7 => {
                store.sync(file).unwrap();
                witness.note(Step::Promised(file, model.clone()));
            }
            _ => {
                witness.note(Step::Released(file));
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

/// What was promised is there, but for bytes that somebody changed later without a sync.
fn check(store: &Store, steps: &[Step], model: &Model, dir: &Path, say: &str) -> u64 {
    let mut bytes = 0;
    for (file, (since, promised)) in &model.promised {
        let path = dir.join(format!("data/{:02x}/{file:016x}", file % 256));
        let mut certain = vec![true; promised.len()];
        for step in &steps[*since..] {
            let range = match step {
                Step::Write(other, at, data) if *other == path => *at..*at + data.len() as u64,
                Step::Truncate(other, size) if *other == path => *size..u64::MAX,
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

/// In memory where there is such a place: what a cut leaves is worked out here, no real disk is cut.
fn workplace() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    }
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
        let mut model = Model::default();
        for (number, step) in steps.iter().enumerate() {
            model.take(number, step);
            // The folders of a start are hundreds of steps alike: few cuts are enough for them.
            let every = match step {
                Step::MakeFolder(_) => 64,
                Step::Rename(..) => 1,
                Step::Make(path) | Step::Write(path, ..) | Step::Sync(path)
                    if path.starts_with(dir.join("data")) =>
                {
                    4
                }
                // The label's.
                Step::Make(_) | Step::Write(..) | Step::Sync(_) => 1,
                _ => 4,
            };
            if number % every != seed as usize % every {
                continue;
            }
            let say = format!("seed {seed}, cut after step {number}");
            let after = top.path().join(format!("cut-{number}"));
            model.cut(&dir, &after, &mut random);
            let witness = Arc::new(Witness::default());
            let store = Store::open_with(
                std::slice::from_ref(&after),
                3,
                9,
                &options(&witness, "second"),
            )
            .unwrap_or_else(|error| panic!("{say}: {error}"));
            checked += check(&store, &steps[..=number], &model, &dir, &say);
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
