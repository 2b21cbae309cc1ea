//! Extended attributes: `user.` for everybody with the right to the file's content, `trusted.` and
//! `security.` for root. Access control lists pass through here on their way to [`super::acl`].

use super::permission::{READ, STICKY, WRITE};
use super::{Context, acl, explain, fail, path, permission, put_inode};
use crate::failure::{Errno, Failure};
use crate::key;
use crate::record::Inode;
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::{CAPABILITY, Kind, NAME_MAX, Place, XATTR_LIMIT, XattrMode};

/// Most bytes of names and values on one inode: what fits a `listxattr` answer and one commit.
const TOTAL_LIMIT: usize = 4 * XATTR_LIMIT;

fn check(context: &Context<'_>, node: &Inode, name: &[u8], write: bool) -> Result<(), Failure> {
    if name.len() > NAME_MAX {
        return Err(fail(Errno::Range, name));
    }
    if name.contains(&0) {
        return Err(explain(Errno::Inval, "an attribute name with a NUL byte"));
    }
    if name == b"user." {
        return Err(fail(Errno::Inval, name));
    }
    if name
        .strip_prefix(b"user.")
        .is_some_and(|rest| !rest.is_empty())
    {
        if !matches!(node.kind, Kind::File | Kind::Directory) {
            return Err(fail(if write { Errno::Perm } else { Errno::NoData }, name));
        }
        if write && node.is_directory() && node.mode & STICKY != 0 {
            permission::require_owner(context, node)?;
        }
        return permission::require(context, node, if write { WRITE } else { READ }, name);
    }
    if name.starts_with(b"trusted.") {
        let refusal = if write { Errno::Perm } else { Errno::NoData };
        return if context.caller.is_root() {
            Ok(())
        } else {
            Err(fail(refusal, name))
        };
    }
    if name.starts_with(b"security.") {
        return if !write || context.caller.is_root() {
            Ok(())
        } else {
            Err(fail(Errno::Perm, name))
        };
    }
    match acl::List::named(name) {
        Some(list) => acl::check(context, node, list, write),
        None => Err(fail(Errno::NotSup, name)),
    }
}

/// Value of an attribute.
pub fn get<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    place: &Place,
    name: &[u8],
) -> Result<Vec<u8>, Failure> {
    let (id, node) = path::resolve(read, context, place, false)?;
    check(context, &node, name, false)?;
    let bytes = read.bytes(&key::xattr(id, name))?;
    Ok(bytes.ok_or_else(|| fail(Errno::NoData, name))?.to_vec())
}

/// Names of the attributes that the caller may know of.
pub fn list<R: Read>(
    read: &mut R,
    context: &Context<'_>,
    place: &Place,
) -> Result<Vec<Vec<u8>>, Failure> {
    let (id, _) = path::resolve(read, context, place, false)?;
    let (from, to) = key::all_of(b'x', id);
    let pairs = read.pairs(&from, &to, usize::MAX)?;
    let names = pairs.into_iter().map(|(key, _)| key[9..].to_vec());
    Ok(names
        .filter(|n| context.caller.is_root() || !n.starts_with(b"trusted."))
        .collect())
}

/// Sets an attribute.
pub fn set(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    name: &[u8],
    value: &[u8],
    mode: XattrMode,
) -> Result<(), Failure> {
    let (id, mut node) = path::resolve(txn, context, place, false)?;
    check(context, &node, name, true)?;
    if value.len() > XATTR_LIMIT {
        let what = format!("a value of {} bytes (at most {XATTR_LIMIT})", value.len());
        return Err(explain(Errno::TooBig, what));
    }
    let key = key::xattr(id, name);
    let before = txn.bytes(&key)?;
    match mode {
        XattrMode::Create if before.is_some() => return Err(fail(Errno::Exist, name)),
        XattrMode::Replace if before.is_none() => return Err(fail(Errno::NoData, name)),
        _ => {}
    }
    let (from, to) = key::all_of(b'x', id);
    let others = txn.pairs(&from, &to, usize::MAX)?;
    let used: usize = others.iter().map(|(k, v)| k.len() + v.len()).sum();
    if used + name.len() + value.len() > TOTAL_LIMIT {
        return Err(fail(Errno::NoSpc, name));
    }
    let mode_before = node.mode;
    match acl::List::named(name) {
        Some(list) => acl::set(txn, context, id, &mut node, list, value)?,
        None => txn.put_bytes(key.clone(), value.into()),
    }
    // What is as it was has not changed now; ext4 sees it so too.
    if node.mode == mode_before && txn.bytes(&key)? == before {
        return Ok(());
    }
    node.ctime = txn.now;
    put_inode(txn, id, &node);
    Ok(())
}

/// Removes an attribute.
pub fn remove(
    txn: &mut Txn<'_>,
    context: &Context<'_>,
    place: &Place,
    name: &[u8],
) -> Result<(), Failure> {
    let (id, mut node) = path::resolve(txn, context, place, false)?;
    // Whoever may write takes a capability away by writing.
    let by_writing = name == CAPABILITY && permission::allowed(context.caller, &node, WRITE);
    if !by_writing {
        check(context, &node, name, true)?;
    }
    let key = key::xattr(id, name);
    if txn.bytes(&key)?.is_none() {
        return Err(fail(Errno::NoData, name));
    }
    txn.delete(key);
    if let Some(list) = acl::List::named(name) {
        node.mode &= !list.flag();
    }
    node.ctime = txn.now;
    put_inode(txn, id, &node);
    Ok(())
}
