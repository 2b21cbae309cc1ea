//! The namespace half of `fsck`: reads everything, compares, and with `repair` mends what can be
//! mended without losing anything. Runs as one transaction, so nothing moves while it looks.
//!
//! It never deletes a file: an inode without a name gets one in `/lost+found`.

mod lists;

use crate::failure::Failure;
use crate::key;
use crate::namespace::{directory, put_inode};
use crate::record::{Body, Counters, Inode, Slot, Todo, decode};
use crate::txn::{Read, Txn};
use std::collections::{BTreeMap, HashMap, HashSet};
use trireme_proto::message::meta::{CheckReport, Kind, Problem, ROOT};

/// Keys read at a time.
const PAGE: usize = 4096;
/// Repairs in one run, so that they fit one commit; a second run does the rest.
const REPAIRS: usize = 1000;
const LOST_AND_FOUND: &[u8] = b"lost+found";

struct Check<'a, 'b> {
    txn: &'a mut Txn<'b>,
    secret: &'a [u8; 32],
    repair: bool,
    report: CheckReport,
    inodes: BTreeMap<u64, Inode>,
    // What the entries say: names of an inode, entries and subdirectories of a directory.
    names: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    contents: HashMap<u64, (u64, u32)>,
    todo: HashSet<u64>,
}

/// Checks the namespace.
pub fn check(txn: &mut Txn<'_>, secret: &[u8; 32], repair: bool) -> Result<CheckReport, Failure> {
    let mut check = Check {
        txn,
        secret,
        repair,
        report: CheckReport::default(),
        inodes: BTreeMap::new(),
        names: HashMap::new(),
        contents: HashMap::new(),
        todo: HashSet::new(),
    };
    check.read_inodes()?;
    check.read_entries()?;
    check.read_todo()?;
    check.counters()?;
    check.lost()?;
    check.links();
    check.attributes()?;
    check.lists()?;
    Ok(check.report)
}

impl Check<'_, '_> {
    /// Notes a problem; true when it is to be repaired now.
    fn problem(&mut self, what: String, remedy: &str) -> bool {
        let mended = self
            .report
            .problems
            .iter()
            .filter(|problem| problem.repaired)
            .count();
        let repaired = self.repair && mended < REPAIRS;
        let remedy = remedy.to_owned();
        self.report.problems.push(Problem {
            what,
            remedy,
            repaired,
        });
        repaired
    }

