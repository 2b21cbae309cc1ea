//! New nodes and new names for old ones.

use super::permission::{EXECUTE, SET_GID, WRITE};
use super::{
    Context, acl, count, directory, fail, inode, layout, path, permission, put_inode, unnamed,
};
use crate::failure::{Errno, Failure};
use crate::record::{Body, Inode};
use crate::txn::Txn;
use trireme_proto::message::meta::{Kind, LayoutWish, Node, PATH_LIMIT, Place};

/// Most names of one inode, as on ext4.
pub const LINK_LIMIT: u32 = 65_000;

/// Makes a node; `EEXIST` when the name is taken.
pub fn create(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    mode: u32,
    node: &Node,
) -> Result<(u64, Inode), Failure> {
    let parent = path::parent(txn, context, place)?;
    let name = parent.proper_name(Errno::Exist)?;
    if directory::find(txn, context.secret, parent.id, name)?.is_some() {
        return Err(fail(Errno::Exist, name));
    }
    if parent.slash && !matches!(node, Node::Directory) {
        return Err(fail(Errno::IsDir, name));
    }
    make(txn, context, &parent, mode, node)
}

/// Makes a node under a name that is known to be free.
pub fn make(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    parent: &path::Parent,
    mode: u32,
    node: &Node,
) -> Result<(u64, Inode), Failure> {
    let (id, made) = make_nameless(txn, context, parent, mode, node)?;
    let name = parent.name.as_slice();
    directory::insert(txn, context.secret, parent.id, name, id, made.kind)?;
    let mut above = parent.inode.clone();
    above.size += 1;
    above.nlink += u32::from(made.is_directory());
    above.mtime = txn.now;
    above.ctime = txn.now;
    put_inode(txn, parent.id, &above);
    Ok((id, made))
}

/// Makes what a name in `parent` would stand for; the caller sees to the name.
pub(super) fn make_nameless(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    parent: &path::Parent,
    mode: u32,
    node: &Node,
) -> Result<(u64, Inode), Failure> {
    let name = parent.name.as_slice();
    permission::require(context, &parent.inode, WRITE | EXECUTE, name)?;
    // An unlinked directory that somebody still stands in takes no new names.
    if parent.inode.nlink == 0 {
        return Err(fail(Errno::NoEnt, name));
    }
    let Body::Directory {
        wish: inherited, ..
    } = &parent.inode.body
    else {
        return Err(fail(Errno::NotDir, name));
    };
    let id = count(txn, |counters| {
        counters.next += 1;
        counters.live += 1;
    })?
    .next
        - 1;

    let is_directory = matches!(node, Node::Directory);
    let mut mode = mode & 0o7777;
    let set_gid = parent.inode.mode & SET_GID != 0;
    let gid = if set_gid {
        parent.inode.gid
    } else {
        context.caller.gid
    };
    if is_directory && set_gid {
        mode |= SET_GID;
    } else if !is_directory
        && mode & SET_GID != 0
        && mode & 0o010 != 0
        && !context.caller.is_root()
        && !context.caller.in_group(gid)
    {
        mode &= !SET_GID;
    }
    let (kind, body, size, rdev) = match node {
        Node::File(wish) => {
            let mut wish = layout::merge(wish, inherited);
            if context.making.whole && wish == LayoutWish::default() {
                wish.count = Some(1);
            }
            let layout = layout::choose(&wish, context.servers, id)?;
            (Kind::File, Body::File(layout), 0, 0)
        }
        Node::Directory => {
            let body = Body::Directory {
                parent: parent.id,
                wish: inherited.clone(),
            };
            (Kind::Directory, body, 0, 0)
        }
        Node::Symlink(target) => {
            if target.is_empty() {
                return Err(fail(Errno::NoEnt, name));
            }
            if target.len() > PATH_LIMIT {
                return Err(fail(Errno::NameTooLong, name));
            }
            if target.contains(&0) {
                return Err(fail(Errno::Inval, name));
            }
            mode = 0o777;
            (
                Kind::Symlink,
                Body::Symlink(target.clone()),
                target.len() as u64,
                0,
            )
        }
        Node::Fifo => (Kind::Fifo, Body::Node, 0, 0),
        Node::Socket => (Kind::Socket, Body::Node, 0, 0),
        Node::CharDevice(rdev) => (Kind::CharDevice, Body::Node, 0, *rdev),
        Node::BlockDevice(rdev) => (Kind::BlockDevice, Body::Node, 0, *rdev),
    };
    // A whiteout opens nothing: on Linux, too, anybody may make one.
    let whiteout = kind == Kind::CharDevice && rdev == 0;
    let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice) && !whiteout;
    if device && !context.caller.is_root() {
        return Err(fail(Errno::Perm, name));
    }
    let acl = acl::inherit(txn, context, parent, id, kind, &mut mode)?;
    let made = Inode {
        kind,
        mode,
        uid: context.caller.uid,
        gid,
        nlink: if is_directory { 2 } else { 1 },
        size,
        settled: true,
        touched: false,
        rdev,
        atime: txn.now,
        mtime: txn.now,
        ctime: txn.now,
        btime: txn.now,
        body,
        acl,
    };
    put_inode(txn, id, &made);
    Ok((id, made))
}

/// One more name for what `from` names.
pub fn link(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    from: &Place,
    to: &Place,
) -> Result<(u64, Inode), Failure> {
    let (id, mut linked) = path::resolve(txn, context, from, false)?;
    let parent = path::parent(txn, context, to)?;
    let name = parent.proper_name(Errno::Exist)?;
    if directory::find(txn, context.secret, parent.id, name)?.is_some() {
        return Err(fail(Errno::Exist, name));
    }
    if parent.slash {
        return Err(fail(Errno::NoEnt, name));
    }
    permission::require(context, &parent.inode, WRITE | EXECUTE, name)?;
    if linked.is_directory() {
        return Err(fail(Errno::Perm, name));
    }
    if parent.inode.nlink == 0 || (linked.nlink == 0 && !unnamed::take_off_list(txn, id)?) {
        return Err(fail(Errno::NoEnt, name));
    }
    if linked.nlink >= LINK_LIMIT {
        return Err(fail(Errno::MLink, name));
    }
    linked.nlink += 1;
    linked.ctime = txn.now;
    put_inode(txn, id, &linked);
    directory::insert(txn, context.secret, parent.id, name, id, linked.kind)?;
    let mut above = inode(txn, parent.id)?;
    above.size += 1;
    above.mtime = txn.now;
    above.ctime = txn.now;
    put_inode(txn, parent.id, &above);
    Ok((id, linked))
}
