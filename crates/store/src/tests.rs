//! The store against real directories.

use super::*;

fn store(dir: &std::path::Path) -> Store {
    Store::open(&[dir.join("a"), dir.join("b")], 1, 5).unwrap()
}

#[test]
fn bytes_come_back_also_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path());
    assert!(first.find(7).unwrap().is_none());
    first
        .find_or_make(7)
        .unwrap()
        .write_at(b"hello", 3)
        .unwrap();
    first.sync(7).unwrap();
    let incarnation = first.incarnation().load(Ordering::SeqCst);
    drop(first);
    let again = store(dir.path());
    let mut buffer = [9; 10];
    assert_eq!(
        again
            .find(7)
            .unwrap()
            .unwrap()
            .read_at(&mut buffer, 0)
            .unwrap(),
        8
    );
    assert_eq!(&buffer[..8], b"\0\0\0hello");
    assert_eq!(again.find(7).unwrap().unwrap().stat().unwrap().size, 8);
    assert_eq!(
        again.incarnation().load(Ordering::SeqCst),
        incarnation,
        "nothing was lost"
    );
}

#[test]
fn lists_and_removes_on_all_disks() {
    let dir = tempfile::tempdir().unwrap();
    let store = store(dir.path());
    for file in [300, 2, 55, 1_000_000_007] {
        store.find_or_make(file).unwrap();
    }
    let numbers = |after, limit| -> Vec<u64> {
        store
            .list(after, limit)
            .unwrap()
            .into_iter()
            .map(|(file, _)| file)
            .collect()
    };
    assert_eq!(numbers(0, 10), [2, 55, 300, 1_000_000_007]);
    assert_eq!(numbers(2, 2), [55, 300]);
    store.remove(55).unwrap();
    store.remove(55).unwrap();
    assert_eq!(numbers(0, 10), [2, 300, 1_000_000_007]);
}

#[test]
fn a_second_server_and_a_foreign_server_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let first = store(dir.path());
    let again = Store::open(&[dir.path().join("a")], 1, 5).unwrap_err();
    assert!(again.to_string().contains("another server uses"), "{again}");
    drop(first);
    let foreign = Store::open(&[dir.path().join("a")], 2, 5).unwrap_err();
    assert!(
        foreign.to_string().contains("belongs to server 1"),
        "{foreign}"
    );
}

#[test]
fn a_power_cut_changes_the_incarnation_and_a_clean_stop_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let label = dir.path().join("a/trireme-store");
    let open = || Store::open(&[dir.path().join("a")], 1, 5).unwrap();
    let reboot = || {
        let text = std::fs::read_to_string(&label).unwrap();
        let boot = label::boot();
        assert!(text.contains(&boot));
        std::fs::write(&label, text.replace(&boot, "an-earlier-boot")).unwrap();
    };
    let first = open().incarnation().load(Ordering::SeqCst);
    reboot();
    let second = open();
    let incarnation = second.incarnation().load(Ordering::SeqCst);
    assert_ne!(incarnation, first);
    second.stop().unwrap();
    drop(second);
    reboot();
    assert_eq!(open().incarnation().load(Ordering::SeqCst), incarnation);
}

#[test]
fn many_subfiles_do_not_need_as_many_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&[dir.path().join("a")], 1, 5).unwrap();
    for file in 1..=4200 {
        store.find_or_make(file).unwrap().write_at(&[1], 0).unwrap();
    }
    assert_eq!(store.find(1).unwrap().unwrap().stat().unwrap().size, 1);
}
