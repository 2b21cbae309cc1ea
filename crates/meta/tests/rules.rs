//! Rules as tables: hostile names, permissions, sticky and set-id bits, times, open files.

mod support;

use std::sync::mpsc::Receiver;

use support::requests::{READ, WRITE, create, file, fresh, open, stat};
use support::{errno, manager, on_every_engine, root, user};
use trireme_meta::Manager;
use trireme_meta::failure::Errno;
use trireme_meta::kv::Memory;
use trireme_meta::manager::Who;
use trireme_proto::message::meta::{
    Call, LayoutWish, LockRange, Making, Node, Place, RenameMode, Request, Response, SetAttr,
    SetTime, Time, XattrMode,
};

/// Names that traverse, hide, overflow or are not text, in every request that takes a name.
#[test]
fn hostile_names_are_refused_or_are_just_names() {
    let manager = fresh();
    manager
        .call(&root(), create("/d", 0o755, Node::Directory))
        .unwrap();
    let long = vec![b'x'; 256];
    let deep = b"/x".repeat(2100);
    let cases: [(&[u8], Errno); 7] = [
        (b"..", Errno::Exist),
        (b"/", Errno::Exist),
        (b".", Errno::Exist),
        (b"d/..", Errno::Exist),
        (b"a\0b", Errno::Inval),
        (&long, Errno::NameTooLong),
        (&deep, Errno::NameTooLong),
    ];
    for (name, expected) in cases {
        for node in [
            file(),
            Node::Directory,
            Node::Symlink(b"t".to_vec()),
            Node::Fifo,
        ] {
            let got = errno(manager.call(&root(), create(name, 0o755, node)));
            assert_eq!(got, Some(expected), "{:?}", String::from_utf8_lossy(name));
        }
    }
    // In the places where a name is looked for, moved or removed, the bad ones are refused too.
    for name in [b"a\0b".to_vec(), long.clone(), deep.clone()] {
        let place = Place::path(name.clone());
        let requests = [
            Request::Lookup {
                place: place.clone(),
                follow: true,
            },
            Request::SetAttr {
                place: place.clone(),
                follow: true,
                set: SetAttr::default(),
            },
            Request::Open {
                open: 1,
                place: place.clone(),
                access: READ,
                create: None,
                exclusive: false,
            },
            Request::Truncate {
                place: place.clone(),
                size: 0,
                open: None,
            },
            Request::Link {
                from: Place::path("/d"),
                to: place.clone(),
            },
            Request::Link {
                from: place.clone(),
                to: Place::path("/n"),
            },
            Request::Unlink {
                place: place.clone(),
            },
            Request::Rmdir {
                place: place.clone(),
            },
            Request::Rename {
                from: place.clone(),
                to: Place::path("/n"),
                mode: RenameMode::Replace,
            },
            Request::Rename {
                from: Place::path("/d"),
                to: place.clone(),
                mode: RenameMode::Replace,
            },
            Request::ReadLink {
                place: place.clone(),
            },
            Request::ReadDir {
                place: place.clone(),
                after: 0,
                limit: 9,
                plus: false,
            },
            Request::GetXattr {
                place: place.clone(),
                name: b"user.a".to_vec(),
            },
            Request::ListXattr {
                place: place.clone(),
            },
            Request::Access {
                place: place.clone(),
                mask: 4,
            },
        ];
        for request in requests {
            let got = errno(manager.call(&root(), request.clone()));
            assert!(
                matches!(got, Some(Errno::Inval | Errno::NameTooLong)),
                "{request:?}: {got:?}"
            );
        }
    }
    // Bytes that are not UTF-8, and 255 of them, are names like any other.
    let odd = vec![0xff; 255];
    let place = Place::name(trireme_proto::message::meta::ROOT, odd.clone());
    let made = Request::Create {
        place: place.clone(),
        mode: 0o644,
        node: file(),
    };
    manager.call(&root(), made).unwrap();
    manager
        .call(
            &root(),
            Request::Lookup {
                place,
                follow: true,
            },
        )
        .unwrap();
    // `..` above the root is the root, as everywhere.
    assert_eq!(stat(&manager, "/../../d/..").inode, 1);
}

