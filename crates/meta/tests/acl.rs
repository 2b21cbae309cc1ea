//! Access control lists at the manager, which asks nobody else: whom they let in, who sets them, what is
//! inherited, and that they outlive it.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use support::requests::{create, file};
use support::{errno, manager, on_every_engine, options, root, user};
use trireme_meta::failure::{Errno, Failure};
use trireme_meta::kv::{Engine, Memory};
use trireme_meta::manager::Who;
use trireme_meta::{Manager, key};
use trireme_proto::message::meta::{
    Call, LayoutWish, Making, Node, OpenMode, Place, Request, Response, SetAttr, XattrMode,
};

const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";

const NOBODY: u32 = u32::MAX;

/// Owner, user 1000, owning group, group 2000, mask, others, as the kernel writes them.
fn list([owner, user, group, named, mask, other]: [u16; 6]) -> Vec<u8> {
    written(&[
        (1, owner, NOBODY),
        (2, user, 1000),
        (4, group, NOBODY),
        (8, named, 2000),
        (16, mask, NOBODY),
        (32, other, NOBODY),
    ])
}

/// Owner, owning group, others.
fn plain([owner, group, other]: [u16; 3]) -> Vec<u8> {
    written(&[(1, owner, NOBODY), (4, group, NOBODY), (32, other, NOBODY)])
}

fn written(lines: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut bytes = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in lines {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(rights.to_le_bytes());
        bytes.extend(id.to_le_bytes());
    }
    bytes
}

fn set(path: &str, name: &str, value: Vec<u8>) -> Request {
    Request::SetXattr {
        place: Place::path(path),
        name: name.into(),
        value,
        mode: XattrMode::Set,
    }
}

fn remove(path: &str, name: &str) -> Request {
    Request::RemoveXattr {
        place: Place::path(path),
        name: name.into(),
    }
}

fn get(manager: &Manager, path: &str, name: &str) -> Option<Vec<u8>> {
    let request = Request::GetXattr {
        place: Place::path(path),
        name: name.into(),
    };
    match manager.call(&root(), request) {
        Ok(Response::Bytes(bytes)) => Some(bytes),
        Err(failure) if failure.errno == Errno::NoData => None,
        other => panic!("{other:?}"),
    }
}

fn chmod(path: &str, mode: u32) -> Request {
    Request::SetAttr {
        place: Place::path(path),
        follow: true,
        set: SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        },
    }
}

fn mode(manager: &Manager, path: &str) -> u32 {
    let request = Request::Lookup {
        place: Place::path(path),
        follow: false,
    };
    match manager.call(&root(), request).unwrap() {
        Response::Entry(entry) => entry.attr.mode,
        other => panic!("{other:?}"),
    }
}

fn may(manager: &Manager, who: &Who, path: &str, mask: u32) -> bool {
    let place = Place::path(path);
    manager.call(who, Request::Access { place, mask }).is_ok()
}

fn open(path: &str, write: bool, create: Option<u32>) -> Request {
    // Each opening of a client has a number of its own.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Request::Open {
        open: NEXT.fetch_add(1, Ordering::Relaxed),
        place: Place::path(path),
        access: OpenMode { read: true, write },
        create: create.map(|mode| (mode, LayoutWish::default())),
        exclusive: false,
    }
}

fn masked(manager: &Manager, umask: u32, request: Request) -> Result<Response, Failure> {
    let (send, receive) = std::sync::mpsc::channel();
    let call = Call {
        caller: None,
        serial: 0,
        soft: false,
        making: Making {
            umask,
            ..Making::default()
        },
        request,
    };
    manager.submit(&root(), call, move |result| send.send(result).unwrap());
    receive.recv().unwrap()
}

fn in_group(uid: u32, group: u32) -> Who {
    let mut who = user(uid);
    who.caller.groups.push(group);
    who
}

