//! Servers that move, servers whose disks fail, and waiting for locks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use trireme::embedded::Embedded;
use trireme_proto::message::meta::LockRange;
use trireme_server::store::{Event, Options, Probe};

const EIO: i32 = 5;
const EAGAIN: i32 = 11;

#[test]
fn a_server_that_comes_back_on_another_port_is_found_by_clients_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let mut embedded = Embedded::start_tcp(dir.path(), 2).unwrap();
    let cluster = embedded.connect().unwrap();
    let file = cluster.create("/moves").unwrap();
    let data: Vec<u8> = (0..700_000u32).map(|i| (i / 7) as u8).collect();
    for round in 0..3 {
        file.write_at(&data, round).unwrap();
        let before = cluster.map().servers[1].addresses.clone();
        embedded.stop_server(1).unwrap();
        embedded.start_server(1).unwrap();
        // Both ways: the parallel transfer, and small calls to one server.
        let mut back = vec![0; data.len()];
        file.read_exact_at(&mut back, round).unwrap();
        assert!(back == data);
        let after = cluster.map().servers[1].addresses.clone();
        assert_ne!(before, after, "the test needs a server that moved");
        embedded.stop_server(1).unwrap();
        embedded.start_server(1).unwrap();
        for at in (0..data.len()).step_by(60_000) {
            let mut few = [0; 100];
            file.read_exact_at(&mut few, round + at as u64).unwrap();
            assert_eq!(few[..], data[at..at + 100]);
        }
    }
}

/// A disk whose next sync of bytes fails.
#[derive(Debug, Default)]
struct Failing {
    syncs_to_fail: AtomicU64,
}

impl Probe for Failing {
    fn saw(&self, event: Event<'_>) -> io::Result<()> {
        let Event::Sync(path) = event else {
            return Ok(());
        };
        // Not the label's: that would be another failure.
        let bytes = path.components().any(|part| part.as_os_str() == "data");
        let count = &self.syncs_to_fail;
        let less = |left: u64| left.checked_sub(1);
        if bytes
            && count
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less)
                .is_ok()
        {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Ok(())
    }
}

fn reopen(cluster: &trireme::Cluster, path: &str) -> trireme::File {
    let mut how = trireme::OpenOptions::new();
    how.read(true).write(true);
    how.open(cluster, path).unwrap()
}

#[test]
fn a_sync_that_failed_once_is_an_error_to_everybody_who_wrote() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let options = Options {
        probe: Some(disk.clone()),
        ..Options::default()
    };
    let embedded = Embedded::start_with(dir.path(), 1, options).unwrap();
    let clients = [embedded.connect().unwrap(), embedded.connect().unwrap()];
    for round in 0..50u8 {
        let path = format!("/wrote-{round}");
        let first = clients[0].create(&path).unwrap();
        let again = reopen(&clients[0], &path);
        let other = reopen(&clients[1], &path);
        let elsewhere = clients[1].create(format!("/elsewhere-{round}")).unwrap();
        let all = [&first, &again, &other, &elsewhere];
        for (number, file) in all.iter().enumerate() {
            file.write_at(&[round; 5000], number as u64 * 5000).unwrap();
        }
        disk.syncs_to_fail.store(1, Ordering::SeqCst);
        // Whoever meets the failure first: all descriptors hear of it, once each.
        for turn in 0..all.len() {
            let file = all[(turn + usize::from(round)) % all.len()];
            let error = file.sync().expect_err("a sync lied");
            assert_eq!(error.errno(), EIO, "{error}");
        }
        for file in all {
            file.write_at(&[round; 5000], 0).unwrap();
            file.sync().unwrap();
        }
    }
}

#[test]
fn waiting_for_a_lock_ends_with_its_release_or_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let embedded = Embedded::start(dir.path(), 1).unwrap();
    let (one, other) = (embedded.connect().unwrap(), embedded.connect().unwrap());
    let range = LockRange {
        inode: one.create("/locked").unwrap().inode(),
        owner: 1,
        flock: false,
        start: 0,
        end: 100,
        exclusive: true,
        pid: 0,
    };
    let hour = Duration::from_hours(1);
    let held = one.namespace().lock(range, hour).unwrap();
    let error = other.namespace().lock(range, Duration::from_millis(50));
    assert_eq!(error.err().unwrap().errno(), EAGAIN);
    // One at a time, however many wait, each without asking twice: all are there before the first ends.
    let inside = AtomicU64::new(0);
    let asked = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for owner in 2..10 {
            let (inside, asked, names) = (&inside, &asked, other.namespace());
            scope.spawn(move || {
                asked.fetch_add(1, Ordering::SeqCst);
                let _held = names.lock(LockRange { owner, ..range }, hour).unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
            });
        }
        while asked.load(Ordering::SeqCst) < 8 {
            std::thread::yield_now();
        }
        assert_eq!(inside.load(Ordering::SeqCst), 0, "somebody did not wait");
        drop(held);
    });
    assert_eq!(one.namespace().test_lock(range).unwrap(), None);
}