#[test]
fn permission_bits_stop_others_and_nobody_is_believed_about_himself() {
    let manager = fresh();
    let (alice, bob) = (user(1000), user(1001));
    manager
        .call(&root(), create("/home", 0o777, Node::Directory))
        .unwrap();
    manager
        .call(&alice, create("/home/a", 0o700, Node::Directory))
        .unwrap();
    manager
        .call(&alice, create("/home/a/f", 0o600, file()))
        .unwrap();
    assert_eq!(
        errno(manager.call(&bob, create("/home/a/x", 0o600, file()))),
        Some(Errno::Access)
    );
    let lookup = Request::Lookup {
        place: Place::path("/home/a/f"),
        follow: true,
    };
    assert_eq!(
        errno(manager.call(&bob, lookup.clone())),
        Some(Errno::Access)
    );
    assert!(manager.call(&alice, lookup.clone()).is_ok());
    assert!(manager.call(&root(), lookup.clone()).is_ok());
    // Bob says that he is Alice, or root.
    for claimed in [alice.caller.clone(), root().caller] {
        let (send, receive) = std::sync::mpsc::channel();
        let call = Call {
            caller: Some(claimed),
            serial: 0,
            soft: false,
            making: Making::default(),
            request: lookup.clone(),
        };
        manager.submit(&bob, call, move |result| send.send(result).unwrap());
        assert_eq!(errno(receive.recv().unwrap()), Some(Errno::Perm));
    }
    // What only the owner of a file, or of the cluster, may do.
    let chmod = |mode| Request::SetAttr {
        place: Place::path("/home/a"),
        follow: true,
        set: SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        },
    };
    assert_eq!(errno(manager.call(&bob, chmod(0o777))), Some(Errno::Perm));
    manager.call(&alice, chmod(0o755)).unwrap();
    let chown = Request::SetAttr {
        place: Place::path("/home/a/f"),
        follow: true,
        set: SetAttr {
            uid: Some(1001),
            ..SetAttr::default()
        },
    };
    assert_eq!(errno(manager.call(&alice, chown)), Some(Errno::Perm));
    for request in [
        Request::Check { repair: true },
        Request::Reap,
        Request::Admin { inodes: vec![2] },
        Request::Life { inodes: vec![2] },
    ] {
        assert_eq!(errno(manager.call(&alice, request)), Some(Errno::Perm));
    }
    // Opening asks for the right that is needed, and the grant says no more than that.
    let read = |access| Request::Open {
        open: 7,
        place: Place::path("/home/a/f"),
        access,
        create: None,
        exclusive: false,
    };
    assert_eq!(errno(manager.call(&bob, read(READ))), Some(Errno::Access));
    assert_eq!(errno(manager.call(&bob, read(WRITE))), Some(Errno::Access));
    let opened = open(&manager, &alice, 3, "/home/a/f", READ);
    assert!(!opened.grant.rights.allow(trireme_proto::Rights::WRITE));
    assert_eq!(
        errno(manager.call(
            &bob,
            Request::Close {
                open: 3,
                size: None,
                when: None,
            }
        )),
        Some(Errno::BadF)
    );
}

