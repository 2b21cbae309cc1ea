//! Removed files: when their bytes leave the I/O servers, and what stays on the list.

mod support;

use support::requests::{WRITE, open};
use support::{errno, on_every_engine, root};
use trireme_meta::failure::Errno;
use trireme_proto::message::meta::{Place, Request, Response};

/// Many are removed at once; what becomes of one is its own matter.
#[test]
fn a_file_that_cannot_be_removed_stays_on_the_list_alone() {
    on_every_engine(|engine, manager, notes| {
        let make = |number: u64| {
            let path = format!("/f{number}");
            let inode = open(&manager, &root(), number, &path, WRITE)
                .entry
                .attr
                .inode;
            let (size, when) = (Some(9), None);
            let open = number;
            let close = Request::Close { open, size, when };
            manager.call(&root(), close).unwrap();
            let place = Place::path(path);
            manager.call(&root(), Request::Unlink { place }).unwrap();
            inode
        };
        // More than one page of the list.
        let mut inodes: Vec<u64> = (1..=300).map(make).collect();
        *notes.stuck.lock().unwrap() = vec![inodes[3], inodes[299]];
        let reap = || manager.call(&root(), Request::Reap).unwrap();
        assert_eq!(reap(), Response::Pending(2), "{engine}");
        let stale = |inode| {
            let asked = manager.call(&root(), Request::GetAttr { inode });
            errno(asked) == Some(Errno::Stale)
        };
        assert!(stale(inodes[0]) && stale(inodes[298]), "{engine}");
        assert!(!stale(inodes[3]) && !stale(inodes[299]), "{engine}");
        notes.stuck.lock().unwrap().clear();
        assert_eq!(reap(), Response::Pending(0), "{engine}");
        assert!(stale(inodes[3]) && stale(inodes[299]), "{engine}");
        let mut removed = notes.removed.lock().unwrap().clone();
        removed.sort_unstable();
        inodes.sort_unstable();
        assert_eq!(removed, inodes, "{engine}: each once");
    });
}

#[test]
fn an_unlinked_file_lives_while_it_is_open_and_is_removed_when_closed() {
    on_every_engine(|engine, manager, notes| {
        let opened = open(&manager, &root(), 1, "/f", WRITE);
        let inode = opened.entry.attr.inode;
        manager
            .call(
                &root(),
                Request::Unlink {
                    place: Place::path("/f"),
                },
            )
            .unwrap();
        assert_eq!(
            manager.call(&root(), Request::Reap).unwrap(),
            Response::Pending(1),
            "{engine}"
        );
        assert!(
            notes.removed.lock().unwrap().is_empty(),
            "{engine}: removed while open"
        );
        manager.call(&root(), Request::GetAttr { inode }).unwrap();
        manager
            .call(
                &root(),
                Request::Close {
                    open: 1,
                    size: Some(9),
                    when: None,
                },
            )
            .unwrap();
        // A server that is away: the file stays on the list.
        notes.down.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            manager.call(&root(), Request::Reap).unwrap(),
            Response::Pending(1),
            "{engine}"
        );
        notes.down.store(false, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            manager.call(&root(), Request::Reap).unwrap(),
            Response::Pending(0),
            "{engine}"
        );
        assert_eq!(*notes.removed.lock().unwrap(), [inode], "{engine}");
        assert_eq!(
            errno(manager.call(&root(), Request::GetAttr { inode })),
            Some(Errno::Stale)
        );
    });
}
