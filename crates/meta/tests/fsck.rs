//! The namespace check: finds what a bug or a broken disk can leave, mends it, loses nothing.

mod support;

use std::sync::Arc;
use support::{manager, options, root};
use trireme_meta::kv::{Commit, Engine, Memory};
use trireme_meta::record::{self, Inode, Todo};
use trireme_meta::{Manager, key};
use trireme_proto::message::meta::{
    CheckReport, LayoutWish, Node, Place, Request, Response, ServerInfo,
};

/// An engine that the test can damage behind the manager's back.
struct World {
    engine: Arc<Memory>,
    manager: Manager,
    inode: u64,
}

fn world() -> World {
    let engine = Arc::new(Memory::default());
    let (manager, _) = manager(engine.clone());
    let make = |path: &str, node| {
        let request = Request::Create {
            place: Place::path(path),
            mode: 0o755,
            node,
        };
        match manager.call(&root(), request).unwrap() {
            Response::Entry(entry) => entry.attr.inode,
            _ => panic!(),
        }
    };
    make("/d", Node::Directory);
    let inode = make("/d/f", Node::File(LayoutWish::default()));
    World {
        engine,
        manager,
        inode,
    }
}

impl World {
    fn write(&self, key: Vec<u8>, value: Option<Arc<[u8]>>) {
        let base = self.engine.revision().unwrap();
        let mut commit = Commit {
            base,
            ..Commit::default()
        };
        commit.writes.insert(key, value);
        self.engine.commit(&commit).unwrap();
    }

    fn change_inode(&self, change: impl Fn(&mut Inode)) {
        let stored = self.engine.get(&key::inode(self.inode)).unwrap().unwrap();
        let mut inode: Inode = record::decode("inode", &stored.value).unwrap();
        change(&mut inode);
        self.write(key::inode(self.inode), Some(record::encode(&inode)));
    }

    fn check(&self, repair: bool) -> CheckReport {
        match self
            .manager
            .call(&root(), Request::Check { repair })
            .unwrap()
        {
            Response::Check(report) => report,
            _ => panic!(),
        }
    }

    /// One finding; a dry run changes nothing; a repair mends it; the file is still there.
    fn finds_and_mends(&self, words: &str) {
        let before = self.engine.revision().unwrap();
        let report = self.check(false);
        assert!(
            report.problems.iter().any(|p| p.what.contains(words)),
            "{words}: {report:#?}"
        );
        assert!(report.problems.iter().all(|problem| !problem.repaired));
        assert_eq!(
            self.engine.revision().unwrap(),
            before,
            "a dry run wrote something"
        );
        let report = self.check(true);
        assert!(
            report.problems.iter().all(|problem| problem.repaired),
            "{report:#?}"
        );
        assert_eq!(
            self.check(false).problems,
            vec![],
            "after the repair of: {words}"
        );
        let request = Request::GetAttr { inode: self.inode };
        self.manager
            .call(&root(), request)
            .expect("the file survived the repair");
    }
}

#[test]
fn a_sound_namespace_has_no_problems() {
    let report = world().check(false);
    assert_eq!(
        (report.inodes, report.entries, report.problems.len()),
        (3, 2, 0)
    );
}

#[test]
fn an_inode_without_a_name_is_found_and_named() {
    let world = world();
    let (from, to) = key::table(b'd');
    for (key, stored) in world.engine.scan(&from, &to, 99).unwrap() {
        let slot: record::Slot = record::decode("entry", &stored.value).unwrap();
        if matches!(slot, record::Slot::Used { inode, .. } if inode == world.inode) {
            world.write(key, None);
        }
    }
    world.finds_and_mends("has no name");
    let place = Place::path(format!("/lost+found/{}", world.inode));
    world
        .manager
        .call(
            &root(),
            Request::Lookup {
                place,
                follow: false,
            },
        )
        .unwrap();
}

