//! Openings and closings that are committed together.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use support::{manager, root};
use trireme_meta::kv::{Commit, Engine, EngineError, Key, Limits, Memory, Outcome, Stored};
use trireme_proto::message::meta::{
    Call, LayoutWish, Making, Node, OpenMode, Place, Request, Response, Time,
};

/// An engine whose next commit waits for a word, once it is told to.
struct Held {
    memory: Memory,
    hold: Arc<AtomicBool>,
    holding: Sender<()>,
    go: Mutex<Receiver<()>>,
}

impl Engine for Held {
    fn name(&self) -> &'static str {
        "held"
    }
    fn limits(&self) -> Limits {
        Limits {
            writes: 4096,
            exclusive: true,
        }
    }
    fn revision(&self) -> Result<u64, EngineError> {
        self.memory.revision()
    }
    fn get(&self, key: &[u8]) -> Result<Option<Stored>, EngineError> {
        self.memory.get(key)
    }
    fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<(Key, Stored)>, EngineError> {
        self.memory.scan(from, to, most)
    }
    fn commit(&self, commit: &Commit) -> Result<Outcome, EngineError> {
        if self.hold.swap(false, Ordering::SeqCst) {
            let _ = self.holding.send(());
            let _ = self.go.lock().unwrap().recv();
        }
        self.memory.commit(commit)
    }
}

#[test]
fn a_close_that_is_committed_with_an_opening_does_not_settle_the_size() {
    let hold = Arc::new(AtomicBool::new(false));
    let ((holding, held), (go, wait)) = (channel(), channel());
    let engine = Held {
        memory: Memory::default(),
        hold: hold.clone(),
        holding,
        go: Mutex::new(wait),
    };
    let (manager, _notes) = manager(Arc::new(engine));
    let create = |name: &str| Request::Create {
        place: Place::path(name),
        mode: 0o644,
        node: Node::File(LayoutWish::default()),
    };
    let open = |open| Request::Open {
        open,
        place: Place::path("/f"),
        access: OpenMode {
            read: true,
            write: true,
        },
        create: None,
        exclusive: false,
    };
    let close = |open| Request::Close {
        open,
        size: Some(10),
        when: Some(Time::default()),
    };
    manager.call(&root(), create("/f")).unwrap();
    manager.call(&root(), open(1)).unwrap();

    let (done, answers) = channel();
    let submit = |request| {
        let done = done.clone();
        let call = Call {
            caller: None,
            serial: 0,
            soft: false,
            making: Making::default(),
            request,
        };
        manager.submit(&root(), call, move |result| _ = done.send(result));
    };
    let next = || {
        answers
            .recv_timeout(Duration::from_secs(20))
            .unwrap()
            .unwrap()
    };
    // Both wait for the same commit, the opening first.
    hold.store(true, Ordering::SeqCst);
    submit(create("/other"));
    held.recv_timeout(Duration::from_secs(20)).unwrap();
    submit(open(2));
    submit(close(1));
    drop(go);
    for _ in 0..3 {
        next();
    }
    let look = Request::Lookup {
        place: Place::path("/f"),
        follow: true,
    };
    let Response::Entry(entry) = manager.call(&root(), look).unwrap() else {
        panic!("a lookup gives an entry");
    };
    assert!(!entry.attr.settled, "the second opening may be writing");
}