#[test]
fn sticky_and_set_id_bits_do_what_they_do_on_linux() {
    let manager = fresh();
    let (alice, bob) = (user(1000), user(1001));
    manager
        .call(&root(), create("/tmp", 0o1777, Node::Directory))
        .unwrap();
    manager
        .call(&alice, create("/tmp/f", 0o666, file()))
        .unwrap();
    let unlink = Request::Unlink {
        place: Place::path("/tmp/f"),
    };
    assert_eq!(errno(manager.call(&bob, unlink.clone())), Some(Errno::Perm));
    let take = Request::Rename {
        from: Place::path("/tmp/f"),
        to: Place::path("/tmp/g"),
        mode: RenameMode::Replace,
    };
    assert_eq!(errno(manager.call(&bob, take)), Some(Errno::Perm));
    manager.call(&alice, unlink).unwrap();

    manager
        .call(&root(), create("/shared", 0o2777, Node::Directory))
        .unwrap();
    let set = SetAttr {
        gid: Some(50),
        ..SetAttr::default()
    };
    let place = Place::path("/shared");
    manager
        .call(
            &root(),
            Request::SetAttr {
                place,
                follow: true,
                set,
            },
        )
        .unwrap();
    assert_eq!(
        stat(&manager, "/shared").mode,
        0o2777,
        "chown keeps a directory's bits"
    );
    manager
        .call(&alice, create("/shared/d", 0o755, Node::Directory))
        .unwrap();
    let inner = stat(&manager, "/shared/d");
    assert_eq!(
        (inner.gid, inner.mode),
        (50, 0o2755),
        "group and bit are inherited"
    );

    manager
        .call(&alice, create("/shared/prog", 0o4755, file()))
        .unwrap();
    open(&manager, &alice, 1, "/shared/prog", WRITE);
    manager
        .call(
            &alice,
            Request::Close {
                open: 1,
                size: Some(5),
                when: None,
            },
        )
        .unwrap();
    assert_eq!(
        stat(&manager, "/shared/prog").mode,
        0o755,
        "writing clears set-user-id"
    );
}

#[test]
fn times_change_where_they_should() {
    let manager = fresh();
    manager.call(&root(), create("/f", 0o644, file())).unwrap();
    let old = Time {
        seconds: 1,
        nanos: 5,
    };
    let set = SetAttr {
        atime: Some(SetTime::To(old)),
        mtime: Some(SetTime::To(old)),
        ..SetAttr::default()
    };
    let place = Place::path("/f");
    manager
        .call(
            &root(),
            Request::SetAttr {
                place: place.clone(),
                follow: true,
                set,
            },
        )
        .unwrap();
    let before = stat(&manager, "/f");
    assert_eq!((before.atime, before.mtime), (old, old));
    assert!(before.ctime > old, "setting times changes the change time");
    let set = SetAttr {
        mode: Some(0o600),
        ..SetAttr::default()
    };
    manager
        .call(
            &root(),
            Request::SetAttr {
                place: place.clone(),
                follow: true,
                set,
            },
        )
        .unwrap();
    let after = stat(&manager, "/f");
    assert_eq!(after.mtime, old, "chmod leaves the content's time");
    assert!(after.ctime > before.ctime);
    let parent = stat(&manager, "/");
    manager
        .call(
            &root(),
            Request::Link {
                from: place,
                to: Place::path("/g"),
            },
        )
        .unwrap();
    assert!(
        stat(&manager, "/").mtime > parent.mtime,
        "a new name changes its directory"
    );
    assert!(
        stat(&manager, "/f").ctime > after.ctime,
        "and the inode's change time"
    );
    assert_eq!(stat(&manager, "/g").nlink, 2);
}

#[test]
fn the_size_settles_only_when_every_writer_has_told() {
    let (manager, notes) = manager(std::sync::Arc::new(Memory::default()));
    let (a, b) = (
        root(),
        Who {
            client: 2,
            ..root()
        },
    );
    open(&manager, &a, 1, "/f", WRITE);
    open(&manager, &b, 1, "/f", WRITE);
    assert!(!stat(&manager, "/f").settled);
    manager
        .call(
            &a,
            Request::Close {
                open: 1,
                size: Some(100),
                when: None,
            },
        )
        .unwrap();
    let seen = stat(&manager, "/f");
    assert!(!seen.settled && seen.size == 100, "{seen:?}");
    manager
        .call(
            &b,
            Request::Close {
                open: 1,
                size: Some(70),
                when: None,
            },
        )
        .unwrap();
    let seen = stat(&manager, "/f");
    assert!(seen.settled && seen.size == 100, "{seen:?}");
    // One truncates while another writes: only the servers know now.
    open(&manager, &a, 2, "/f", WRITE);
    open(&manager, &b, 2, "/f", WRITE);
    let cut = Request::Truncate {
        place: Place::path("/f"),
        size: 10,
        open: Some(2),
    };
    manager.call(&b, cut).unwrap();
    assert_eq!(notes.cut.lock().unwrap().last().unwrap().1, 10);
    manager
        .call(
            &a,
            Request::Close {
                open: 2,
                size: Some(100),
                when: None,
            },
        )
        .unwrap();
    manager
        .call(
            &b,
            Request::Close {
                open: 2,
                size: None,
                when: None,
            },
        )
        .unwrap();
    assert!(
        !stat(&manager, "/f").settled,
        "a size told before the truncate was believed"
    );
}

