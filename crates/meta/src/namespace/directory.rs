//! Directory entries: an open-addressed hash table laid out over the ordered keys.
//!
//! An entry lives under `d | parent | slot`, where the slot is a keyed 63-bit hash of its name or,
//! if another name is there already, the next free one. So a lookup is one `get`, and the slot is
//! a readdir cookie that is unique and never moves: entries that come and go beside it disturb
//! nobody who reads the directory in pages.

use crate::failure::Failure;
use crate::key;
use crate::record::{Slot, decode};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::Kind;

/// An entry that was found.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Where it is.
    pub slot: u64,
    /// What it names.
    pub inode: u64,
    /// What that is.
    pub kind: Kind,
}

/// Looks a name up.
pub fn find<R: Read>(
    read: &mut R,
    secret: &[u8; 32],
    parent: u64,
    name: &[u8],
) -> Result<Option<Found>, Failure> {
    let mut slot = key::home_slot(secret, parent, name);
    loop {
        match read.record::<Slot>(&key::entry(parent, slot))? {
            None => return Ok(None),
            Some(Slot::Used {
                name: other,
                inode,
                kind,
            }) if other == name => {
                return Ok(Some(Found { slot, inode, kind }));
            }
            Some(_) => slot = key::next_slot(slot),
        }
    }
}

/// Adds a name that is not there yet.
pub fn insert(
    txn: &mut Txn<'_>,
    secret: &[u8; 32],
    parent: u64,
    name: &[u8],
    inode: u64,
    kind: Kind,
) -> Result<(), Failure> {
    let mut slot = key::home_slot(secret, parent, name);
    while let Some(Slot::Used { .. }) = txn.record::<Slot>(&key::entry(parent, slot))? {
        slot = key::next_slot(slot);
    }
    set(txn, parent, slot, name, inode, kind);
    Ok(())
}

/// Lets an existing entry name something else.
pub fn set(txn: &mut Txn<'_>, parent: u64, slot: u64, name: &[u8], inode: u64, kind: Kind) {
    let used = Slot::Used {
        name: name.to_vec(),
        inode,
        kind,
    };
    txn.put(key::entry(parent, slot), &used);
}

/// Takes an entry away, leaving a tombstone only where a later one might be looked for past it.
pub fn remove(txn: &mut Txn<'_>, parent: u64, slot: u64) -> Result<(), Failure> {
    let behind = key::entry(parent, key::next_slot(slot));
    if txn.record::<Slot>(&behind)?.is_some() {
        txn.put(key::entry(parent, slot), &Slot::Tombstone);
    } else {
        txn.delete(key::entry(parent, slot));
    }
    Ok(())
}

/// One page of a directory.
pub struct Page {
    /// Slot, name, inode, kind.
    pub entries: Vec<(u64, Vec<u8>, u64, Kind)>,
    /// Nothing behind.
    pub end: bool,
}

/// Entries behind slot `after`, in slot order.
pub fn page<R: Read>(read: &mut R, parent: u64, after: u64, limit: usize) -> Result<Page, Failure> {
    let (_, to) = key::all_of(b'd', parent);
    let mut from = key::entry(parent, after.saturating_add(1));
    let mut entries = Vec::new();
    loop {
        let wanted = limit - entries.len();
        let pairs = read.pairs(&from, &to, wanted)?;
        let short = pairs.len() < wanted;
        for (key, bytes) in pairs {
            if let Slot::Used { name, inode, kind } = decode("directory entry", &bytes)? {
                entries.push((key::slot(&key).unwrap_or(0), name, inode, kind));
            }
            from = key;
            from.push(0);
        }
        if short || entries.len() >= limit {
            return Ok(Page {
                entries,
                end: short,
            });
        }
    }
}

/// Removes all slots of a directory that holds no name any more (tombstones).
pub fn clear(txn: &mut Txn<'_>, parent: u64) -> Result<(), Failure> {
    let (from, to) = key::all_of(b'd', parent);
    for (key, _) in txn.pairs(&from, &to, usize::MAX)? {
        txn.delete(key);
    }
    Ok(())
}
