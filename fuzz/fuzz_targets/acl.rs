//! Access control lists, which any program on a mount can set: malformed ones are an error, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use trireme_meta::acl::{Acl, LIMIT};
use trireme_proto::message::meta::Caller;

fuzz_target!(|input: &[u8]| {
    let Ok(Some(acl)) = Acl::parse(input) else { return };
    assert!(input.len() <= LIMIT);
    assert_eq!(acl.encode().len(), input.len());
    assert_eq!(Acl::parse(&acl.encode()).expect("our own encoding"), Some(acl.clone()));
    // What was accepted keeps its promises: the bits that stat shows are those of owner and others.
    let mode = acl.mode();
    assert!(mode <= 0o777);
    let owner = Caller { uid: 1, gid: 1, groups: Vec::new() };
    assert!(acl.permits(&owner, 1, 1, mode >> 6));
    // What is inherited gives no more than was asked for, and no more than the list gave.
    for asked in [0, 0o640, 0o777] {
        assert_eq!(acl.inherited(asked).mode(), mode & asked);
    }
    let mut changed = acl;
    changed.set_mode(0o751);
    assert_eq!(changed.mode(), 0o751);
});
