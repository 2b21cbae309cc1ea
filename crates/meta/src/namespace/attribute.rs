//! chmod, chown, utimes, and what writing and truncating do to an inode.

use super::permission::{SET_GID, WRITE, allowed, require_owner, without_set_id};
use super::{Context, acl, capability, explain, inode, layout, path, put_inode};
use crate::failure::{Errno, Failure};
use crate::key;
use crate::record::{Body, Inode, SPARSE, Todo};
use crate::txn::{Read, Txn};
use trireme_proto::limits::FILE_BYTES;
use trireme_proto::message::meta::{Caller, Kind, Place, SetAttr, SetTime, Time};

/// Changes attributes.
pub fn set(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    follow: bool,
    change: &SetAttr,
) -> Result<(u64, Inode), Failure> {
    let (id, mut node) = path::resolve(txn, context, place, follow)?;
    let caller = context.caller;
    if change.uid.is_some() || change.gid.is_some() {
        let to = (
            change.uid.unwrap_or(node.uid),
            change.gid.unwrap_or(node.gid),
        );
        let own_group = to.0 == node.uid && caller.uid == node.uid && caller.in_group(to.1);
        let nothing = to == (node.uid, node.gid) && caller.uid == node.uid;
        if !caller.is_root() && !own_group && !nothing {
            let what = format!("only root gives files away (owner {})", node.uid);
            return Err(explain(Errno::Perm, what));
        }
        (node.uid, node.gid) = to;
        node.mode = without_set_id(caller, &node);
        capability::drop(txn, id, &node)?;
    }
    if let Some(mode) = change.mode {
        require_owner(context, &node)?;
        if node.kind == Kind::Symlink {
            return Err(explain(Errno::NotSup, "mode of a symbolic link"));
        }
        node.mode = (node.mode & !0o7777) | (mode & 0o7777);
        if !caller.is_root() && !caller.in_group(node.gid) {
            node.mode &= !SET_GID;
        }
        acl::follow_mode(txn, id, &mut node);
    }
    if change.strip_set_id {
        node.mode = without_set_id(caller, &node);
        capability::drop(txn, id, &node)?;
    }
    let times = [change.atime, change.mtime];
    if times
        .iter()
        .flatten()
        .any(|time| matches!(time, SetTime::To(_)))
    {
        require_owner(context, &node)?;
    } else if times.iter().any(Option::is_some)
        && !allowed(caller, &node, WRITE)
        && caller.uid != node.uid
    {
        return Err(explain(
            Errno::Access,
            "setting times needs ownership or write permission",
        ));
    }
    let now = txn.now;
    let at = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::To(time) => time,
    };
    node.atime = change.atime.map_or(node.atime, at);
    node.mtime = change.mtime.map_or(node.mtime, at);
    if let Some(wish) = &change.layout {
        require_owner(context, &node)?;
        layout::check(wish)?;
        let Body::Directory {
            wish: inherited, ..
        } = &mut node.body
        else {
            let what = "a layout is chosen when a file is created; set it on the directory";
            return Err(explain(Errno::NotDir, what));
        };
        *inherited = wish.clone();
    }
    node.ctime = now;
    put_inode(txn, id, &node);
    Ok((id, node))
}

/// Marks a file as being written to: from now on its size is asked from the I/O servers.
pub fn begin_writing(txn: &mut Txn<'_>, id: u64) -> Result<Inode, Failure> {
    let mut node = inode(txn, id)?;
    // An interrupted truncate must not cut off what is written from now on.
    if txn.bytes(&key::todo(id, 1))?.is_some() {
        drop_truncate(txn, id);
    }
    if node.settled || !node.touched {
        node.settled = false;
        node.touched = true;
        put_inode(txn, id, &node);
    }
    Ok(node)
}

/// Space and size of a file may differ from now on.
pub fn becomes_sparse(txn: &mut Txn<'_>, id: u64) -> Result<(), Failure> {
    let mut node = inode(txn, id)?;
    if node.mode & SPARSE == 0 {
        node.mode |= SPARSE;
        put_inode(txn, id, &node);
    }
    Ok(())
}