#[test]
fn a_repeated_call_is_carried_out_once_and_answered_again() {
    on_every_engine(|engine, manager, _| {
        let submit = |request: Request, serial| {
            let (send, receive) = std::sync::mpsc::channel();
            let call = Call {
                caller: None,
                serial,
                soft: false,
                making: Making::default(),
                request,
            };
            manager.submit(&root(), call, move |result| send.send(result).unwrap());
            receive.recv().unwrap()
        };
        let first = submit(create("/f", 0o644, file()), 256).unwrap();
        let again = submit(create("/f", 0o644, file()), 256).unwrap();
        assert_eq!(first, again, "{engine}");
        assert_eq!(
            errno(submit(create("/f", 0o644, file()), 257)),
            Some(Errno::Exist)
        );
        let unlink = Request::Unlink {
            place: Place::path("/f"),
        };
        submit(unlink.clone(), 258).unwrap();
        submit(unlink.clone(), 258).unwrap();
        assert_eq!(errno(submit(unlink, 259)), Some(Errno::NoEnt), "{engine}");
        // A later call in the same place of the window, of another kind, is no repetition.
        submit(create("/d", 0o755, Node::Directory), 512).unwrap();
    });
}

#[test]
fn extended_attributes_keep_their_rules() {
    on_every_engine(|engine, manager, _| {
        manager.call(&root(), create("/f", 0o644, file())).unwrap();
        let set = |who: &Who, name: &str, mode| {
            let (place, name) = (Place::path("/f"), name.into());
            manager.call(
                who,
                Request::SetXattr {
                    place,
                    name,
                    value: b"v".to_vec(),
                    mode,
                },
            )
        };
        let get = |name: &str| {
            let (place, name) = (Place::path("/f"), name.into());
            manager.call(&root(), Request::GetXattr { place, name })
        };
        assert_eq!(errno(get("user.a")), Some(Errno::NoData), "{engine}");
        assert_eq!(
            errno(set(&root(), "user.a", XattrMode::Replace)),
            Some(Errno::NoData)
        );
        set(&root(), "user.a", XattrMode::Create).unwrap();
        assert_eq!(
            errno(set(&root(), "user.a", XattrMode::Create)),
            Some(Errno::Exist)
        );
        assert_eq!(get("user.a").unwrap(), Response::Bytes(b"v".to_vec()));
        set(&root(), "trusted.b", XattrMode::Set).unwrap();
        assert_eq!(
            errno(set(&user(9), "user.c", XattrMode::Set)),
            Some(Errno::Access)
        );
        assert_eq!(
            errno(set(&user(9), "trusted.c", XattrMode::Set)),
            Some(Errno::Perm)
        );
        assert_eq!(
            errno(set(&root(), "system.x", XattrMode::Set)),
            Some(Errno::NotSup)
        );
        let list = |who: &Who| {
            manager.call(
                who,
                Request::ListXattr {
                    place: Place::path("/f"),
                },
            )
        };
        let names = |names: &[&str]| Response::Names(names.iter().map(|n| (*n).into()).collect());
        assert_eq!(
            list(&root()).unwrap(),
            names(&["trusted.b", "user.a"]),
            "{engine}"
        );
        assert_eq!(list(&user(9)).unwrap(), names(&["user.a"]), "{engine}");
    });
}

