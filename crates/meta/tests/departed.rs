//! What must not come true later, and what may be forgotten: failed truncations, calls of clients that
//! have left.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use support::{errno, manager, on_every_engine, options, root};
use trireme_meta::Manager;
use trireme_meta::failure::{Errno, Failure};
use trireme_meta::kv::Memory;
use trireme_meta::manager::Who;
use trireme_proto::message::meta::{
    Call, LayoutWish, Making, Node, OpenMode, Place, Request, Response,
};

fn numbered(
    manager: &Manager,
    who: &Who,
    serial: u64,
    request: Request,
) -> Result<Response, Failure> {
    let (send, receive) = std::sync::mpsc::channel();
    let call = Call {
        caller: None,
        serial,
        soft: false,
        making: Making::default(),
        request,
    };
    manager.submit(who, call, move |result| send.send(result).unwrap());
    receive.recv().unwrap()
}

fn create(path: &str) -> Request {
    Request::Create {
        place: Place::path(path),
        mode: 0o644,
        node: Node::File(LayoutWish::default()),
    }
}

fn truncate(size: u64) -> Request {
    Request::Truncate {
        place: Place::path("/f"),
        size,
        open: None,
    }
}

fn open_for_writing(number: u64) -> Request {
    Request::Open {
        open: number,
        place: Place::path("/f"),
        access: OpenMode {
            read: true,
            write: true,
        },
        create: None,
        exclusive: false,
    }
}

#[test]
fn a_truncation_that_failed_is_not_carried_out_later() {
    on_every_engine(|engine, manager, notes| {
        manager.call(&root(), create("/f")).unwrap();
        notes.down.store(true, Ordering::SeqCst);
        let failed = manager.call(&root(), truncate(10));
        assert_eq!(errno(failed), Some(Errno::TimedOut), "{engine}");
        notes.down.store(false, Ordering::SeqCst);
        assert_eq!(manager.sweep().unwrap(), 0);
        assert!(
            notes.cut.lock().unwrap().is_empty(),
            "{engine}: it came true"
        );
        manager.call(&root(), truncate(20)).unwrap();
        assert_eq!(notes.cut.lock().unwrap().len(), 1);
    });
}

/// I/O servers that never answer, as if the manager died while it waited for them.
struct Hanging(std::sync::mpsc::Sender<()>);

impl trireme_meta::Subfiles for Hanging {
    fn check(
        &self,
        _: u64,
        _: &trireme_proto::message::meta::Layout,
        _: u64,
    ) -> Result<(), Failure> {
        Ok(())
    }
    fn remove(
        &self,
        files: &[(u64, trireme_proto::message::meta::Layout)],
    ) -> Vec<Result<(), Failure>> {
        files.iter().map(|_| Ok(())).collect()
    }
    fn truncate(
        &self,
        _: u64,
        _: &trireme_proto::message::meta::Layout,
        _: u64,
    ) -> Result<(), Failure> {
        self.0.send(()).unwrap();
        loop {
            std::thread::park();
        }
    }
    fn size(&self, _: u64, _: &trireme_proto::message::meta::Layout) -> Result<u64, Failure> {
        Ok(0)
    }
}

#[test]
fn a_truncation_that_a_crash_cut_short_is_finished_unless_somebody_writes_first() {
    for writes in [false, true] {
        let engine = Arc::new(Memory::default());
        let (first, _) = manager(engine.clone());
        first.call(&root(), create("/f")).unwrap();
        let (reached, waits) = std::sync::mpsc::channel();
        first.connect_subfiles(Arc::new(Hanging(reached)));
        first.submit(
            &root(),
            Call {
                caller: None,
                serial: 0,
                soft: false,
                making: Making::default(),
                request: truncate(10),
            },
            |_| {},
        );
        waits.recv().unwrap();
        // The first manager is dead to us; its truncation is on the durable list.
        let (second, notes) = manager(engine);
        if writes {
            second.call(&root(), open_for_writing(1)).unwrap();
        }
        second.sweep().unwrap();
        let cut = notes.cut.lock().unwrap().len();
        assert_eq!(cut, usize::from(!writes), "somebody wrote: {writes}");
    }
}

