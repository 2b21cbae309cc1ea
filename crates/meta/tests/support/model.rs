//! The reference: a file system in a few maps, as plain as it can be.

use std::collections::BTreeMap;
use trireme_meta::failure::Errno;
use trireme_proto::message::meta::RenameMode;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File { nlink: u32 },
    Directory(BTreeMap<Vec<u8>, usize>),
    Symlink(Vec<u8>),
}

/// Nodes by index; 0 is the root. No permissions: the tests of those are tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub nodes: Vec<Option<Node>>,
    pub modes: Vec<u32>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Create(Vec<u8>),
    Mkdir(Vec<u8>),
    Symlink(Vec<u8>, Vec<u8>),
    Link(Vec<u8>, Vec<u8>),
    Unlink(Vec<u8>),
    Rmdir(Vec<u8>),
    Rename(Vec<u8>, Vec<u8>, RenameMode),
    Chmod(Vec<u8>, u32),
}

type Outcome<T> = Result<T, Errno>;

impl Default for Model {
    fn default() -> Self {
        Self {
            nodes: vec![Some(Node::Directory(BTreeMap::new()))],
            modes: vec![0o755],
        }
    }
}

impl Model {
    fn directory(&self, id: usize) -> Outcome<&BTreeMap<Vec<u8>, usize>> {
        match &self.nodes[id] {
            Some(Node::Directory(entries)) => Ok(entries),
            _ => Err(Errno::NotDir),
        }
    }

    fn entries(&mut self, id: usize) -> &mut BTreeMap<Vec<u8>, usize> {
        match &mut self.nodes[id] {
            Some(Node::Directory(entries)) => entries,
            _ => panic!("no directory"),
        }
    }

    fn is_directory(&self, id: usize) -> bool {
        matches!(self.nodes[id], Some(Node::Directory(_)))
    }

    /// Walks a path without symbolic links in the middle being followed more than they must.
    fn walk(&self, start: usize, path: &[u8], budget: &mut u32) -> Outcome<(usize, Vec<u8>)> {
        let mut at = if path.first() == Some(&b'/') {
            0
        } else {
            start
        };
        let mut parts: Vec<&[u8]> = path
            .split(|b| *b == b'/')
            .filter(|part| !part.is_empty())
            .collect();
        let name = parts.pop().unwrap_or_default().to_vec();
        for part in parts {
            let next = *self.directory(at)?.get(part).ok_or(Errno::NoEnt)?;
            at = self.follow(at, next, budget)?;
        }
        self.directory(at)?;
        Ok((at, name))
    }

    fn follow(&self, parent: usize, node: usize, budget: &mut u32) -> Outcome<usize> {
        let Some(Node::Symlink(target)) = &self.nodes[node] else {
            return Ok(node);
        };
        *budget = budget.checked_sub(1).ok_or(Errno::Loop)?;
        let (parent, name) = self.walk(parent, target, budget)?;
        if name.is_empty() {
            return Ok(parent);
        }
        let next = *self.directory(parent)?.get(&name).ok_or(Errno::NoEnt)?;
        self.follow(parent, next, budget)
    }

    fn parent(&self, path: &[u8]) -> Outcome<(usize, Vec<u8>)> {
        self.walk(0, path, &mut 40)
    }

    pub fn lookup(&self, path: &[u8], follow: bool) -> Outcome<usize> {
        let mut budget = 40;
        let (parent, name) = self.walk(0, path, &mut budget)?;
        if name.is_empty() {
            return Ok(parent);
        }
        let node = *self.directory(parent)?.get(&name).ok_or(Errno::NoEnt)?;
        if follow {
            self.follow(parent, node, &mut budget)
        } else {
            Ok(node)
        }
    }

    fn add(&mut self, path: &[u8], node: Node, mode: u32) -> Outcome<()> {
        let (parent, name) = self.parent(path)?;
        if name.is_empty() || self.directory(parent)?.contains_key(&name) {
            return Err(Errno::Exist);
        }
        self.nodes.push(Some(node));
        self.modes.push(mode);
        let id = self.nodes.len() - 1;
        self.entries(parent).insert(name, id);
        Ok(())
    }

    fn drop_name(&mut self, id: usize) {
        match &mut self.nodes[id] {
            Some(Node::File { nlink }) if *nlink > 1 => *nlink -= 1,
            node => *node = None,
        }
    }

    fn above(&self, mut id: usize, wanted: usize) -> bool {
        loop {
            if id == wanted {
                return true;
            }
            let Some(parent) = (0..self.nodes.len()).find(|p| {
                matches!(&self.nodes[*p], Some(Node::Directory(e)) if e.values().any(|v| *v == id))
            }) else {
                return false;
            };
            id = parent;
        }
    }

