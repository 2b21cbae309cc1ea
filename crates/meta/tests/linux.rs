//! What Linux has beyond POSIX: file capabilities, whiteouts, holes, and an end to how long a file can be.

mod support;

use support::requests::{READ, WRITE, create, file, fresh, open, stat};
use support::{errno, manager, root, user};
use trireme_meta::failure::Errno;
use trireme_meta::kv::Memory;
use trireme_proto::limits::FILE_BYTES;
use trireme_proto::message::meta::{
    CAPABILITY, Kind, Node, Place, RenameMode, Request, Response, SetAttr, Time, XattrMode,
};

/// What a library client wrote, cut or gave away loses its capabilities; what a mount wrote lost them
/// before, and may have got new ones since.
#[test]
fn capabilities_go_when_a_file_changes() {
    let manager = fresh();
    let number = open(&manager, &root(), 1, "/f", WRITE).entry.attr.inode;
    let has = || {
        let request = Request::GetXattr {
            place: Place::inode(number),
            name: CAPABILITY.to_vec(),
        };
        manager.call(&root(), request).is_ok()
    };
    let give = || {
        let request = Request::SetXattr {
            place: Place::inode(number),
            name: CAPABILITY.to_vec(),
            value: b"rights".to_vec(),
            mode: XattrMode::Set,
        };
        manager.call(&root(), request).unwrap();
        assert!(has());
    };
    let report = |written, when| Request::Report {
        open: 1,
        size: 9,
        written,
        when,
        rest: false,
    };
    let set = |set| Request::SetAttr {
        place: Place::inode(number),
        follow: false,
        set,
    };
    let cases = [
        (report(true, None), true),
        (report(true, Some(Time::default())), false),
        (report(false, None), false),
        (
            Request::Truncate {
                place: Place::inode(number),
                size: 1,
                open: Some(1),
            },
            true,
        ),
        (
            set(SetAttr {
                uid: Some(1001),
                ..SetAttr::default()
            }),
            true,
        ),
        (
            set(SetAttr {
                strip_set_id: true,
                ..SetAttr::default()
            }),
            true,
        ),
        (
            set(SetAttr {
                mode: Some(0o755),
                ..SetAttr::default()
            }),
            false,
        ),
    ];
    for (request, goes) in cases {
        give();
        manager.call(&root(), request.clone()).unwrap();
        assert_eq!(has(), !goes, "{request:?}");
    }
    // Who opens it for writing is told, who reads it need not know.
    give();
    assert!(open(&manager, &root(), 2, "/f", WRITE).capability);
    assert!(!open(&manager, &root(), 3, "/f", READ).capability);
    // Whoever may write may take it away, as writing would; others may not.
    let take = || Request::RemoveXattr {
        place: Place::inode(number),
        name: CAPABILITY.to_vec(),
    };
    assert_eq!(errno(manager.call(&user(1002), take())), Some(Errno::Perm));
    manager.call(&user(1001), take()).unwrap();
    assert!(!open(&manager, &root(), 4, "/f", WRITE).capability);
}

/// A whiteout stands where the old name was; anybody may leave one.
#[test]
fn renaming_can_leave_a_whiteout() {
    let manager = fresh();
    manager
        .call(&root(), create("/d", 0o777, Node::Directory))
        .unwrap();
    let alice = user(1001);
    let rename = |from: &str, to: &str, replace| Request::Rename {
        from: Place::path(from),
        to: Place::path(to),
        mode: RenameMode::Whiteout { replace },
    };
    for path in ["/d/a", "/d/b"] {
        manager.call(&alice, create(path, 0o644, file())).unwrap();
    }
    let moved = stat(&manager, "/d/a").inode;
    let refused = manager.call(&alice, rename("/d/a", "/d/b", false));
    assert_eq!(errno(refused), Some(Errno::Exist));
    manager.call(&alice, rename("/d/a", "/d/b", true)).unwrap();
    assert_eq!(stat(&manager, "/d/b").inode, moved);
    let left = stat(&manager, "/d/a");
    assert_eq!(
        (left.kind, left.rdev, left.mode, left.nlink, left.uid),
        (Kind::CharDevice, 0, 0, 1, 1001)
    );
    manager
        .call(&alice, create("/d/s", 0o755, Node::Directory))
        .unwrap();
    manager
        .call(&alice, rename("/d/s", "/t", true))
        .unwrap_err();
    manager.call(&alice, rename("/d/s", "/d/t", false)).unwrap();
    assert_eq!(stat(&manager, "/d").nlink, 3);
    let report = manager.call(&root(), Request::Check { repair: false });
    match report.unwrap() {
        Response::Check(report) => assert!(report.problems.is_empty(), "{report:?}"),
        other => panic!("{other:?}"),
    }
}

/// Beyond the largest file nothing is begun.
#[test]
fn a_file_is_not_cut_to_more_than_there_can_be() {
    let (manager, notes) = manager(std::sync::Arc::new(Memory::default()));
    manager.call(&root(), create("/f", 0o644, file())).unwrap();
    for size in [FILE_BYTES + 1, i64::MAX as u64, u64::MAX] {
        let request = Request::Truncate {
            place: Place::path("/f"),
            size,
            open: None,
        };
        assert_eq!(errno(manager.call(&root(), request)), Some(Errno::FBig));
    }
    assert!(notes.cut.lock().unwrap().is_empty());
    let attr = stat(&manager, "/f");
    assert!(attr.settled && attr.size == 0);
}

/// Who wants to know what a file takes asks the I/O servers from the first hole on, until it is empty.
#[test]
fn a_file_is_sparse_until_it_is_cut_to_nothing() {
    let manager = fresh();
    open(&manager, &root(), 1, "/f", WRITE);
    let is_sparse = || stat(&manager, "/f").sparse;
    let cut = |size| {
        let request = Request::Truncate {
            place: Place::path("/f"),
            size,
            open: Some(1),
        };
        manager.call(&root(), request).unwrap();
    };
    assert!(!is_sparse());
    manager.call(&root(), Request::Sparse { open: 1 }).unwrap();
    assert!(is_sparse());
    let set = SetAttr {
        mode: Some(0o6711),
        ..SetAttr::default()
    };
    let chmod = Request::SetAttr {
        place: Place::path("/f"),
        follow: true,
        set,
    };
    manager.call(&root(), chmod).unwrap();
    let attr = stat(&manager, "/f");
    assert!(attr.sparse && attr.mode == 0o6711, "{attr:?}");
    cut(0);
    assert!(!is_sparse());
    cut(100);
    assert!(is_sparse());
    // Only those who write can say so.
    open(&manager, &root(), 2, "/f", READ);
    for open in [2, 3] {
        let result = manager.call(&root(), Request::Sparse { open });
        assert_eq!(errno(result), Some(Errno::BadF), "opening {open}");
    }
}