#[test]
fn layouts_are_inherited_and_nonsense_is_refused() {
    let manager = fresh();
    manager
        .call(&root(), create("/d", 0o755, Node::Directory))
        .unwrap();
    let wish = LayoutWish {
        unit: Some(4096),
        count: Some(1),
        ..LayoutWish::default()
    };
    let set = |wish: LayoutWish| Request::SetAttr {
        place: Place::path("/d"),
        follow: true,
        set: SetAttr {
            layout: Some(wish),
            ..SetAttr::default()
        },
    };
    manager.call(&root(), set(wish)).unwrap();
    manager
        .call(&root(), create("/d/e", 0o755, Node::Directory))
        .unwrap();
    let Response::Entry(made) = manager
        .call(&root(), create("/d/e/f", 0o644, file()))
        .unwrap()
    else {
        panic!()
    };
    let layout = made.layout.unwrap();
    assert_eq!(
        (layout.unit, layout.servers.len(), layout.first),
        (4096, 1, 0)
    );
    let nonsense = [
        LayoutWish {
            unit: Some(0),
            ..LayoutWish::default()
        },
        LayoutWish {
            count: Some(0),
            ..LayoutWish::default()
        },
        LayoutWish {
            servers: Some(vec![]),
            ..LayoutWish::default()
        },
    ];
    for wish in nonsense {
        assert_eq!(errno(manager.call(&root(), set(wish))), Some(Errno::Inval));
    }
    let far = Node::File(LayoutWish {
        count: Some(9),
        ..LayoutWish::default()
    });
    assert_eq!(
        errno(manager.call(&root(), create("/x", 0o644, far))),
        Some(Errno::Inval)
    );
    let strange = Node::File(LayoutWish {
        servers: Some(vec![7]),
        ..LayoutWish::default()
    });
    let error = manager
        .call(&root(), create("/x", 0o644, strange))
        .unwrap_err();
    assert!(
        error.to_string().contains("server 7 is not in the cluster"),
        "{error}"
    );
}

#[test]
fn locks_of_a_client_that_went_away_are_freed() {
    let manager = fresh();
    let range = LockRange {
        inode: 5,
        owner: 1,
        flock: false,
        start: 0,
        end: 10,
        exclusive: true,
        pid: 0,
    };
    let lock = |who: &Who| {
        manager.call(
            who,
            Request::Lock {
                range,
                reclaim: false,
                wait: false,
                patience_ms: 0,
            },
        )
    };
    let (a, b) = (
        root(),
        Who {
            client: 2,
            ..root()
        },
    );
    lock(&a).unwrap();
    assert_eq!(errno(lock(&b)), Some(Errno::Again));
    manager.call(&a, Request::Unlock { range }).unwrap();
    lock(&b).unwrap();
    assert_eq!(
        manager.call(&a, Request::TestLock { range }).unwrap(),
        Response::Conflict(Some(range))
    );
}

/// Asks for a lock with patience; the answer comes through the channel.
fn wait_for(
    manager: &Manager,
    who: &Who,
    range: LockRange,
    patience_ms: u32,
) -> Receiver<Result<Response, Option<Errno>>> {
    let (send, receive) = std::sync::mpsc::channel();
    let call = Call {
        caller: None,
        serial: 0,
        soft: false,
        making: Making::default(),
        request: Request::Lock {
            range,
            reclaim: false,
            wait: true,
            patience_ms,
        },
    };
    manager.submit(who, call, move |result| {
        let _ = send.send(result.map_err(|failure| Some(failure.errno)));
    });
    receive
}

