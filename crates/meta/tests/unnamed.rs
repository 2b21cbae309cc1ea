//! Files without a name: what becomes of them when they are closed, named, forgotten.

mod support;

use std::sync::Arc;

use support::{Notes, errno, manager, on_every_engine, options, root, user};
use trireme_meta::Manager;
use trireme_meta::failure::Errno;
use trireme_meta::kv::Memory;
use trireme_meta::manager::Who;
use trireme_meta::session::Sessions;
use trireme_proto::message::meta::{
    Attr, LayoutWish, Node, OpenMode, Opened, Place, Request, Response,
};

const WRITE: OpenMode = OpenMode {
    read: true,
    write: true,
};

fn unnamed(open: u64, place: &str, linkable: bool) -> Request {
    Request::OpenUnnamed {
        open,
        place: Place::path(place),
        access: WRITE,
        mode: 0o640,
        linkable,
    }
}

fn make(manager: &Manager, who: &Who, request: Request) -> Opened {
    match manager.call(who, request).unwrap() {
        Response::Opened(opened) => opened,
        other => panic!("{other:?}"),
    }
}

fn link(inode: u64, path: &str) -> Request {
    Request::Link {
        from: Place::inode(inode),
        to: Place::path(path),
    }
}

fn close(open: u64) -> Request {
    Request::Close {
        open,
        size: Some(5),
        when: None,
    }
}

fn attr(manager: &Manager, inode: u64) -> Result<Attr, Errno> {
    match manager.call(&root(), Request::GetAttr { inode }) {
        Ok(Response::Attr(attr)) => Ok(attr),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.errno),
    }
}

fn no_problems(manager: &Manager) {
    match manager.call(&root(), Request::Check { repair: false }) {
        Ok(Response::Check(report)) => assert!(report.problems.is_empty(), "{report:?}"),
        other => panic!("{other:?}"),
    }
}

fn removed(notes: &Notes) -> Vec<u64> {
    notes.removed.lock().unwrap().clone()
}

#[test]
fn it_goes_with_its_last_opening_unless_it_gets_a_name() {
    on_every_engine(|name, manager, notes| {
        let gone = make(&manager, &root(), unnamed(1, "/", true));
        let stays = make(&manager, &root(), unnamed(2, "/", true));
        let (gone, stays) = (gone.entry.attr.inode, stays.entry.attr.inode);
        assert_eq!(attr(&manager, gone).unwrap().nlink, 0);
        assert_eq!(attr(&manager, gone).unwrap().mode, 0o640);
        // On the list from the beginning, and kept by their openings.
        assert_eq!(manager.sweep().unwrap(), 2, "{name}");
        no_problems(&manager);
        manager.call(&root(), link(stays, "/f")).unwrap();
        assert_eq!(attr(&manager, stays).unwrap().nlink, 1);
        no_problems(&manager);
        manager.call(&root(), close(1)).unwrap();
        manager.call(&root(), close(2)).unwrap();
        while manager.sweep().unwrap() > 0 {}
        assert_eq!(removed(&notes), [gone], "{name}");
        assert_eq!(attr(&manager, gone), Err(Errno::Stale));
        assert_eq!(attr(&manager, stays).unwrap().size, 5);
        no_problems(&manager);
    });
}

#[test]
fn only_one_that_never_had_a_name_can_get_one() {
    let (manager, _) = manager(Arc::new(Memory::default()));
    let exclusive = make(&manager, &root(), unnamed(1, "/", false));
    let refused = manager.call(&root(), link(exclusive.entry.attr.inode, "/a"));
    assert_eq!(errno(refused), Some(Errno::NoEnt));

    // Once it had one it is as any other.
    let had = make(&manager, &root(), unnamed(2, "/", true));
    let had = had.entry.attr.inode;
    manager.call(&root(), link(had, "/a")).unwrap();
    manager.call(&root(), link(had, "/b")).unwrap();
    for path in ["/a", "/b"] {
        let place = Place::path(path);
        manager.call(&root(), Request::Unlink { place }).unwrap();
    }
    assert_eq!(
        errno(manager.call(&root(), link(had, "/c"))),
        Some(Errno::NoEnt)
    );

    // One that was made with a name and lost it, too.
    let request = Request::Open {
        open: 3,
        place: Place::path("/f"),
        access: WRITE,
        create: Some((0o644, LayoutWish::default())),
        exclusive: false,
    };
    let lost = make(&manager, &root(), request).entry.attr.inode;
    let place = Place::path("/f");
    manager.call(&root(), Request::Unlink { place }).unwrap();
    assert_eq!(
        errno(manager.call(&root(), link(lost, "/c"))),
        Some(Errno::NoEnt)
    );
    no_problems(&manager);
}

