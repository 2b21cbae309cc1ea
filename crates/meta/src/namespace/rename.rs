//! Rename in all its variants: one transaction, so nobody ever sees both names or none.

use super::permission::{EXECUTE, WRITE};
use super::{Context, create, directory, fail, inode, path, permission, put_inode, remove};
use crate::failure::{Errno, Failure};
use crate::record::{Body, Inode};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::{Kind, Node, Place, ROOT, RenameMode};

/// Moves a name. Gives the inode of a replaced file whose subfiles are now to be removed.
pub fn rename(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    from: &Place,
    to: &Place,
    mode: RenameMode,
) -> Result<Option<u64>, Failure> {
    let old_parent = path::parent(txn, context, from)?;
    let new_parent = path::parent(txn, context, to)?;
    let old_name = old_parent.proper_name(Errno::Busy)?.to_vec();
    let new_name = new_parent.proper_name(Errno::Busy)?.to_vec();
    permission::require(context, &old_parent.inode, WRITE | EXECUTE, &old_name)?;
    permission::require(context, &new_parent.inode, WRITE | EXECUTE, &new_name)?;

    let source = directory::find(txn, context.secret, old_parent.id, &old_name)?
        .ok_or_else(|| fail(Errno::NoEnt, &old_name))?;
    let target = directory::find(txn, context.secret, new_parent.id, &new_name)?;
    let mut moved = inode(txn, source.inode)?;
    if !moved.is_directory() && (old_parent.slash || (new_parent.slash && target.is_none())) {
        return Err(fail(Errno::NotDir, &old_name));
    }
    permission::require_unsticky(context, &old_parent.inode, &moved, &old_name)?;
    if new_parent.inode.nlink == 0 {
        return Err(fail(Errno::NoEnt, &new_name));
    }
    let same_directory = old_parent.id == new_parent.id;
    if moved.is_directory() {
        may_move(
            txn,
            context,
            source.inode,
            &moved,
            new_parent.id,
            same_directory,
            &old_name,
        )?;
    }

    if mode == RenameMode::Exchange {
        let Some(target) = target else {
            return Err(fail(Errno::NoEnt, &new_name));
        };
        let mut other = inode(txn, target.inode)?;
        permission::require_unsticky(context, &new_parent.inode, &other, &new_name)?;
        if other.is_directory() {
            may_move(
                txn,
                context,
                target.inode,
                &other,
                old_parent.id,
                same_directory,
                &new_name,
            )?;
        }
        if source.inode == target.inode {
            return Ok(None);
        }
        directory::set(
            txn,
            old_parent.id,
            source.slot,
            &old_name,
            target.inode,
            other.kind,
        );
        directory::set(
            txn,
            new_parent.id,
            target.slot,
            &new_name,
            source.inode,
            moved.kind,
        );
        adopt(txn, source.inode, &mut moved, new_parent.id);
        adopt(txn, target.inode, &mut other, old_parent.id);
        let subdirectories = i64::from(moved.is_directory()) - i64::from(other.is_directory());
        stamp(txn, old_parent.id, 0, -subdirectories)?;
        stamp(txn, new_parent.id, 0, subdirectories)?;
        return Ok(None);
    }

    let mut orphan = None;
    let mut replaced_directory = false;
    if let Some(target) = target {
        if matches!(
            mode,
            RenameMode::NoReplace | RenameMode::Whiteout { replace: false }
        ) {
            return Err(fail(Errno::Exist, &new_name));
        }
        // Two names of one file: POSIX wants nothing to happen.
        if target.inode == source.inode {
            return Ok(None);
        }
        let replaced = inode(txn, target.inode)?;
        permission::require_unsticky(context, &new_parent.inode, &replaced, &new_name)?;
        match (moved.is_directory(), replaced.is_directory()) {
            (true, false) => return Err(fail(Errno::NotDir, &new_name)),
            (false, true) => return Err(fail(Errno::IsDir, &new_name)),
            (true, true) => {
                if replaced.size > 0 || target.inode == ROOT {
                    return Err(fail(Errno::NotEmpty, &new_name));
                }
                remove::drop_directory(txn, target.inode)?;
                replaced_directory = true;
            }
            (false, false) => {
                if new_parent.slash {
                    return Err(fail(Errno::NotDir, &new_name));
                }
                orphan = remove::drop_name(txn, target.inode, replaced)?;
            }
        }
        directory::set(
            txn,
            new_parent.id,
            target.slot,
            &new_name,
            source.inode,
            moved.kind,
        );
    } else {
        let secret = context.secret;
        directory::insert(
            txn,
            secret,
            new_parent.id,
            &new_name,
            source.inode,
            moved.kind,
        )?;
    }
    let left_behind = matches!(mode, RenameMode::Whiteout { .. });
    if left_behind {
        let node = Node::CharDevice(0);
        let (id, _) = create::make_nameless(txn, context, &old_parent, 0, &node)?;
        let kind = Kind::CharDevice;
        directory::set(txn, old_parent.id, source.slot, &old_name, id, kind);
    } else {
        directory::remove(txn, old_parent.id, source.slot)?;
    }
    adopt(txn, source.inode, &mut moved, new_parent.id);
    let directories = i64::from(moved.is_directory());
    let gone = i64::from(!left_behind);
    stamp(txn, old_parent.id, -gone, -directories)?;
    let arrived = i64::from(target.is_none());
    stamp(
        txn,
        new_parent.id,
        arrived,
        directories - i64::from(replaced_directory),
    )?;
    Ok(orphan)
}

/// May this directory move there? Not into itself, and with a new parent its `..` is written to.
fn may_move(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    id: u64,
    moved: &Inode,
    new_parent: u64,
    same_directory: bool,
    name: &[u8],
) -> Result<(), Failure> {
    if !same_directory {
        permission::require(context, moved, WRITE, name)?;
    }
    let mut above = new_parent;
    while above != ROOT {
        if above == id {
            return Err(fail(Errno::Inval, name));
        }
        above = match inode(txn, above)?.body {
            Body::Directory { parent, .. } => parent,
            _ => return Err(fail(Errno::NotDir, name)),
        };
    }
    if id == ROOT {
        Err(fail(Errno::Busy, name))
    } else {
        Ok(())
    }
}

/// The moved inode: new change time and, for a directory, new `..`.
fn adopt(txn: &mut Txn<'_>, id: u64, moved: &mut Inode, new_parent: u64) {
    moved.ctime = txn.now;
    if let Body::Directory { parent, .. } = &mut moved.body {
        *parent = new_parent;
    }
    put_inode(txn, id, moved);
}

/// A parent whose entries changed.
fn stamp(txn: &mut Txn<'_>, id: u64, entries: i64, subdirectories: i64) -> Result<(), Failure> {
    let mut parent = inode(txn, id)?;
    parent.size = parent.size.saturating_add_signed(entries);
    parent.nlink = parent.nlink.saturating_add_signed(subdirectories as i32);
    parent.mtime = txn.now;
    parent.ctime = txn.now;
    put_inode(txn, id, &parent);
    Ok(())
}

/// The directories above `id`, nearest first, for messages and checks.
pub fn ancestors<R: Read>(read: &mut R, mut id: u64) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::new();
    while id != ROOT {
        let Body::Directory { parent, .. } = inode(read, id)?.body else {
            break;
        };
        found.push(parent);
        id = parent;
    }
    Ok(found)
}
