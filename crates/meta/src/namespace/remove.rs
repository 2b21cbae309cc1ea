//! Names that go, and what becomes of an inode that lost its last one.

use super::permission::{EXECUTE, WRITE};
use super::{Context, count, directory, fail, inode, path, permission, put_inode};
use crate::failure::{Errno, Failure};
use crate::key;
use crate::record::{Inode, Todo};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::{Kind, Place, ROOT};

/// Removes a name that is not a directory. Gives the inode when this was its last name and its
/// subfiles are now to be removed.
pub fn unlink(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
) -> Result<Option<u64>, Failure> {
    let parent = path::parent(txn, context, place)?;
    let name = parent.proper_name(Errno::IsDir)?;
    let found = directory::find(txn, context.secret, parent.id, name)?
        .ok_or_else(|| fail(Errno::NoEnt, name))?;
    let removed = inode(txn, found.inode)?;
    permission::require(context, &parent.inode, WRITE | EXECUTE, name)?;
    permission::require_unsticky(context, &parent.inode, &removed, name)?;
    if removed.is_directory() {
        return Err(fail(Errno::IsDir, name));
    }
    if parent.slash {
        return Err(fail(Errno::NotDir, name));
    }
    directory::remove(txn, parent.id, found.slot)?;
    let mut above = parent.inode;
    above.size -= 1;
    above.mtime = txn.now;
    above.ctime = txn.now;
    put_inode(txn, parent.id, &above);
    drop_name(txn, found.inode, removed)
}

/// Takes one name off an inode that is no directory.
pub fn drop_name(txn: &mut Txn<'_>, id: u64, mut removed: Inode) -> Result<Option<u64>, Failure> {
    removed.nlink = removed.nlink.saturating_sub(1);
    removed.ctime = txn.now;
    if removed.nlink > 0 {
        put_inode(txn, id, &removed);
        return Ok(None);
    }
    if removed.kind == Kind::File {
        // The record stays while somebody may have it open; the to-do entry, in the same commit,
        // makes sure that it is worked off after any crash.
        put_inode(txn, id, &removed);
        txn.put(key::todo(id, 0), &Todo::Remove);
        return Ok(Some(id));
    }
    erase(txn, id)?;
    Ok(None)
}

/// Removes an inode's records, when nothing of it is left on the I/O servers.
pub fn erase(txn: &mut Txn<'_>, id: u64) -> Result<(), Failure> {
    let (from, to) = key::all_of(b'x', id);
    for (key, _) in txn.pairs(&from, &to, usize::MAX)? {
        txn.delete(key);
    }
    for what in [0, 1] {
        if txn.bytes(&key::todo(id, what))?.is_some() {
            txn.delete(key::todo(id, what));
        }
    }
    // Two sweeps may have the same list: the second finds nothing to count.
    if txn.bytes(&key::inode(id))?.is_some() {
        txn.delete(key::inode(id));
        count(txn, |counters| {
            counters.live = counters.live.saturating_sub(1);
        })?;
    }
    Ok(())
}

/// Removes an empty directory.
pub fn rmdir(txn: &mut Txn<'_>, context: &Context<'_>, place: &Place) -> Result<(), Failure> {
    let parent = path::parent(txn, context, place)?;
    let name = match parent.name.as_slice() {
        b".." => return Err(fail(Errno::NotEmpty, b"..")),
        b"." => return Err(fail(Errno::Inval, b".")),
        b"" => return Err(fail(Errno::Busy, b"/")),
        name => name,
    };
    let found = directory::find(txn, context.secret, parent.id, name)?
        .ok_or_else(|| fail(Errno::NoEnt, name))?;
    let removed = inode(txn, found.inode)?;
    if !removed.is_directory() {
        return Err(fail(Errno::NotDir, name));
    }
    permission::require(context, &parent.inode, WRITE | EXECUTE, name)?;
    permission::require_unsticky(context, &parent.inode, &removed, name)?;
    if found.inode == ROOT {
        return Err(fail(Errno::Busy, name));
    }
    if removed.size > 0 {
        return Err(fail(Errno::NotEmpty, name));
    }
    directory::remove(txn, parent.id, found.slot)?;
    drop_directory(txn, found.inode)?;
    let mut above = parent.inode;
    above.size -= 1;
    above.nlink -= 1;
    above.mtime = txn.now;
    above.ctime = txn.now;
    put_inode(txn, parent.id, &above);
    Ok(())
}

/// Erases an empty directory with its tombstones.
pub fn drop_directory(txn: &mut Txn<'_>, id: u64) -> Result<(), Failure> {
    directory::clear(txn, id)?;
    erase(txn, id)
}