#[test]
fn the_directory_decides_who_may_make_one() {
    let (manager, _) = manager(Arc::new(Memory::default()));
    let create = |path: &str, mode, node| Request::Create {
        place: Place::path(path),
        mode,
        node,
    };
    let file = Node::File(LayoutWish::default());
    manager.call(&root(), create("/f", 0o666, file)).unwrap();
    for (path, mode) in [("/open", 0o2777), ("/closed", 0o755)] {
        manager
            .call(&root(), create(path, mode, Node::Directory))
            .unwrap();
    }
    let alice = user(1001);
    let refused = |request| errno(manager.call(&alice, request));
    assert_eq!(refused(unnamed(1, "/closed", true)), Some(Errno::Access));
    assert_eq!(refused(unnamed(1, "/f", true)), Some(Errno::NotDir));
    assert_eq!(refused(unnamed(1, "/nothing", true)), Some(Errno::NoEnt));
    let mut to_read = unnamed(1, "/open", true);
    if let Request::OpenUnnamed { access, .. } = &mut to_read {
        access.write = false;
    }
    assert_eq!(refused(to_read), Some(Errno::Inval));
    let made = make(&manager, &alice, unnamed(1, "/open", true)).entry.attr;
    assert_eq!((made.uid, made.gid), (1001, 0), "the directory's group");
    no_problems(&manager);
}

#[test]
fn a_restart_of_the_manager_ends_those_that_nobody_opens_again() {
    let engine = Arc::new(Memory::default());
    let (before, _) = manager(engine.clone());
    let inodes: Vec<u64> = (1..=3)
        .map(|open| make(&before, &root(), unnamed(open, "/", true)))
        .map(|opened| opened.entry.attr.inode)
        .collect();
    before.call(&root(), link(inodes[2], "/f")).unwrap();
    drop(before);

    let mut patient = options();
    patient.grace = std::time::Duration::from_hours(1);
    let again = Manager::open(engine.clone(), patient).unwrap();
    let notes = Arc::new(Notes::default());
    again.connect_subfiles(notes.clone());
    assert_eq!(again.sweep().unwrap(), 2, "their users may come back");
    let reopen = Request::Reopen {
        open: 2,
        inode: inodes[1],
        access: WRITE,
    };
    again.call(&root(), reopen).unwrap();
    again.call(&root(), link(inodes[1], "/g")).unwrap();
    assert_eq!(removed(&notes), []);
    drop(again);

    let (after, notes) = manager(engine);
    while after.sweep().unwrap() > 0 {}
    assert_eq!(removed(&notes), inodes[..1]);
    for inode in &inodes[1..] {
        assert_eq!(attr(&after, *inode).unwrap().nlink, 1);
    }
    no_problems(&after);
}

/// The janitor's sweeps and those that somebody asks for meet: each file counts once.
#[test]
fn sweeps_that_meet_count_each_file_once() {
    let (manager, notes) = manager(Arc::new(Memory::default()));
    for round in 0..50 {
        for open in 0..4 {
            make(&manager, &root(), unnamed(4 * round + open, "/", true));
            manager.call(&root(), close(4 * round + open)).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| while manager.sweep().unwrap() > 0 {});
            }
        });
    }
    no_problems(&manager);
    assert_eq!(removed(&notes).len(), 200);
}

/// Whoever comes second between giving a name and removing the bytes hears that it is too late.
#[test]
fn a_file_is_not_removed_while_it_gets_its_name() {
    let mut sessions = Sessions::new(std::time::Duration::ZERO);
    sessions.end_grace();
    assert!(sessions.begin_naming(7) && sessions.begin_naming(7));
    assert!(!sessions.begin_reaping(7));
    sessions.named(7);
    assert!(!sessions.begin_reaping(7), "one is still at it");
    sessions.named(7);
    assert!(sessions.begin_reaping(7));
    assert!(!sessions.begin_reaping(7), "somebody is at it");
    assert!(!sessions.begin_naming(7));
    sessions.end_reaping(7);
    assert!(sessions.begin_naming(7));
    // Nor between its making and its opening.
    sessions.writer_comes(1, 2, 8);
    assert!(!sessions.begin_reaping(8));
    sessions.writer_came(1, 2);
    assert!(sessions.begin_reaping(8));
}
