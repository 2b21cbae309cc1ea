//! Where access control lists meet inodes: kept as extended attributes, announced by bits of the stored
//! mode, changed together with the permission bits that they stand behind. What a list says is
//! [`crate::acl`]'s.

use super::permission::{SET_GID, require_owner};
use super::{Context, explain, fail, path};
use crate::acl::Acl;
use crate::failure::{Errno, Failure};
use crate::key;
use crate::record::{HAS_ACL, HAS_DEFAULT_ACL, Inode};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::Kind;

/// The two lists that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Who may do what with the inode itself.
    Access,
    /// What is made in a directory begins with this one.
    Default,
}

impl List {
    /// The list that an extended attribute's name stands for.
    pub fn named(name: &[u8]) -> Option<List> {
        [List::Access, List::Default]
            .into_iter()
            .find(|list| list.name() == name)
    }

    /// Its name as an extended attribute.
    pub fn name(self) -> &'static [u8] {
        match self {
            List::Access => b"system.posix_acl_access",
            List::Default => b"system.posix_acl_default",
        }
    }

    /// The bit of a stored mode that announces it.
    pub fn flag(self) -> u32 {
        match self {
            List::Access => HAS_ACL,
            List::Default => HAS_DEFAULT_ACL,
        }
    }
}

/// The access list of an inode that announces one.
pub fn load<R: Read>(read: &mut R, id: u64) -> Result<Box<Acl>, Failure> {
    stored(read, id, List::Access).map(Box::new)
}

fn stored<R: Read>(read: &mut R, id: u64, list: List) -> Result<Acl, Failure> {
    let bytes = read.bytes(&key::xattr(id, list.name()))?;
    // Not there: a reader between two records of one commit, who looks again.
    let bytes = bytes.ok_or_else(|| {
        let what = format!("the access control list of inode {id} is missing; run fsck");
        explain(Errno::Stale, what)
    })?;
    let acl = Acl::parse(&bytes).ok().flatten();
    acl.ok_or_else(|| {
        let what = format!("the access control list of inode {id} is damaged; run fsck");
        explain(Errno::Io, what)
    })
}

/// May the caller read or change this list? Everybody who reaches an inode may read it, as on Linux.
pub fn check(context: &Context<'_>, node: &Inode, list: List, write: bool) -> Result<(), Failure> {
    let name = list.name();
    if node.kind == Kind::Symlink {
        return Err(fail(Errno::NotSup, name));
    }
    if !write {
        return if node.mode & list.flag() == 0 {
            Err(fail(Errno::NoData, name))
        } else {
            Ok(())
        };
    }
    if list == List::Default && !node.is_directory() {
        let what = "only a directory has a default access control list";
        return Err(explain(Errno::Access, what));
    }
    require_owner(context, node)
}

/// Gives `node` a list, or takes it away when `value` says no more than permission bits do. The caller
/// writes the inode.
pub fn set(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    id: u64,
    node: &mut Inode,
    list: List,
    value: &[u8],
) -> Result<(), Failure> {
    let mut kept = Acl::parse(value)?;
    if list == List::Access
        && let Some(acl) = &kept
    {
        node.mode = (node.mode & !0o777) | acl.mode();
        let caller = context.caller;
        if !caller.is_root() && !caller.in_group(node.gid) {
            node.mode &= !SET_GID;
        }
        kept = kept.filter(|acl| !acl.is_just_mode());
    }
    if let Some(acl) = &kept {
        put(txn, id, list, acl);
        node.mode |= list.flag();
    } else {
        txn.delete(key::xattr(id, list.name()));
        node.mode &= !list.flag();
    }
    Ok(())
}

fn put(txn: &mut Txn<'_>, id: u64, list: List, acl: &Acl) {
    txn.put_bytes(key::xattr(id, list.name()), acl.encode().into());
}

/// After a change of the mode: the access list, if there is one, says the same.
pub fn follow_mode(txn: &mut Txn<'_>, id: u64, node: &mut Inode) {
    if let Some(acl) = &mut node.acl {
        acl.set_mode(node.mode);
        put(txn, id, List::Access, acl);
    }
}

/// What a new inode gets from the directory it is made in: its lists are stored, `mode` becomes what is
/// left of it. Without a default list it is the caller's umask that takes rights away.
pub fn inherit(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    parent: &path::Parent,
    id: u64,
    kind: Kind,
    mode: &mut u32,
) -> Result<Option<Box<Acl>>, Failure> {
    if kind == Kind::Symlink {
        return Ok(None);
    }
    if parent.inode.mode & HAS_DEFAULT_ACL == 0 {
        *mode &= !(context.making.umask & 0o777);
        return Ok(None);
    }
    let default = stored(txn, parent.id, List::Default)?;
    if kind == Kind::Directory {
        put(txn, id, List::Default, &default);
        *mode |= HAS_DEFAULT_ACL;
    }
    let access = default.inherited(*mode);
    *mode = (*mode & !0o777) | access.mode();
    if access.is_just_mode() {
        return Ok(None);
    }
    put(txn, id, List::Access, &access);
    *mode |= HAS_ACL;
    Ok(Some(Box::new(access)))
}