#[test]
fn the_manager_lets_in_whom_a_list_names() {
    on_every_engine(|engine, manager, _| {
        let call = |who: &Who, request| manager.call(who, request);
        call(&root(), create("/f", 0o600, file())).unwrap();
        call(&root(), set("/f", ACCESS, list([6, 6, 4, 2, 6, 0]))).unwrap();
        assert_eq!(mode(&manager, "/f"), 0o660, "{engine}");
        let (named, member, stranger) = (user(1000), in_group(5, 2000), user(5));
        call(&named, open("/f", true, None)).unwrap();
        for who in [&member, &stranger] {
            let got = errno(call(who, open("/f", false, None)));
            assert_eq!(got, Some(Errno::Access), "{engine}");
        }
        assert!(may(&manager, &member, "/f", 2));
        assert!(may(&manager, &in_group(5, 0), "/f", 4));
        // Two groups with half of it each are not one with all of it.
        let mut both = in_group(5, 0);
        both.caller.groups.push(2000);
        assert!(!may(&manager, &both, "/f", 6));
        // The group's bits of the mode are the mask, for all but owner and others.
        call(&root(), chmod("/f", 0o640)).unwrap();
        assert_eq!(
            get(&manager, "/f", ACCESS),
            Some(list([6, 6, 4, 2, 4, 0])),
            "{engine}"
        );
        assert!(may(&manager, &named, "/f", 4) && !may(&manager, &named, "/f", 2));
        assert!(!may(&manager, &member, "/f", 2));
        // Directories: to search, to write to, to list.
        call(&root(), create("/d", 0o700, Node::Directory)).unwrap();
        call(&root(), set("/d", ACCESS, list([7, 7, 0, 1, 7, 0]))).unwrap();
        call(&named, create("/d/x", 0o600, file())).unwrap();
        let got = errno(call(&member, create("/d/y", 0o600, file())));
        assert_eq!(got, Some(Errno::Access), "{engine}");
        assert!(may(&manager, &root(), "/d/x", 4) && !may(&manager, &stranger, "/d/x", 0));
        let place = Place::path("/d/x");
        let lookup = Request::Lookup {
            place,
            follow: true,
        };
        assert!(call(&member, lookup.clone()).is_ok());
        assert_eq!(errno(call(&stranger, lookup)), Some(Errno::Access));
    });
}

#[test]
fn only_owners_set_lists_and_only_whole_ones() {
    let (manager, _) = manager(Arc::new(Memory::default()));
    let call = |who: &Who, request| errno(manager.call(who, request));
    assert_eq!(call(&root(), chmod("/", 0o777)), None);
    let owner = user(1000);
    assert_eq!(call(&owner, create("/f", 0o600, file())), None);
    assert_eq!(
        call(&owner, create("/l", 0, Node::Symlink(b"f".to_vec()))),
        None
    );
    let whole = list([7, 7, 7, 7, 7, 0]);
    let too_long = {
        let named = (0..600).map(|id| (2, 7, id));
        let mut lines = vec![(1, 7, NOBODY)];
        lines.extend(named);
        lines.extend([(4, 7, NOBODY), (16, 7, NOBODY), (32, 7, NOBODY)]);
        written(&lines)
    };
    let cases = [
        (user(1001), "/f", ACCESS, whole.clone(), Errno::Perm),
        (owner.clone(), "/f", DEFAULT, whole.clone(), Errno::Access),
        (owner.clone(), "/l", ACCESS, whole.clone(), Errno::NotSup),
        (owner.clone(), "/f", ACCESS, whole[..9].into(), Errno::Inval),
        (
            owner.clone(),
            "/f",
            ACCESS,
            b"\x09\0\0\0".into(),
            Errno::NotSup,
        ),
        (owner.clone(), "/f", ACCESS, too_long, Errno::TooBig),
        (
            owner.clone(),
            "/f",
            "system.other",
            whole.clone(),
            Errno::NotSup,
        ),
    ];
    for (who, path, name, value, expected) in cases {
        let got = call(&who, set(path, name, value.clone()));
        assert_eq!(got, Some(expected), "{path} {name} {value:?}");
    }
    assert_eq!(mode(&manager, "/f"), 0o600);
    assert_eq!(get(&manager, "/f", ACCESS), None);
    assert_eq!(call(&owner, set("/f", ACCESS, whole.clone())), None);
    assert_eq!(mode(&manager, "/f"), 0o770);
    assert_eq!(call(&user(1001), remove("/f", ACCESS)), Some(Errno::Perm));
    assert_eq!(call(&owner, remove("/f", ACCESS)), None);
    assert_eq!(call(&owner, remove("/f", ACCESS)), Some(Errno::NoData));
    // One that says no more than the mode becomes the mode.
    assert_eq!(call(&owner, set("/f", ACCESS, whole)), None);
    assert_eq!(call(&owner, set("/f", ACCESS, plain([6, 4, 0]))), None);
    assert_eq!(
        (mode(&manager, "/f"), get(&manager, "/f", ACCESS)),
        (0o640, None)
    );
}

