//! File capabilities, which lend some of root's rights to a program: they must not outlive a change of
//! what they were given to.

use crate::failure::Failure;
use crate::key;
use crate::record::Inode;
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::CAPABILITY;

/// Takes them off a file whose content or owner changes; root's hand is no better than others'.
pub fn drop(txn: &mut Txn<'_>, id: u64, node: &Inode) -> Result<(), Failure> {
    let key = key::xattr(id, CAPABILITY);
    if !node.is_directory() && txn.bytes(&key)?.is_some() {
        txn.delete(key);
    }
    Ok(())
}