#[test]
fn a_name_that_leads_nowhere_is_removed() {
    let world = world();
    let request = Request::Create {
        place: Place::path("/d/g"),
        mode: 0o644,
        node: Node::Fifo,
    };
    let Response::Entry(made) = world.manager.call(&root(), request).unwrap() else {
        panic!()
    };
    world.write(key::inode(made.attr.inode), None);
    world.finds_and_mends("does not exist");
}

#[test]
fn wrong_counts_are_set_right() {
    let world = world();
    world.change_inode(|inode| inode.nlink = 7);
    world.finds_and_mends("7 links");
    world.write(
        key::COUNTERS.to_vec(),
        Some(record::encode(&record::Counters { next: 2, live: 9 })),
    );
    world.finds_and_mends("counters");
}

/// The worst that a to-do entry could do: name a file that lives.
#[test]
fn a_file_with_a_name_is_never_removed_whatever_the_to_do_list_says() {
    let engine = Arc::new(Memory::default());
    let (manager, notes) = manager(engine.clone());
    drop(manager);
    let before = world();
    before.write(
        key::todo(before.inode, 0),
        Some(record::encode(&Todo::Remove)),
    );
    // A new manager reads the list, and its janitor must not act on it.
    let manager = Manager::open(before.engine.clone(), options()).unwrap();
    manager.connect_subfiles(notes.clone());
    let server = ServerInfo {
        id: 0,
        addresses: vec![],
        incarnation: 1,
    };
    manager.call(&root(), Request::Register { server }).unwrap();
    manager.call(&root(), Request::Reap).unwrap();
    assert!(
        notes.removed.lock().unwrap().is_empty(),
        "a live file's subfiles were removed"
    );
    manager
        .call(
            &root(),
            Request::GetAttr {
                inode: before.inode,
            },
        )
        .unwrap();
    let world = World { manager, ..before };
    world.finds_and_mends("is on the list for removal");
}

#[test]
fn an_entry_where_no_lookup_finds_it_is_put_in_its_place() {
    let world = world();
    let (from, to) = key::table(b'd');
    let all = world.engine.scan(&from, &to, 99).unwrap();
    let (key, stored) = all
        .into_iter()
        .find(|(_, stored)| {
            let slot: record::Slot = record::decode("entry", &stored.value).unwrap();
            matches!(slot, record::Slot::Used { inode, .. } if inode == world.inode)
        })
        .unwrap();
    let wrong = key::entry(key::number(&key).unwrap(), key::FIRST_SLOT);
    world.write(key, None);
    world.write(wrong, Some(stored.value));
    world.finds_and_mends("no lookup finds it");
    let place = Place::path("/d/f");
    world
        .manager
        .call(
            &root(),
            Request::Lookup {
                place,
                follow: false,
            },
        )
        .unwrap();
}

#[test]
fn lists_and_the_inodes_that_announce_them_are_brought_together() {
    use trireme_meta::namespace::acl::List;
    let world = world();
    // Owner rw, user 5 rw, owning group none, mask r, others none.
    let lines = [
        (1u16, 6u16, u32::MAX),
        (2, 6, 5),
        (4, 0, u32::MAX),
        (16, 4, u32::MAX),
        (32, 0, u32::MAX),
    ];
    let mut list = 2u32.to_le_bytes().to_vec();
    for (tag, rights, id) in lines {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    let key = key::xattr(world.inode, List::Access.name());
    let mode = || {
        let stored = world.engine.get(&key::inode(world.inode)).unwrap().unwrap();
        record::decode::<Inode>("inode", &stored.value)
            .unwrap()
            .mode
    };
    world.write(key.clone(), Some(list.into()));
    world.finds_and_mends("does not know of its system.posix_acl_access");
    assert_eq!(mode(), 0o640 | record::HAS_ACL);
    world.write(key.clone(), Some(Arc::new(*b"damaged")));
    world.finds_and_mends("is not an access control list");
    assert_eq!(mode(), 0o600);
    world.change_inode(|inode| inode.mode = 0o664 | record::HAS_ACL | record::HAS_DEFAULT_ACL);
    world.finds_and_mends("says that it has an access control list");
    assert_eq!(mode(), 0o600);
}