    fn each(
        &mut self,
        table: u8,
        mut see: impl FnMut(&mut Self, &[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut from, to) = key::table(table);
        loop {
            let page = self.txn.pairs(&from, &to, PAGE)?;
            for (key, value) in &page {
                see(self, key, value)?;
            }
            match page.last() {
                Some((last, _)) if page.len() == PAGE => {
                    from.clone_from(last);
                    from.push(0);
                }
                _ => return Ok(()),
            }
        }
    }

    fn read_inodes(&mut self) -> Result<(), Failure> {
        self.each(b'i', |check, key, value| {
            let id = key::number(key).unwrap_or(0);
            match decode::<Inode>(&format!("inode {id}"), value) {
                Ok(inode) => {
                    check.inodes.insert(id, inode);
                }
                Err(failure) => {
                    check.problem(failure.to_string(), "none: restore it from a backup");
                }
            }
            check.report.inodes += 1;
            Ok(())
        })
    }

    fn read_entries(&mut self) -> Result<(), Failure> {
        self.each(b'd', |check, key, value| {
            let (parent, slot) = (key::number(key).unwrap_or(0), key::slot(key).unwrap_or(0));
            let entry = match decode::<Slot>("directory entry", value) {
                Ok(entry) => entry,
                Err(failure) => {
                    check.problem(failure.to_string(), "none: restore it from a backup");
                    return Ok(());
                }
            };
            let Slot::Used { name, inode, kind } = entry else { return Ok(()) };
            check.report.entries += 1;
            let shown = String::from_utf8_lossy(&name).into_owned();
            let Some(target) = check.inodes.get(&inode) else {
                let what = format!("entry {shown:?} of directory {parent} names inode {inode}, which does not exist");
                if check.problem(what, "remove the entry") {
                    directory::remove(check.txn, parent, slot)?;
                }
                return Ok(());
            };
            let real = target.kind;
            if real != kind {
                let what = format!("entry {shown:?} of directory {parent} has the wrong kind");
                if check.problem(what, "write the inode's kind") {
                    directory::set(check.txn, parent, slot, &name, inode, real);
                }
            }
            if !check.inodes.get(&parent).is_some_and(Inode::is_directory) {
                let what = format!("entry {shown:?} lies in {parent}, which is no directory");
                if check.problem(what, "remove the entry; its inode goes to /lost+found") {
                    check.txn.delete(key.to_vec());
                }
                return Ok(());
            }
            let found = directory::find(check.txn, check.secret, parent, &name)?;
            if found.is_none_or(|found| found.slot != slot) {
                let what = format!("entry {shown:?} of directory {parent} is where no lookup finds it");
                let remedy = "move it to its place, or drop a second entry of the same name";
                if check.problem(what, remedy) {
                    check.txn.delete(key.to_vec());
                    if found.is_none() {
                        directory::insert(check.txn, check.secret, parent, &name, inode, real)?;
                    }
                }
                if found.is_some() {
                    return Ok(());
                }
            }
            check.names.entry(inode).or_default().push((parent, name));
            let contents = check.contents.entry(parent).or_default();
            contents.0 += 1;
            contents.1 += u32::from(real == Kind::Directory);
            Ok(())
        })
    }

    fn read_todo(&mut self) -> Result<(), Failure> {
        self.each(b't', |check, key, value| {
            let id = key::number(key).unwrap_or(0);
            let todo = decode::<Todo>("to-do entry", value)?;
            if todo.removes() {
                check.todo.insert(id);
            }
            let named = check.names.contains_key(&id);
            if todo.removes() && named {
                let what = format!("inode {id} has a name and is on the list for removal");
                if check.problem(
                    what,
                    "take it off the list: a file with a name is never removed",
                ) {
                    check.txn.delete(key.to_vec());
                }
                check.todo.remove(&id);
            } else if !check.inodes.contains_key(&id) {
                let what = format!("the to-do list names inode {id}, which does not exist");
                if check.problem(what, "take it off the list; its subfiles are strays") {
                    check.txn.delete(key.to_vec());
                }
            }
            Ok(())
        })
    }

    fn counters(&mut self) -> Result<(), Failure> {
        let stored = self.txn.record::<Counters>(key::COUNTERS)?;
        let highest = self.inodes.keys().next_back().copied().unwrap_or(ROOT);
        let live = self.inodes.len() as u64;
        let counters = stored.unwrap_or(Counters { next: 0, live: 0 });
        let next = counters.next.max(highest + 1);
        if counters.next <= highest || counters.live != live {
            let what = format!(
                "the counters say next inode {} and {} in use; it is {next} and {live}",
                counters.next, counters.live
            );
            if self.problem(what, "write the right ones") {
                self.txn
                    .put(key::COUNTERS.to_vec(), &Counters { next, live });
            }
        }
        Ok(())
    }

    /// Inodes that no entry names and that are not waiting for removal.
    fn lost(&mut self) -> Result<(), Failure> {
        let lost: Vec<u64> = self
            .inodes
            .iter()
            .filter(|(id, _)| {
                **id != ROOT && !self.names.contains_key(id) && !self.todo.contains(id)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            let what = format!("inode {id} has no name");
            if self.problem(what, "name it /lost+found/NUMBER") {
                let home = self.lost_and_found()?;
                let name = id.to_string().into_bytes();
                let kind = self.inodes[&id].kind;
                directory::insert(self.txn, self.secret, home, &name, id, kind)?;
                self.names.entry(id).or_default().push((home, name));
                let contents = self.contents.entry(home).or_default();
                contents.0 += 1;
                contents.1 += u32::from(kind == Kind::Directory);
            }
        }
        Ok(())
    }

    fn lost_and_found(&mut self) -> Result<u64, Failure> {
        if let Some(found) = directory::find(self.txn, self.secret, ROOT, LOST_AND_FOUND)? {
            return Ok(found.inode);
        }
        let id = crate::namespace::count(self.txn, |counters| {
            counters.next += 1;
            counters.live += 1;
        })?
        .next
            - 1;
        let mut made = self.inodes[&ROOT].clone();
        (made.mode, made.nlink, made.size) = (0o700, 2, 0);
        (made.mtime, made.ctime, made.btime) = (self.txn.now, self.txn.now, self.txn.now);
        directory::insert(
            self.txn,
            self.secret,
            ROOT,
            LOST_AND_FOUND,
            id,
            Kind::Directory,
        )?;
        put_inode(self.txn, id, &made);
        self.inodes.insert(id, made);
        self.names.insert(id, vec![(ROOT, LOST_AND_FOUND.to_vec())]);
        let contents = self.contents.entry(ROOT).or_default();
        contents.0 += 1;
        contents.1 += 1;
        Ok(id)
    }

    /// Link counts, entry counts and `..`, against what the entries say.
    fn links(&mut self) {
        let inodes = std::mem::take(&mut self.inodes);
        let mut mended = Vec::new();
        for (id, inode) in &inodes {
            let names = self.names.get(id).map_or(&[][..], Vec::as_slice);
            let mut right = inode.clone();
            match &mut right.body {
                Body::Directory { parent, .. } => {
                    let (entries, subdirectories) =
                        self.contents.get(id).copied().unwrap_or_default();
                    right.nlink = 2 + subdirectories;
                    right.size = entries;
                    if let Some((real, _)) = names.first() {
                        *parent = *real;
                    }
                }
                _ => right.nlink = names.len() as u32,
            }
            // Without a name and not repaired above: reported there, and not made worse here.
            if right == *inode || (names.is_empty() && *id != ROOT && !self.todo.contains(id)) {
                continue;
            }
            let what = format!(
                "inode {id}: {} links and size {}, its entries say {} and {}",
                inode.nlink, inode.size, right.nlink, right.size
            );
            if self.problem(what, "write what the entries say") {
                put_inode(self.txn, *id, &right);
                mended.push((*id, right));
            }
        }
        self.inodes = inodes;
        self.inodes.extend(mended);
    }

    fn attributes(&mut self) -> Result<(), Failure> {
        self.each(b'x', |check, key, _| {
            let id = key::number(key).unwrap_or(0);
            if !check.inodes.contains_key(&id) {
                let what = format!("an extended attribute of inode {id}, which does not exist");
                if check.problem(what, "remove it") {
                    check.txn.delete(key.to_vec());
                }
            }
            Ok(())
        })
    }
}