#[test]
fn what_is_made_inherits_the_default_list_in_place_of_the_umask() {
    on_every_engine(|engine, manager, _| {
        let make = |request| masked(&manager, 0o077, request).unwrap();
        make(create("/d", 0o777, Node::Directory));
        assert_eq!(mode(&manager, "/d"), 0o700, "{engine}");
        make(create("/d/before", 0o666, file()));
        make(open("/d/opened", true, Some(0o666)));
        for path in ["/d/before", "/d/opened"] {
            assert_eq!(mode(&manager, path), 0o600, "{engine}");
        }
        let default = list([7, 7, 5, 5, 7, 1]);
        make(set("/d", DEFAULT, default.clone()));
        make(create("/d/file", 0o664, file()));
        make(open("/d/new", true, Some(0o664)));
        make(create("/d/fifo", 0o664, Node::Fifo));
        for path in ["/d/file", "/d/new", "/d/fifo"] {
            assert_eq!(mode(&manager, path), 0o660, "{engine} {path}");
            let access = get(&manager, path, ACCESS);
            assert_eq!(access, Some(list([6, 7, 5, 5, 6, 0])), "{engine} {path}");
            assert_eq!(get(&manager, path, DEFAULT), None);
        }
        make(create("/d/e", 0o777, Node::Directory));
        make(create("/d/e/below", 0o600, file()));
        assert_eq!(get(&manager, "/d/e", DEFAULT), Some(default.clone()));
        assert_eq!(mode(&manager, "/d/e/below"), 0o600);
        let access = get(&manager, "/d/e/below", ACCESS);
        assert_eq!(access, Some(list([6, 7, 5, 5, 0, 0])), "{engine}");
        make(create("/d/link", 0o777, Node::Symlink(b"x".to_vec())));
        assert_eq!(mode(&manager, "/d/link"), 0o777);
        // One without names leaves only bits behind.
        make(set("/d", DEFAULT, plain([7, 5, 0])));
        make(create("/d/plain", 0o666, file()));
        assert_eq!(mode(&manager, "/d/plain"), 0o640, "{engine}");
        assert_eq!(get(&manager, "/d/plain", ACCESS), None);
        make(remove("/d", DEFAULT));
        make(create("/d/after", 0o666, file()));
        assert_eq!(mode(&manager, "/d/after"), 0o600, "{engine}");
    });
}

#[test]
fn lists_outlive_the_manager_and_go_with_their_file() {
    let engine = Arc::new(Memory::default());
    let (first, _) = manager(engine.clone());
    first.call(&root(), create("/f", 0o600, file())).unwrap();
    let value = list([6, 4, 0, 0, 4, 0]);
    first
        .call(&root(), set("/f", ACCESS, value.clone()))
        .unwrap();
    drop(first);
    let again = Manager::open(engine.clone(), options()).unwrap();
    assert_eq!(get(&again, "/f", ACCESS), Some(value));
    assert!(may(&again, &user(1000), "/f", 4) && !may(&again, &user(1001), "/f", 4));
    let place = Place::path("/f");
    again.call(&root(), Request::Unlink { place }).unwrap();
    let (second, _) = manager(engine.clone());
    second.call(&root(), Request::Reap).unwrap();
    let (from, to) = key::table(b'x');
    assert!(engine.scan(&from, &to, 9).unwrap().is_empty());
}
