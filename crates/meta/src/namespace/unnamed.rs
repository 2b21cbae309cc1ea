//! Files that are made without a name (`O_TMPFILE`): on the list for removal from their first commit on,
//! so that any crash ends them, and off it when they get a name.

use super::{Context, create, fail, path, put_inode};
use crate::failure::{Errno, Failure};
use crate::key;
use crate::record::{Inode, Todo};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::{LayoutWish, Node, Place};

/// Makes a file by the rules of the directory at `place`, in which it does not appear.
pub fn make(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    mode: u32,
    linkable: bool,
) -> Result<(u64, Inode), Failure> {
    let (id, inode) = path::resolve(txn, context, place, true)?;
    if !inode.is_directory() {
        return Err(fail(Errno::NotDir, &place.path));
    }
    let parent = path::Parent {
        id,
        inode,
        name: b"a file without a name".to_vec(),
        slash: false,
    };
    let node = Node::File(LayoutWish::default());
    let (id, mut made) = create::make_nameless(txn, context, &parent, mode, &node)?;
    made.nlink = 0;
    put_inode(txn, id, &made);
    let todo = if linkable {
        Todo::Unnamed
    } else {
        Todo::Remove
    };
    txn.put(key::todo(id, 0), &todo);
    Ok((id, made))
}

/// A file without a name is about to get one. False, with nothing done, for one that lost its last name
/// or may have none: it stays on the list.
pub fn take_off_list(txn: &mut Txn<'_>, id: u64) -> Result<bool, Failure> {
    let key = key::todo(id, 0);
    if txn.record::<Todo>(&key)? != Some(Todo::Unnamed) {
        return Ok(false);
    }
    txn.delete(key);
    Ok(true)
}
