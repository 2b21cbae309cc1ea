//! POSIX names, attributes and permissions as functions over a transaction.
//!
//! Nothing here knows of sockets, threads, clocks or engines. Functions that only read take any
//! [`Read`]; functions that change take a [`Txn`]. Each is atomic because its transaction is.

pub mod acl;
pub mod attribute;
pub mod capability;
pub mod create;
pub mod directory;
pub mod layout;
pub mod path;
pub mod permission;
pub mod remove;
pub mod rename;
pub mod unnamed;
pub mod xattr;

use crate::failure::{Errno, Failure};
use crate::record::{Counters, Inode};
use crate::txn::{Read, Txn};
use crate::{key, record};
use trireme_proto::message::meta::{Caller, Making, ROOT};

/// On whose behalf, and what of the file system a transaction must know.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Who asks.
    pub caller: &'a Caller,
    /// Keys the directory hash.
    pub secret: &'a [u8; 32],
    /// Ids of the I/O servers that new files may use.
    pub servers: &'a [u32],
    /// How the caller's process makes what it makes.
    pub making: Making,
}

/// A failure about a name.
pub fn fail(errno: Errno, name: &[u8]) -> Failure {
    Failure {
        errno,
        what: String::from_utf8_lossy(name).into_owned(),
    }
}

/// A failure that explains itself.
pub fn explain(errno: Errno, what: impl Into<String>) -> Failure {
    Failure {
        errno,
        what: what.into(),
    }
}

/// Reads an inode that something points to.
pub fn inode<R: Read>(read: &mut R, id: u64) -> Result<Inode, Failure> {
    let found: Option<Inode> = read.record(&key::inode(id))?;
    let mut node = found.ok_or_else(|| explain(Errno::Stale, format!("inode {id}")))?;
    if node.mode & record::HAS_ACL != 0 {
        node.acl = Some(acl::load(read, id)?);
    }
    Ok(node)
}

/// Writes an inode.
pub fn put_inode(txn: &mut Txn<'_>, id: u64, inode: &Inode) {
    txn.put(key::inode(id), inode);
}

/// Changes the counters.
pub fn count(txn: &mut Txn<'_>, change: impl FnOnce(&mut Counters)) -> Result<Counters, Failure> {
    let stored = txn.record(key::COUNTERS)?;
    let mut counters = stored.unwrap_or(Counters {
        next: ROOT + 1,
        live: 1,
    });
    change(&mut counters);
    txn.put(key::COUNTERS.to_vec(), &counters);
    Ok(counters)
}

/// Makes the root directory of a new file system.
pub fn make_root(txn: &mut Txn<'_>, owner: &Caller) {
    let root = Inode {
        kind: trireme_proto::message::meta::Kind::Directory,
        mode: 0o755,
        uid: owner.uid,
        gid: owner.gid,
        nlink: 2,
        size: 0,
        settled: true,
        touched: false,
        rdev: 0,
        atime: txn.now,
        mtime: txn.now,
        ctime: txn.now,
        btime: txn.now,
        body: record::Body::Directory {
            parent: ROOT,
            wish: trireme_proto::message::meta::LayoutWish::default(),
        },
        acl: None,
    };
    put_inode(txn, ROOT, &root);
    txn.put(
        key::COUNTERS.to_vec(),
        &Counters {
            next: ROOT + 1,
            live: 1,
        },
    );
}
