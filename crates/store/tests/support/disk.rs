//! A disk with its cache, as the kernel and POSIX allow it to be, and what a power cut can leave of it:
//! what a sync covered is there; of everything else (bytes, sizes, names) a random part, and writes torn
//! at sectors.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use super::Random;

/// What disks write whole.
const SECTOR: usize = 512;

/// Something that was asked of a disk.
#[derive(Debug, Clone)]
pub enum Step {
    MakeFolder(PathBuf),
    Make(PathBuf),
    Write(PathBuf, u64, Vec<u8>),
    Truncate(PathBuf, u64),
    Rename(PathBuf, PathBuf),
    /// A folder with all that is in it.
    Move(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(PathBuf),
    SyncFolder(PathBuf),
    SyncAll,
}

/// A change of a file's bytes that no sync covers yet.
#[derive(Debug, Clone)]
pub enum Change {
    Write(u64, Vec<u8>),
    Truncate(u64),
}

/// Bytes of a file; those behind `data`, up to `size`, are zero.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bytes {
    pub data: Vec<u8>,
    pub size: u64,
}

impl Bytes {
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write(offset, data) => {
                let end = *offset as usize + data.len();
                if self.data.len() < end {
                    self.data.resize(end, 0);
                }
                self.data[*offset as usize..end].copy_from_slice(data);
                self.size = self.size.max(end as u64);
            }
            Change::Truncate(size) => {
                self.data.truncate(*size as usize);
                self.size = *size;
            }
        }
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = self.data.clone();
        bytes.resize(self.size as usize, 0);
        bytes
    }

    fn write(&self, path: &Path) {
        std::fs::write(path, &self.data).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(self.size).unwrap();
    }
}

#[derive(Debug, Clone, Default)]
struct Inode {
    durable: Bytes,
    pending: Vec<Change>,
}

/// Names: a folder's are durable or pending; `None` is a removal.
#[derive(Debug, Clone, Default)]
struct Folder {
    durable: BTreeMap<PathBuf, usize>,
    /// All parts of one entry are changed together: a rename is atomic.
    pending: Vec<Vec<(PathBuf, Option<usize>)>>,
}

/// The disk under the folder `root`, which is there itself.
#[derive(Debug, Clone)]
pub struct Model {
    root: PathBuf,
    inodes: Vec<Inode>,
    names: HashMap<PathBuf, usize>,
    folders: HashMap<PathBuf, Folder>,
    /// Folders made, and whether that is durable.
    made: BTreeMap<PathBuf, bool>,
    /// Folders that are elsewhere now, which no sync covers yet.
    moved: Vec<(PathBuf, PathBuf)>,
}

/// A path below `from` as it is when that is `to`.
pub fn elsewhere(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.into(),
        Ok(rest) => to.join(rest),
        Err(_) => path.into(),
    }
}

impl Model {
    pub fn new(root: &Path) -> Model {
        Model {
            root: root.into(),
            inodes: Vec::new(),
            names: HashMap::new(),
            folders: HashMap::new(),
            made: BTreeMap::new(),
            moved: Vec::new(),
        }
    }

    fn folder(&mut self, path: &Path) -> &mut Folder {
        let parent = path.parent().unwrap().to_path_buf();
        self.folders.entry(parent).or_default()
    }

    pub fn take(&mut self, step: &Step) {
        match step {
            Step::MakeFolder(path) => {
                for folder in [path.parent().unwrap(), path] {
                    if folder != self.root {
                        self.made.entry(folder.into()).or_insert(false);
                    }
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
            Step::Move(from, to) => {
                self.rename_all(from, to);
                self.moved.push((from.clone(), to.clone()));
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
                self.moved.retain(|(_, to)| to.parent() != Some(path));
            }
            Step::SyncAll => {
                self.inodes.iter_mut().for_each(Inode::sync);
                self.folders.values_mut().for_each(Folder::sync);
                self.made.values_mut().for_each(|durable| *durable = true);
                self.moved.clear();
            }
        }
    }

    fn rename_all(&mut self, from: &Path, to: &Path) {
        let moved = |path: &PathBuf| elsewhere(path, from, to);
        self.names = self
            .names
            .iter()
            .map(|(path, inode)| (moved(path), *inode))
            .collect();
        self.made = self
            .made
            .iter()
            .map(|(path, durable)| (moved(path), *durable))
            .collect();
        for (path, mut folder) in std::mem::take(&mut self.folders) {
            folder.durable = folder
                .durable
                .iter()
                .map(|(name, inode)| (moved(name), *inode))
                .collect();
            for (name, _) in folder.pending.iter_mut().flatten() {
                *name = moved(name);
            }
            self.folders.insert(moved(&path), folder);
        }
    }

    /// Writes the disk as a power cut may have left it.
    pub fn cut(&self, to: &Path, random: &mut Random) {
        let moved = |path: &Path| to.join(path.strip_prefix(&self.root).unwrap());
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
                    bytes.write(&moved(&name));
                }
            }
        }
        self.move_back(to, random);
    }

    /// Undoes some of the moves that no sync covers, the last one first.
    fn move_back(&self, to: &Path, random: &mut Random) {
        for (old, new) in self.moved.iter().rev() {
            let (old, new) = (
                elsewhere(old, &self.root, to),
                elsewhere(new, &self.root, to),
            );
            if random.below(2) == 0 && new.exists() && !old.exists() {
                std::fs::rename(new, old).unwrap();
            }
        }
    }

    /// All files as they are without a cut.
    pub fn files(&self) -> BTreeMap<PathBuf, Bytes> {
        let files = self.names.iter().map(|(name, inode)| {
            let mut inode = self.inodes[*inode].clone();
            inode.sync();
            (name.clone(), inode.durable)
        });
        files.collect()
    }
}

impl Inode {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.durable.apply(&change);
        }
    }

    fn after_a_cut(&self, random: &mut Random) -> Bytes {
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
                            bytes.apply(&Change::Write(start as u64, piece));
                        }
                        at += part;
                    }
                }
                (_, change) => bytes.apply(change),
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

/// In memory where there is such a place: what a cut leaves is worked out here, no real disk is cut.
pub fn workplace() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory
    } else {
        Path::new(env!("CARGO_TARGET_TMPDIR"))
    }
}
