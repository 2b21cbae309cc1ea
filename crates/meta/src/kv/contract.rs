//! The contract kit: what every engine must pass, written once.
//!
//! It is part of the library so that an engine in another crate can run it in its own tests.

use super::{Commit, Engine, Outcome};
use std::sync::Arc;

fn commit(base: u64, reads: &[(&str, u64)], writes: &[(&str, Option<&str>)]) -> Commit {
    Commit {
        base,
        reads: reads
            .iter()
            .map(|(k, v)| (k.as_bytes().to_vec(), *v))
            .collect(),
        writes: writes
            .iter()
            .map(|(k, v)| (k.as_bytes().to_vec(), v.map(|v| Arc::from(v.as_bytes()))))
            .collect(),
        soft: false,
    }
}

fn done(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Done { revision } => revision,
        Outcome::Conflict { key } => panic!("unexpected conflict on {key:?}"),
    }
}

/// Runs the whole kit. `open` must give the same store again after the last one was dropped
/// (`durable`), or a fresh one each time.
///
/// # Panics
/// When the engine breaks the contract.
pub fn run<E: Engine>(mut open: impl FnMut() -> E, durable: bool) {
    let engine = open();
    let first = engine.revision().unwrap();
    assert_eq!(engine.get(b"i1").unwrap(), None, "a fresh engine is empty");

    // A commit is visible at once, with its revision as version.
    let one = done(
        engine
            .commit(&commit(first, &[("i1", 0)], &[("i1", Some("a"))]))
            .unwrap(),
    );
    assert!(one > first, "revisions grow");
    assert_eq!(engine.revision().unwrap(), one);
    let stored = engine.get(b"i1").unwrap().expect("just written");
    assert_eq!((stored.version, &*stored.value), (one, b"a".as_slice()));

    // Whoever relies on something that changed gets a conflict and changes nothing.
    let outcome = engine
        .commit(&commit(
            first,
            &[("i1", 0)],
            &[("i1", Some("lost")), ("i2", Some("lost"))],
        ))
        .unwrap();
    assert_eq!(
        outcome,
        Outcome::Conflict {
            key: b"i1".to_vec()
        }
    );
    assert_eq!(&*engine.get(b"i1").unwrap().unwrap().value, b"a");
    assert_eq!(
        engine.get(b"i2").unwrap(),
        None,
        "a refused commit wrote half of itself"
    );

    // An old base alone is no conflict: only what was read counts.
    let two = done(
        engine
            .commit(&commit(first, &[("i1", one)], &[("i2", Some("b"))]))
            .unwrap(),
    );
    assert_eq!(
        engine.get(b"i1").unwrap().unwrap().version,
        one,
        "untouched keys keep theirs"
    );

    // Delete and create again: a different version, so that a stale reader notices.
    let three = done(engine.commit(&commit(two, &[], &[("i1", None)])).unwrap());
    assert_eq!(engine.get(b"i1").unwrap(), None);
    let four = done(
        engine
            .commit(&commit(three, &[("i1", 0)], &[("i1", Some("a"))]))
            .unwrap(),
    );
    assert!(engine.get(b"i1").unwrap().unwrap().version > one);
    let stale = engine
        .commit(&commit(one, &[("i1", one)], &[("i3", Some("x"))]))
        .unwrap();
    assert!(matches!(stale, Outcome::Conflict { .. }));

    // Scans: order, bounds, limit, bytes of any value.
    let mut writes = Commit {
        base: four,
        ..Commit::default()
    };
    for byte in [0u8, 1, 0x7f, 0x80, 0xff] {
        writes
            .writes
            .insert(vec![b's', byte], Some(Arc::from([byte].as_slice())));
        writes
            .writes
            .insert(vec![b's', byte, 0], Some(Arc::from([].as_slice())));
    }
    done(engine.commit(&writes).unwrap());
    let all = engine.scan(b"s", b"t", usize::MAX).unwrap();
    assert_eq!(all.len(), 10);
    assert!(all.is_sorted_by(|a, b| a.0 < b.0));
    assert_eq!(engine.scan(b"s", b"t", 3).unwrap(), all[..3]);
    let middle = engine.scan(&all[2].0, &all[5].0, usize::MAX).unwrap();
    assert_eq!(middle, all[2..5], "from is inclusive, to is exclusive");
    assert_eq!(
        engine.scan(b"t", b"s", 9).unwrap(),
        vec![],
        "an empty range is no error"
    );

    concurrent_counters(&engine);

    if durable {
        let revision = engine.revision().unwrap();
        drop(engine);
        let again = open();
        assert_eq!(
            again.revision().unwrap(),
            revision,
            "the revision survives a restart"
        );
        assert_eq!(again.scan(b"s", b"t", usize::MAX).unwrap(), all);
    }
}

/// Eight writers add one to the same value with optimistic retries: no addition may be lost.
fn concurrent_counters<E: Engine>(engine: &E) {
    const WRITERS: usize = 8;
    const ADDITIONS: usize = 20;
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..ADDITIONS {
                    loop {
                        let base = engine.revision().unwrap();
                        let old = engine.get(b"counter").unwrap();
                        let version = old.as_ref().map_or(0, |stored| stored.version);
                        let count = old.map_or(0, |stored| stored.value.len());
                        let mut change = commit(base, &[("counter", version)], &[]);
                        let value: Arc<[u8]> = vec![b'x'; count + 1].into();
                        change.writes.insert(b"counter".to_vec(), Some(value));
                        if matches!(engine.commit(&change).unwrap(), Outcome::Done { .. }) {
                            break;
                        }
                    }
                }
            });
        }
    });
    let total = engine.get(b"counter").unwrap().unwrap().value.len();
    assert_eq!(
        total,
        WRITERS * ADDITIONS,
        "an optimistic addition was lost"
    );
}
