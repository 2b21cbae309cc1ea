//! Directories that were removed and that somebody here still uses. The manager has forgotten them, so what
//! they are like from then on only this mount knows. Who may do what with them the kernel has checked.

use std::collections::BTreeMap;

use trireme_proto::message::meta::{
    self, Entry, Kind, Place, Response, SetAttr, SetTime, XATTR_LIMIT, XattrMode,
};

use super::node::Node;
use super::{Inner, Outcome, acl, now};

/// Extended attributes by their names.
pub(super) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Most bytes of names and values on one inode, as at the manager.
const TOTAL_LIMIT: usize = 4 * XATTR_LIMIT;

/// What the manager says of names that an attribute cannot have.
fn check(name: &[u8]) -> Outcome<()> {
    let kinds: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];
    if name == b"user." {
        Err(libc::EINVAL)
    } else if kinds.iter().any(|kind| name.starts_with(kind)) {
        Ok(())
    } else {
        Err(libc::EOPNOTSUPP)
    }
}

impl Inner {
    /// The directory that somebody here has open and that has this name.
    fn open_directory(&self, directory: u64, name: &[u8]) -> Option<u64> {
        let is_it = |inode: &u64| {
            let same = |place: &(u64, Box<[u8]>)| place.0 == directory && *place.1 == *name;
            let found = self
                .nodes
                .with(*inode, |node| node.place.as_ref().is_some_and(same));
            found == Some(true)
        };
        self.handles.open_directories().into_iter().find(is_it)
    }

    /// A name is about to be removed: the directory that it means, if somebody here has it open, and what is
    /// to be remembered of it.
    pub(super) fn about_to_go(&self, directory: u64, name: &[u8]) -> Option<(u64, Xattrs)> {
        let inode = self.open_directory(directory, name)?;
        let place = Place::inode(inode);
        let question = meta::Request::ListXattr {
            place: place.clone(),
        };
        let names = match self.ask(question) {
            Ok(Response::Names(names)) => names,
            _ => Vec::new(),
        };
        let value = |name: Vec<u8>| {
            let question = meta::Request::GetXattr {
                place: place.clone(),
                name: name.clone(),
            };
            match self.ask(question) {
                Ok(Response::Bytes(value)) => Some((name, value)),
                _ => None,
            }
        };
        let names = names.into_iter().filter(|name| !acl::is_list(name));
        Some((inode, names.filter_map(value).collect()))
    }

    /// It has been removed.
    pub(super) fn has_gone(&self, what: Option<(u64, Xattrs)>) {
        if let Some((inode, xattrs)) = what {
            self.nodes.with(inode, |node| {
                node.xattrs = xattrs;
                node.place = None;
            });
        }
    }

    /// A name has become another one, and with `exchange` that one this.
    pub(super) fn has_moved(&self, from: (u64, &[u8]), to: (u64, &[u8]), exchange: bool) {
        let back = if exchange {
            self.open_directory(to.0, to.1)
        } else {
            None
        };
        let moved = self.open_directory(from.0, from.1);
        for (inode, place) in [(moved, to), (back, from)] {
            let Some(inode) = inode else { continue };
            self.nodes.with(inode, |node| {
                node.place = Some((place.0, place.1.into()));
            });
        }
    }

    /// Does something with a directory that is gone. `errno`: what the manager said.
    fn with_removed<T>(
        &self,
        inode: u64,
        errno: i32,
        act: impl FnOnce(&mut Node) -> Outcome<T>,
    ) -> Outcome<T> {
        if !matches!(errno, libc::ESTALE | libc::ENOENT) {
            return Err(errno);
        }
        let done = self.nodes.with(inode, |node| {
            if node.attr.kind != Kind::Directory {
                return Err(errno);
            }
            node.attr.nlink = 0;
            act(node)
        });
        done.unwrap_or(Err(errno))
    }

    pub(super) fn change_removed(
        &self,
        inode: u64,
        change: &SetAttr,
        errno: i32,
    ) -> Outcome<Entry> {
        let now = now();
        let at = |time: SetTime| match time {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        self.with_removed(inode, errno, |node| {
            let attr = &mut node.attr;
            attr.mode = change.mode.unwrap_or(attr.mode);
            attr.uid = change.uid.unwrap_or(attr.uid);
            attr.gid = change.gid.unwrap_or(attr.gid);
            attr.atime = change.atime.map_or(attr.atime, at);
            attr.mtime = change.mtime.map_or(attr.mtime, at);
            attr.ctime = now;
            let attr = attr.clone();
            Ok(Entry { attr, layout: None })
        })
    }

    pub(super) fn xattr_of_removed(&self, inode: u64, name: &[u8], errno: i32) -> Outcome<Vec<u8>> {
        self.with_removed(inode, errno, |node| {
            check(name)?;
            let value = node.xattrs.get(name).cloned();
            value.ok_or(libc::ENODATA)
        })
    }

    pub(super) fn xattrs_of_removed(&self, inode: u64, errno: i32) -> Outcome<Vec<Vec<u8>>> {
        self.with_removed(inode, errno, |node| {
            Ok(node.xattrs.keys().cloned().collect())
        })
    }

    pub(super) fn set_xattr_of_removed(
        &self,
        inode: u64,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        errno: i32,
    ) -> Outcome<()> {
        // Lists go with the mode, which the manager keeps them in step with.
        if acl::is_list(name) {
            return Err(errno);
        }
        self.with_removed(inode, errno, |node| {
            check(name)?;
            if value.len() > XATTR_LIMIT {
                return Err(libc::E2BIG);
            }
            let before = node.xattrs.get(name);
            match mode {
                XattrMode::Create if before.is_some() => return Err(libc::EEXIST),
                XattrMode::Replace if before.is_none() => return Err(libc::ENODATA),
                _ => {}
            }
            if before.is_some_and(|before| before == value) {
                return Ok(());
            }
            let used: usize = node.xattrs.iter().map(|(k, v)| k.len() + v.len()).sum();
            if used + name.len() + value.len() > TOTAL_LIMIT {
                return Err(libc::ENOSPC);
            }
            node.xattrs.insert(name.to_vec(), value.to_vec());
            node.attr.ctime = now();
            Ok(())
        })
    }

    pub(super) fn remove_xattr_of_removed(
        &self,
        inode: u64,
        name: &[u8],
        errno: i32,
    ) -> Outcome<()> {
        self.with_removed(inode, errno, |node| {
            check(name)?;
            node.xattrs.remove(name).ok_or(libc::ENODATA)?;
            node.attr.ctime = now();
            Ok(())
        })
    }
}