/// What a writer tells about an open file.
pub struct Written {
    /// It knows of bytes up to here; `None` when it wrote none.
    pub size: Option<u64>,
    /// Nobody else can be writing and all writers told: the size is final.
    pub settle: bool,
    /// The exact size, when somebody asked the I/O servers.
    pub exact: Option<u64>,
    /// Its times change.
    pub stamp: bool,
    /// Who wrote: root keeps set-id bits.
    pub writer: Caller,
    /// When it last wrote, as far as it knows.
    pub when: Option<Time>,
}

/// Takes note of what was written.
pub fn written(txn: &mut Txn<'_>, id: u64, what: &Written) -> Result<Inode, Failure> {
    let mut node = inode(txn, id)?;
    if let Some(size) = what.size {
        node.size = node.size.max(size);
    }
    if what.stamp {
        // A clock that runs ahead of this one must not date files into the future.
        let when = what.when.map_or(txn.now, |when| when.min(txn.now));
        node.mtime = when.or_later_write(node.mtime, node.ctime);
        node.ctime = node.ctime.max(when);
        if !what.writer.is_root() {
            node.mode = without_set_id(&what.writer, &node);
        }
        // Who says when it was has asked for this before writing, and it may have been set since.
        if what.when.is_none() {
            capability::drop(txn, id, &node)?;
        }
    }
    if let Some(exact) = what.exact {
        node.size = exact;
    }
    node.settled |= what.settle;
    put_inode(txn, id, &node);
    Ok(node)
}

/// Notes that inodes were read; a later time stays, and one that is gone is no error.
pub fn accessed(txn: &mut Txn<'_>, times: &[(u64, Time)]) -> Result<(), Failure> {
    for (id, when) in times {
        let Some(mut node) = txn.record::<Inode>(&key::inode(*id))? else {
            continue;
        };
        let when = (*when).min(txn.now);
        if when > node.atime {
            node.atime = when;
            put_inode(txn, *id, &node);
        }
    }
    Ok(())
}

/// Says that all subfiles are about to be cut to `size`; [`finish_truncate`] says they are.
pub fn begin_truncate(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    size: u64,
    opened: bool,
) -> Result<(u64, Inode), Failure> {
    let (id, mut node) = path::resolve(txn, context, place, true)?;
    match node.kind {
        Kind::File => {}
        Kind::Directory => return Err(super::fail(Errno::IsDir, &place.path)),
        _ => return Err(super::fail(Errno::Inval, &place.path)),
    }
    if !opened {
        super::permission::require(context, &node, WRITE, &place.path)?;
    }
    if size > FILE_BYTES {
        let what = format!("{size} bytes (at most {FILE_BYTES})");
        return Err(explain(Errno::FBig, what));
    }
    // What is added at the end is a hole.
    if size > node.size {
        node.mode |= SPARSE;
    }
    node.settled = false;
    node.touched = true;
    if !context.caller.is_root() {
        node.mode = without_set_id(context.caller, &node);
    }
    capability::drop(txn, id, &node)?;
    put_inode(txn, id, &node);
    txn.put(key::todo(id, 1), &Todo::Truncate(size));
    Ok((id, node))
}

/// A begun truncate will not be finished.
pub fn drop_truncate(txn: &mut Txn<'_>, id: u64) {
    txn.delete(key::todo(id, 1));
}

/// All subfiles have the length that `size` gives. Whoever has it open for writing was told, once, whether
/// it may have holes, and tells of new ones only if it had none: that is forgotten only when it is
/// `unwatched`. `O_TRUNC` cuts a file that is open already.
pub fn finish_truncate(
    txn: &mut Txn<'_>,
    id: u64,
    size: u64,
    settle: bool,
    unwatched: bool,
) -> Result<Inode, Failure> {
    let mut node = inode(txn, id)?;
    // A later truncate may have replaced the entry; then that one will finish it.
    if txn.record::<Todo>(&key::todo(id, 1))? == Some(Todo::Truncate(size)) {
        txn.delete(key::todo(id, 1));
    }
    node.size = size;
    if size == 0 && unwatched {
        node.mode &= !SPARSE;
    }
    node.settled = settle;
    node.mtime = txn.now;
    node.ctime = txn.now;
    put_inode(txn, id, &node);
    Ok(node)
}
