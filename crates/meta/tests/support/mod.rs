//! Shared by the metadata tests: managers to test, and the reference model.
#![allow(dead_code)]

pub mod model;
pub mod requests;
pub mod tree;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use trireme_meta::failure::{Errno, Failure};
use trireme_meta::kv::{Engine, Fjall, Memory, Redb};
use trireme_meta::manager::Who;
use trireme_meta::{Manager, Options, Subfiles};
use trireme_proto::Key;
use trireme_proto::message::meta::{Caller, Layout, Request, Response, ServerInfo};

/// I/O servers that only take notes.
#[derive(Default)]
pub struct Notes {
    pub removed: Mutex<Vec<u64>>,
    /// Files that they cannot remove.
    pub stuck: Mutex<Vec<u64>>,
    pub cut: Mutex<Vec<(u64, u64)>>,
    pub size: AtomicU64,
    pub down: std::sync::atomic::AtomicBool,
}

impl Notes {
    fn answer(&self) -> Result<(), Failure> {
        if self.down.load(Ordering::SeqCst) {
            return Err(Failure {
                errno: Errno::TimedOut,
                what: "I/O server 0".into(),
            });
        }
        Ok(())
    }
}

impl Subfiles for Notes {
    fn remove(&self, files: &[(u64, Layout)]) -> Vec<Result<(), Failure>> {
        let one = |(inode, _): &(u64, Layout)| {
            self.answer()?;
            if self.stuck.lock().unwrap().contains(inode) {
                return Err(Failure {
                    errno: Errno::Io,
                    what: format!("file {inode} is stuck"),
                });
            }
            self.removed.lock().unwrap().push(*inode);
            Ok(())
        };
        files.iter().map(one).collect()
    }

    fn check(&self, _: u64, _: &Layout, _: u64) -> Result<(), Failure> {
        Ok(())
    }

    fn truncate(&self, inode: u64, _: &Layout, size: u64) -> Result<(), Failure> {
        self.answer()?;
        self.cut.lock().unwrap().push((inode, size));
        Ok(())
    }

    fn size(&self, _: u64, _: &Layout) -> Result<u64, Failure> {
        self.answer()?;
        Ok(self.size.load(Ordering::SeqCst))
    }
}

pub fn options() -> Options {
    let mut options = Options::new(Key::new([7; 32]));
    options.owner = Caller::default();
    options.grace = std::time::Duration::ZERO;
    options
}

pub fn root() -> Who {
    Who {
        client: 1,
        caller: Caller::default(),
        trusted: true,
    }
}

pub fn user(uid: u32) -> Who {
    let caller = Caller {
        uid,
        gid: uid,
        groups: Vec::new(),
    };
    Who {
        client: u64::from(uid),
        caller,
        trusted: false,
    }
}

/// A manager over an engine, with two I/O servers that take notes.
pub fn manager(engine: Arc<dyn Engine>) -> (Manager, Arc<Notes>) {
    let manager = Manager::open(engine, options()).unwrap();
    let notes = Arc::new(Notes::default());
    manager.connect_subfiles(notes.clone());
    for id in [0, 1] {
        let server = ServerInfo {
            id,
            addresses: vec![],
            incarnation: 1,
        };
        manager.call(&root(), Request::Register { server }).unwrap();
    }
    (manager, notes)
}

/// A fresh manager on each engine, with its name.
pub fn on_every_engine(test: impl Fn(&str, Manager, Arc<Notes>)) {
    let directory = tempfile::tempdir().unwrap();
    let engines: [(&str, Arc<dyn Engine>); 3] = [
        ("memory", Arc::new(Memory::default())),
        (
            "fjall",
            Arc::new(Fjall::open(&directory.path().join("f")).unwrap()),
        ),
        (
            "redb",
            Arc::new(Redb::open(&directory.path().join("r")).unwrap()),
        ),
    ];
    for (name, engine) in engines {
        let (manager, notes) = manager(engine);
        test(name, manager, notes);
    }
}

pub fn errno(result: Result<Response, Failure>) -> Option<Errno> {
    result.err().map(|failure| failure.errno)
}