    pub fn apply(&mut self, step: &Step) -> Outcome<()> {
        match step {
            Step::Create(path) => self.add(path, Node::File { nlink: 1 }, 0o644),
            Step::Mkdir(path) => self.add(path, Node::Directory(BTreeMap::new()), 0o755),
            Step::Symlink(target, path) => self.add(path, Node::Symlink(target.clone()), 0o777),
            Step::Link(from, to) => {
                let node = self.lookup(from, false)?;
                let (parent, name) = self.parent(to)?;
                if name.is_empty() || self.directory(parent)?.contains_key(&name) {
                    return Err(Errno::Exist);
                }
                match &mut self.nodes[node] {
                    Some(Node::File { nlink }) => *nlink += 1,
                    // A second name for a symbolic link: left out of the generator.
                    _ => return Err(Errno::Perm),
                }
                self.entries(parent).insert(name, node);
                Ok(())
            }
            Step::Unlink(path) => {
                let (parent, name) = self.parent(path)?;
                if name.is_empty() {
                    return Err(Errno::IsDir);
                }
                let node = *self.directory(parent)?.get(&name).ok_or(Errno::NoEnt)?;
                if self.is_directory(node) {
                    return Err(Errno::IsDir);
                }
                self.entries(parent).remove(&name);
                self.drop_name(node);
                Ok(())
            }
            Step::Rmdir(path) => {
                let (parent, name) = self.parent(path)?;
                if name.is_empty() {
                    return Err(Errno::Busy);
                }
                let node = *self.directory(parent)?.get(&name).ok_or(Errno::NoEnt)?;
                if !self.directory(node)?.is_empty() {
                    return Err(Errno::NotEmpty);
                }
                self.entries(parent).remove(&name);
                self.nodes[node] = None;
                Ok(())
            }
            Step::Rename(from, to, mode) => self.rename(from, to, *mode),
            Step::Chmod(path, mode) => {
                let node = self.lookup(path, true)?;
                self.modes[node] = *mode;
                Ok(())
            }
        }
    }

    fn rename(&mut self, from: &[u8], to: &[u8], mode: RenameMode) -> Outcome<()> {
        let (old, old_name) = self.parent(from)?;
        let (new, new_name) = self.parent(to)?;
        if old_name.is_empty() || new_name.is_empty() {
            return Err(Errno::Busy);
        }
        let moved = *self.directory(old)?.get(&old_name).ok_or(Errno::NoEnt)?;
        let target = self.directory(new)?.get(&new_name).copied();
        if self.is_directory(moved) && self.above(new, moved) {
            return Err(Errno::Inval);
        }
        if mode == RenameMode::Exchange {
            let target = target.ok_or(Errno::NoEnt)?;
            if self.is_directory(target) && self.above(old, target) {
                return Err(Errno::Inval);
            }
            self.entries(old).insert(old_name, target);
            self.entries(new).insert(new_name, moved);
            return Ok(());
        }
        if let Some(target) = target {
            if mode == RenameMode::NoReplace {
                return Err(Errno::Exist);
            }
            if target == moved {
                return Ok(());
            }
            match (self.is_directory(moved), self.is_directory(target)) {
                (true, false) => return Err(Errno::NotDir),
                (false, true) => return Err(Errno::IsDir),
                (true, true) if !self.directory(target)?.is_empty() => {
                    return Err(Errno::NotEmpty);
                }
                _ => {}
            }
            self.drop_name(target);
        }
        self.entries(old).remove(&old_name);
        self.entries(new).insert(new_name, moved);
        Ok(())
    }

    /// Everything reachable, as lines that a real tree can be compared with.
    pub fn listing(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.list(0, "", &mut lines);
        lines.sort();
        lines
    }

    fn list(&self, id: usize, prefix: &str, lines: &mut Vec<String>) {
        let Some(Node::Directory(entries)) = &self.nodes[id] else {
            return;
        };
        let subdirectories = entries
            .values()
            .filter(|child| self.is_directory(**child))
            .count();
        lines.push(format!(
            "{prefix}/ dir nlink {} entries {} mode {:o}",
            2 + subdirectories,
            entries.len(),
            self.modes[id]
        ));
        for (name, child) in entries {
            let path = format!("{prefix}/{}", String::from_utf8_lossy(name));
            match &self.nodes[*child] {
                Some(Node::File { nlink }) => {
                    lines.push(format!(
                        "{path} file nlink {nlink} mode {:o}",
                        self.modes[*child]
                    ));
                }
                Some(Node::Symlink(target)) => {
                    lines.push(format!("{path} -> {}", String::from_utf8_lossy(target)));
                }
                Some(Node::Directory(_)) => self.list(*child, &path, lines),
                None => panic!("{path} names nothing"),
            }
        }
    }
}
