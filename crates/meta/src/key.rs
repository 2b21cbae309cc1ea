//! The key format: one letter for the table, then big-endian numbers, so that an ordered engine
//! keeps a directory's entries and an inode's attributes together.
//!
//! ```text
//! i | inode 8                  an inode
//! d | parent 8 | slot 8        a directory entry (the slot is the readdir cookie)
//! x | inode 8 | name           an extended attribute
//! t | inode 8 | what 1         to do: 0 remove the subfiles, 1 cut them
//! r | client 8 | place 8       what a numbered call of a client gave
//! m | name                     about the file system: "super", "counters", "map"
//! ```

use crate::kv::Key;

/// The file system itself: format version, secrets.
pub const SUPER: &[u8] = b"msuper";
/// Next inode number and how many are in use.
pub const COUNTERS: &[u8] = b"mcounters";
/// The cluster map.
pub const MAP: &[u8] = b"mmap";

/// Slots below this are never used: cookie 0 means "from the start", 1 and 2 are left to `.` and
/// `..` of a mount.
pub const FIRST_SLOT: u64 = 16;

fn numbered(table: u8, number: u64) -> Key {
    let mut key = Vec::with_capacity(18);
    key.push(table);
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// An inode.
pub fn inode(inode: u64) -> Key {
    numbered(b'i', inode)
}

/// A directory entry.
pub fn entry(parent: u64, slot: u64) -> Key {
    let mut key = numbered(b'd', parent);
    key.extend_from_slice(&slot.to_be_bytes());
    key
}

/// An extended attribute.
pub fn xattr(inode: u64, name: &[u8]) -> Key {
    let mut key = numbered(b'x', inode);
    key.extend_from_slice(name);
    key
}

/// Something to do on the I/O servers.
pub fn todo(inode: u64, what: u8) -> Key {
    let mut key = numbered(b't', inode);
    key.push(what);
    key
}

/// What a numbered call of a client gave; `place` is its number within the window.
pub fn serial(client: u64, place: u64) -> Key {
    let mut key = numbered(b'r', client);
    key.extend_from_slice(&place.to_be_bytes());
    key
}

/// All of one table.
pub fn table(table: u8) -> (Key, Key) {
    (vec![table], vec![table + 1])
}

/// All of one inode's in a table (`d` or `x`).
pub fn all_of(table: u8, inode: u64) -> (Key, Key) {
    let from = numbered(table, inode);
    // Inode numbers stay far below u64::MAX: one per nanosecond would take 584 years.
    (from, numbered(table, inode + 1))
}

/// Where one number's keys begin in a table.
pub fn start_of(table: u8, number: u64) -> Key {
    numbered(table, number)
}

/// The number behind the table letter.
pub fn number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..9)?.try_into().ok()?))
}

/// The slot of a directory entry's key.
pub fn slot(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(9..17)?.try_into().ok()?))
}

/// Where a name's entry is looked for first: a hash keyed with a secret of the file system, so
/// that nobody can construct names that meet. 63 bits, because cookies travel as signed offsets.
pub fn home_slot(secret: &[u8; 32], parent: u64, name: &[u8]) -> u64 {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(&parent.to_le_bytes());
    hasher.update(name);
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    (u64::from_le_bytes(bytes) >> 1).max(FIRST_SLOT)
}

/// The slot after `slot`, where a name goes whose home is taken by another name.
pub fn next_slot(slot: u64) -> u64 {
    if slot >= i64::MAX as u64 {
        FIRST_SLOT
    } else {
        slot + 1
    }
}