#[test]
fn who_waits_for_a_lock_gets_it_when_it_is_free_and_not_before() {
    let manager = fresh();
    let who = |client| Who { client, ..root() };
    let range = |owner, start, end| LockRange {
        inode: 5,
        owner,
        flock: false,
        start,
        end,
        exclusive: true,
        pid: 0,
    };
    for client in 1..=4 {
        manager.connected(client);
    }
    let unlock = |client, range| {
        manager
            .call(&who(client), Request::Unlock { range })
            .unwrap();
    };
    let got = |receive: &Receiver<_>| matches!(receive.try_recv(), Ok(Ok(Response::Locked { .. })));

    let first = wait_for(&manager, &who(1), range(1, 0, 10), 5000);
    assert!(got(&first), "free locks are given at once");
    let second = wait_for(&manager, &who(2), range(1, 0, 10), 5000);
    let third = wait_for(&manager, &who(3), range(1, 5, 10), 5000);
    let beside = wait_for(&manager, &who(4), range(1, 10, 20), 5000);
    assert!(got(&beside) && second.try_recv().is_err() && third.try_recv().is_err());
    // With the unlocking itself, in the order of asking, and only one of the two.
    unlock(1, range(1, 0, 10));
    assert!(got(&second) && third.try_recv().is_err());
    // A part is enough for who needs no more.
    unlock(2, range(1, 5, 10));
    assert!(got(&third));

    // Who waits in a circle is told.
    let circle = wait_for(&manager, &who(3), range(1, 0, 5), 5000);
    let closing = wait_for(&manager, &who(2), range(1, 5, 10), 5000);
    assert_eq!(closing.recv().unwrap(), Err(Some(Errno::Deadlock)));
    // The same request again, over another connection, takes the place of the first.
    let again = wait_for(&manager, &who(3), range(1, 0, 5), 5000);
    assert_eq!(circle.recv().unwrap(), Err(Some(Errno::Again)));
    unlock(2, range(1, 0, 10));
    assert!(got(&again));

    // Patience ends.
    let begin = std::time::Instant::now();
    let short = wait_for(&manager, &who(1), range(1, 0, 10), 30);
    assert_eq!(short.recv().unwrap(), Err(Some(Errno::Again)));
    assert!(begin.elapsed() >= std::time::Duration::from_millis(30));

    // A client that is gone waits no longer: the lock goes to the next.
    let dead = wait_for(&manager, &who(2), range(1, 0, 10), 5000);
    let alive = wait_for(&manager, &who(1), range(1, 0, 10), 5000);
    manager.disconnected(2);
    assert!(dead.recv().is_err(), "nobody is told");
    unlock(3, range(1, 0, 10));
    assert!(got(&alive));
    // What nobody waits for any more is not given to him either.
    unlock(1, range(1, 0, 10));
    let held = manager.call(
        &who(4),
        Request::TestLock {
            range: range(1, 0, 10),
        },
    );
    assert_eq!(held.unwrap(), Response::Conflict(None));
}

/// 10,000 names in one directory, read in pages while others come and go: everything that was there
/// all the time is seen exactly once.
#[test]
fn reading_a_large_directory_in_pages_misses_nothing_while_it_changes() {
    let manager = fresh();
    manager
        .call(&root(), create("/d", 0o755, Node::Directory))
        .unwrap();
    for number in 0..2000 {
        manager
            .call(&root(), create(format!("/d/stays-{number}"), 0o644, file()))
            .unwrap();
    }
    let mut seen = std::collections::HashSet::new();
    let (mut after, mut round) = (0, 0);
    loop {
        let place = Place::path("/d");
        let request = Request::ReadDir {
            place,
            after,
            limit: 64,
            plus: false,
        };
        let Response::Directory { entries, end, .. } = manager.call(&root(), request).unwrap()
        else {
            panic!()
        };
        for entry in entries {
            assert!(
                seen.insert(entry.name.clone()),
                "seen twice: {:?}",
                entry.name
            );
            after = entry.cookie;
        }
        let other = |round| format!("/d/goes-{round}");
        manager
            .call(&root(), create(other(round), 0o644, file()))
            .unwrap();
        if round > 0 {
            let place = Place::path(other(round - 1));
            manager.call(&root(), Request::Unlink { place }).unwrap();
        }
        round += 1;
        if end {
            break;
        }
    }
    let stayed = seen
        .iter()
        .filter(|name| name.starts_with(b"stays-"))
        .count();
    assert_eq!(stayed, 2000);
}
