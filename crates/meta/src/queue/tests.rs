//! One batch is committed while the next is run on top of it; what a failed commit does to that; who runs
//! what need not be durable at once.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::Queue;
use crate::cache::Cache;
use crate::failure::Failure;
use crate::kv::{Commit, Engine, EngineError, Key, Limits, Memory, Outcome, Stored};
use crate::txn::{Read, Txn};
use trireme_proto::message::meta::Time;

/// An engine of one's own whose commits wait to be told how they end.
struct Gate {
    memory: Memory,
    /// Says of each commit whether it is soft.
    began: Sender<bool>,
    verdicts: Mutex<Receiver<bool>>,
}

impl Engine for Gate {
    fn name(&self) -> &'static str {
        "gate"
    }

    // So few writes that every transaction is a batch of its own.
    fn limits(&self) -> Limits {
        Limits {
            writes: super::TXN_WRITES,
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
        let _ = self.began.send(commit.soft);
        if self.verdicts.lock().unwrap().recv().unwrap_or(false) {
            return self.memory.commit(commit);
        }
        Err(EngineError {
            engine: "gate",
            reason: "broken".into(),
            full: false,
        })
    }
}

/// What a transaction found before it, by key and by range.
type Found = (Vec<u8>, usize);

struct Bench {
    began: Receiver<bool>,
    verdict: Sender<bool>,
    ran: Receiver<(&'static str, Found)>,
    tell: Sender<(&'static str, Found)>,
    done: Receiver<(&'static str, Result<(), Failure>)>,
    finish: Sender<(&'static str, Result<(), Failure>)>,
    /// The last to be dropped: it waits for its threads, and those for a word of ours.
    queue: Queue,
}

fn next<T>(from: &Receiver<T>) -> T {
    from.recv_timeout(Duration::from_secs(20)).unwrap()
}

impl Bench {
    fn new() -> Bench {
        let (begin, began) = channel();
        let (verdict, verdicts) = channel();
        let gate = Gate {
            memory: Memory::default(),
            began: begin,
            verdicts: Mutex::new(verdicts),
        };
        let (tell, ran) = channel();
        let (finish, done) = channel();
        Bench {
            queue: Queue::start(Arc::new(Cache::new(Arc::new(gate))), Time::default),
            began,
            verdict,
            ran,
            tell,
            done,
            finish,
        }
    }

    /// Appends its name to what is under one key, and adds a key of its own.
    fn submit(&self, name: &'static str) {
        self.submit_as(false, name);
    }

    fn submit_as(&self, soft: bool, name: &'static str) {
        let (tell, finish) = (self.tell.clone(), self.finish.clone());
        self.queue.submit_as(
            soft,
            move |txn: &mut Txn<'_>| {
                let mut all = txn
                    .bytes(b"all")?
                    .map(|all| all.to_vec())
                    .unwrap_or_default();
                let beside = txn.pairs(b"k", b"l", 100)?.len();
                let _ = tell.send((name, (all.clone(), beside)));
                all.extend_from_slice(name.as_bytes());
                txn.put_bytes(b"all".to_vec(), all.into());
                txn.put_bytes(format!("k{name}").into_bytes(), [].into());
                Ok(())
            },
            move |result| _ = finish.send((name, result)),
        );
    }

    fn saw(&self, name: &str, all: &str, beside: usize) {
        let (who, found) = next(&self.ran);
        assert_eq!((who, found), (name, (all.as_bytes().to_vec(), beside)));
    }

    /// Ends the commit that has begun.
    fn end(&self, good: bool) {
        next(&self.began);
        self.verdict.send(good).unwrap();
    }

    fn heard(&self, name: &str, good: bool) {
        let (who, result) = next(&self.done);
        assert_eq!((who, result.is_ok()), (name, good));
    }
}

/// The first is committed by the thread that runs, as there was nothing else to do; three that came
/// meanwhile are next, and b has been run.
fn three_at_once() -> Bench {
    let bench = Bench::new();
    bench.submit("a");
    bench.saw("a", "", 0);
    for name in ["b", "c", "d"] {
        bench.submit(name);
    }
    bench.end(true);
    bench.heard("a", true);
    bench.saw("b", "a", 1);
    bench
}

#[test]
fn the_next_batch_is_run_while_one_is_committed() {
    let bench = three_at_once();
    next(&bench.began);
    // The commit of b waits for our word, and c has seen what it writes.
    bench.saw("c", "ab", 2);
    bench.verdict.send(true).unwrap();
    bench.heard("b", true);
    bench.saw("d", "abc", 3);
    bench.end(true);
    bench.heard("c", true);
    bench.end(true);
    bench.heard("d", true);
}

#[test]
fn what_was_run_on_top_of_a_failed_commit_is_run_again_without_it() {
    let bench = three_at_once();
    bench.saw("c", "ab", 2);
    bench.end(false);
    bench.heard("b", false);
    bench.saw("c", "a", 1);
    bench.saw("d", "ac", 2);
    bench.end(true);
    bench.heard("c", true);
    bench.end(true);
    bench.heard("d", true);
}

#[test]
fn soft_changes_are_made_where_they_come_from_and_durable_after_a_while() {
    let bench = Bench::new();
    for (name, before) in [("a", ""), ("b", "a")] {
        bench.verdict.send(true).unwrap();
        bench.submit_as(true, name);
        // All of it has happened already.
        assert!(matches!(bench.done.try_recv(), Ok((who, Ok(()))) if who == name));
        bench.saw(name, before, before.len());
        assert!(next(&bench.began), "{name} need not be durable");
    }
    assert!(!next(&bench.began), "nobody asked, but it was time");
    bench.verdict.send(true).unwrap();
    bench.submit("c");
    bench.saw("c", "ab", 2);
    bench.end(true);
    bench.heard("c", true);
}

#[test]
fn what_comes_while_a_soft_change_is_made_elsewhere_has_its_turn_afterwards() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            bench.queue.submit_as(
                true,
                |txn| {
                    txn.put_bytes(b"all".to_vec(), b"a".as_slice().into());
                    Ok(())
                },
                |_| (),
            );
        });
        assert!(next(&bench.began), "the soft one");
        bench.submit_as(true, "b");
        bench.submit("c");
        assert!(bench.ran.try_recv().is_err() && !first.is_finished());
        bench.verdict.send(true).unwrap();
    });
    bench.saw("b", "a", 0);
    bench.end(true);
    bench.heard("b", true);
    bench.saw("c", "ab", 1);
    bench.end(true);
    bench.heard("c", true);
}

#[test]
fn a_soft_change_that_panics_keeps_nobody_from_the_next() {
    let bench = Bench::new();
    std::thread::scope(|scope| {
        let broken = scope.spawn(|| {
            let body = |_: &mut Txn<'_>| -> Result<(), Failure> { panic!("as it should") };
            bench.queue.submit_as(true, body, |_| ());
        });
        assert!(broken.join().is_err());
    });
    bench.verdict.send(true).unwrap();
    bench.submit_as(true, "a");
    bench.heard("a", true);
}
