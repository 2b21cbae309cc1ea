//! Every engine against the one contract.

use trireme_meta::kv::{Fjall, Memory, Redb, contract};

#[test]
fn memory_keeps_the_contract() {
    contract::run(Memory::default, false);
}

#[test]
fn fjall_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    contract::run(|| Fjall::open(directory.path()).unwrap(), true);
}

#[test]
fn redb_keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    contract::run(|| Redb::open(directory.path()).unwrap(), true);
}
