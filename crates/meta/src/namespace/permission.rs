//! Who may do what: the permission bits, access control lists, set-id and sticky rules of POSIX as Linux
//! applies them.

use super::{Context, explain, fail};
use crate::failure::{Errno, Failure};
use crate::record::Inode;
use trireme_proto::message::meta::Caller;

/// Right to read, as in `access(2)`.
pub const READ: u32 = 4;
/// Right to write.
pub const WRITE: u32 = 2;
/// Right to execute, or to search a directory.
pub const EXECUTE: u32 = 1;

/// Set-user-id.
pub const SET_UID: u32 = 0o4000;
/// Set-group-id.
pub const SET_GID: u32 = 0o2000;
/// Sticky.
pub const STICKY: u32 = 0o1000;

/// Does the caller have all rights in `mask`?
pub fn allowed(caller: &Caller, inode: &Inode, mask: u32) -> bool {
    if caller.is_root() {
        // Root executes only what somebody may execute; directories it may always search.
        return mask & EXECUTE == 0 || inode.is_directory() || inode.mode & 0o111 != 0;
    }
    // Linux looks at a list only where its mask leaves something; otherwise those whom it names count
    // as others. A stricter reading would refuse here what the kernel allows.
    if let Some(acl) = &inode.acl
        && inode.mode & 0o070 != 0
    {
        return acl.permits(caller, inode.uid, inode.gid, mask);
    }
    let shift = if caller.uid == inode.uid {
        6
    } else if caller.in_group(inode.gid) {
        3
    } else {
        0
    };
    (inode.mode >> shift) & mask == mask
}

/// `EACCES` unless the caller has all rights in `mask`.
pub fn require(
    context: &Context<'_>,
    inode: &Inode,
    mask: u32,
    name: &[u8],
) -> Result<(), Failure> {
    if allowed(context.caller, inode, mask) {
        Ok(())
    } else {
        Err(fail(Errno::Access, name))
    }
}

/// `EPERM` unless the caller owns the inode.
pub fn require_owner(context: &Context<'_>, inode: &Inode) -> Result<(), Failure> {
    let caller = context.caller;
    if caller.is_root() || caller.uid == inode.uid {
        return Ok(());
    }
    Err(explain(
        Errno::Perm,
        format!("owned by user {}, asked by user {}", inode.uid, caller.uid),
    ))
}

/// In a sticky directory only the owners of the entry or of the directory remove or move it.
pub fn require_unsticky(
    context: &Context<'_>,
    directory: &Inode,
    entry: &Inode,
    name: &[u8],
) -> Result<(), Failure> {
    let caller = context.caller;
    let free = directory.mode & STICKY == 0
        || caller.is_root()
        || caller.uid == entry.uid
        || caller.uid == directory.uid;
    if free {
        Ok(())
    } else {
        Err(fail(Errno::Perm, name))
    }
}

/// What is left of the mode when somebody without privilege changes a file's content, or anybody
/// changes its owner: no set-id bits that would now lend the wrong rights.
pub fn without_set_id(caller: &Caller, inode: &Inode) -> u32 {
    if inode.is_directory() {
        return inode.mode;
    }
    let mut mode = inode.mode & !SET_UID;
    // Without group execution the bit lends nothing, but strangers to the group do not keep it.
    if mode & 0o010 != 0 || !(caller.is_root() || caller.in_group(inode.gid)) {
        mode &= !SET_GID;
    }
    mode
}