#[test]
fn calls_are_remembered_until_their_client_has_been_away_for_long() {
    let who = Who {
        client: u64::MAX,
        ..root()
    };
    let kept = Duration::from_millis(200);
    let mut short = options();
    short.calls_kept = kept;
    let engine = Arc::new(Memory::default());
    let first = Manager::open(engine.clone(), short).unwrap();
    first.connect_subfiles(Arc::new(support::Notes::default()));
    let server = trireme_proto::message::meta::ServerInfo {
        id: 0,
        addresses: vec![],
        incarnation: 1,
    };
    first.call(&root(), Request::Register { server }).unwrap();
    first.connected(who.client);
    let made = numbered(&first, &who, 256 + 7, create("/a")).unwrap();
    std::thread::sleep(kept);
    assert_eq!(first.forget_calls().unwrap(), 0, "it is connected");
    first.disconnected(who.client);
    assert_eq!(first.forget_calls().unwrap(), 0, "it has just left");
    assert_eq!(numbered(&first, &who, 256 + 7, create("/a")).unwrap(), made);
    // A manager that starts now does not know when it left.
    drop(first);
    let mut short = options();
    short.calls_kept = kept;
    let second = Manager::open(engine, short).unwrap();
    assert_eq!(
        second.forget_calls().unwrap(),
        0,
        "it may come back to this manager"
    );
    second.connected(who.client);
    assert_eq!(
        numbered(&second, &who, 256 + 7, create("/a")).unwrap(),
        made
    );
    second.disconnected(who.client);
    std::thread::sleep(kept);
    assert_eq!(second.forget_calls().unwrap(), 1);
    let again = numbered(&second, &who, 256 + 7, create("/a"));
    assert_eq!(errno(again), Some(Errno::Exist));
}

/// I/O servers that take their time: a truncation ends when it is told to.
struct Slow {
    begun: std::sync::Barrier,
    end: std::sync::Barrier,
}

impl trireme_meta::Subfiles for Slow {
    fn check(
        &self,
        _: u64,
        _: &trireme_proto::message::meta::Layout,
        _: u64,
    ) -> Result<(), Failure> {
        Ok(())
    }

    fn remove(
        &self,
        files: &[(u64, trireme_proto::message::meta::Layout)],
    ) -> Vec<Result<(), Failure>> {
        files.iter().map(|_| Ok(())).collect()
    }

    fn truncate(
        &self,
        _: u64,
        _: &trireme_proto::message::meta::Layout,
        _: u64,
    ) -> Result<(), trireme_meta::failure::Failure> {
        self.begun.wait();
        self.end.wait();
        Ok(())
    }

    fn size(&self, _: u64, _: &trireme_proto::message::meta::Layout) -> Result<u64, Failure> {
        Ok(10)
    }
}

#[test]
fn a_sweep_leaves_a_truncation_alone_that_is_under_way() {
    let (manager, _) = manager(Arc::new(Memory::default()));
    let slow = Arc::new(Slow {
        begun: std::sync::Barrier::new(2),
        end: std::sync::Barrier::new(2),
    });
    manager.connect_subfiles(slow.clone());
    // Something else is to be done: else it does not sweep.
    manager.call(&root(), create("/g")).unwrap();
    let place = Place::path("/g");
    manager.call(&root(), Request::Unlink { place }).unwrap();
    manager.call(&root(), create("/f")).unwrap();
    let (send, receive) = std::sync::mpsc::channel();
    let in_parallel = |request| {
        let call = Call {
            caller: None,
            serial: 0,
            soft: false,
            making: Making::default(),
            request,
        };
        let send = send.clone();
        manager.submit(&root(), call, move |result| {
            // Nobody listens when the test has failed.
            let _ = send.send(result);
        });
    };
    in_parallel(truncate(10));
    slow.begun.wait();
    // It finds the truncation on the list of what is to be done, and somebody at it.
    in_parallel(Request::Reap);
    let heard = receive.recv_timeout(Duration::from_mins(1));
    heard.expect("the sweep hangs").unwrap();
    slow.end.wait();
    let heard = receive.recv_timeout(Duration::from_mins(1));
    heard.expect("the truncation hangs").unwrap();
}
