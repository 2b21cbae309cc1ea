//! Files that are whole on one server of this host and that the kernel writes by itself: the mount, other mounts and
//! servers know in time what it did.

mod mount_support;
mod support;

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use mount_support::mapped::Mapped;
use mount_support::passing::{OpenBoth, Stopped, passing, read_all, soon, written};
use mount_support::{Sea, binary, open, sea_in, shell, wait_until};
use rustix::fs::OFlags;
use support::Random;
use support::small::Small;
use trireme::Part;

const MIB: usize = 1 << 20;

#[test]
fn files_are_written_by_the_kernel_without_the_mount() {
    let test = "files_are_written_by_the_kernel_without_the_mount";
    let Some((mut sea, places)) = passing(test, 2, &[]) else {
        return;
    };
    let (path, there) = (places[0].join("f"), places[1].join("f"));
    let bytes = Random::new(6).bytes(3 * MIB + 5);
    let file = File::create(&path).unwrap();
    // The kernel asks once whether writing takes a capability away.
    file.write_all_at(b"x", 0).unwrap();
    let stopped = Stopped::new(sea.process(0));
    let ours = bytes.clone();
    let file = soon(move || {
        file.write_all_at(&ours, 0).unwrap();
        file
    });
    let file = file.expect("writing asks the mount");
    // Another mount finds them though nobody has told of them.
    let seen = soon(move || {
        (
            there.metadata().unwrap().len(),
            std::fs::read(there).unwrap(),
        )
    });
    let (length, seen) = seen.expect("the other mount waits for this one");
    assert!((length, seen) == (bytes.len() as u64, bytes.clone()));
    drop(stopped);
    drop(file);
    assert!(std::fs::read(&path).unwrap() == bytes);
    // Who opens it again, and cuts it, and writes once more.
    let file = File::create(&path).unwrap();
    assert_eq!(path.metadata().unwrap().len(), 0);
    file.write_all_at(&bytes[..100], 50).unwrap();
    file.sync_all().unwrap();
    drop(file);
    let back = std::fs::read(places[1].join("f")).unwrap();
    assert!(back[..50] == [0; 50] && back[50..] == bytes[..100]);
    sea.check();
}

#[test]
fn what_the_kernel_writes_is_told_to_others_before_it_is_closed() {
    let test = "what_the_kernel_writes_is_told_to_others_before_it_is_closed";
    let Some((sea, places)) = passing(test, 2, &["--cache", "0"]) else {
        return;
    };
    let (path, there) = (places[0].join("log"), places[1].join("log"));
    // A shell's children close their copies of the descriptor; that is no end.
    let file = File::create(&path).unwrap();
    let mut before = there.metadata().unwrap();
    for number in 1..20u64 {
        let copy = file.try_clone().unwrap();
        let writer = if number % 2 == 0 { &copy } else { &file };
        writer.write_all_at(b"a line\n", number * 7 - 7).unwrap();
        let copy = (number % 2 != 0).then_some(copy);
        let now = there.metadata().unwrap();
        assert_eq!(now.len(), number * 7);
        assert!(written(&now) >= written(&before), "line {number}");
        assert_eq!(path.metadata().unwrap().len(), number * 7);
        drop(copy);
        before = now;
        if number % 5 == 0 {
            // Nothing of it changes, but that it was written.
            file.write_all_at(b"A", 0).unwrap();
            file.sync_all().unwrap();
            assert!(
                written(&there.metadata().unwrap()) > written(&before),
                "line {number}"
            );
        }
    }
    // Holes count as such, here and there, open and closed.
    file.write_all_at(b"end", 4 * MIB as u64).unwrap();
    let taken = |path: &Path| path.metadata().unwrap().blocks();
    assert!(taken(&path) < 100, "{} blocks", taken(&path));
    drop(file);
    assert!(taken(&there) < 100, "{} blocks", taken(&there));
    assert_eq!(there.metadata().unwrap().len(), 4 * MIB as u64 + 3);
    sea.check();
}

/// Before that others ask its server, and are told what it knows.
fn until_settled(sea: &Sea, path: &str) {
    let library = sea.client();
    wait_until("the manager knows that nobody writes to it", || {
        library.namespace().stat(path).unwrap().attr.settled
    });
}

#[test]
fn what_is_written_by_a_map_alone_is_told_too() {
    let test = "what_is_written_by_a_map_alone_is_told_too";
    let Some((sea, places)) = passing(test, 2, &["--cache", "0"]) else {
        return;
    };
    let (path, there) = (places[0].join("f"), places[1].join("f"));
    std::fs::write(&path, vec![0; 10_000]).unwrap();
    let time = |path: &Path| written(&path.metadata().unwrap());
    let before = time(&there);
    // Its descriptor is closed before anything is written.
    let map = Mapped::of(&open(&path), 10_000);
    map.put(17, 1);
    map.sync();
    let between = time(&path);
    assert!(between > before);
    wait_until("others hear of it", || time(&there) == between);
    map.put(9_999, 2);
    drop(map);
    until_settled(&sea, "/f");
    assert!(time(&there) > between);
    let back = std::fs::read(there).unwrap();
    assert_eq!((back[17], back[9_999]), (1, 2));
    sea.check();
}

#[test]
fn what_is_written_by_a_map_moves_the_times_at_once() {
    let test = "what_is_written_by_a_map_moves_the_times_at_once";
    let Some((sea, places)) = passing(test, 1, &["--cache", "60"]) else {
        return;
    };
    for (name, made) in [("there", true), ("new", false)] {
        let path = places[0].join(name);
        if made {
            std::fs::write(&path, vec![0; 4096]).unwrap();
        }
        let time = || {
            let data = path.metadata().unwrap();
            (written(&data), (data.ctime(), data.ctime_nsec()))
        };
        if made {
            time();
        }
        let mut options = OpenOptions::new();
        let both = options.read(true).write(true).create(true).truncate(false);
        let file = both.open(&path).unwrap();
        if !made {
            file.set_len(4096).unwrap();
        }
        let map = Mapped::of(&file, 4096);
        let mut file = Some(file);
        for byte in 1..4 {
            let before = time();
            map.put(17, byte);
            let now = time();
            assert!(now.0 > before.0 && now.1 > before.1, "{name}, write {byte}");
            map.sync();
            // The last ones are made when no descriptor is open any more.
            file.take();
        }
    }
    sea.check();
}

#[test]
fn each_write_moves_the_times_and_nothing_else_does() {
    let test = "each_write_moves_the_times_and_nothing_else_does";
    let Some((sea, places)) = passing(test, 1, &[]) else {
        return;
    };
    let path = places[0].join("f");
    let time = |file: &File| written(&file.metadata().unwrap());
    // By the manager and by the kernel, whose clocks are not the same.
    let file = File::create(&path).unwrap();
    let mut last = time(&file);
    let mut moved = |what| {
        let now = time(&file);
        assert!(now > last, "{what}: {now:?}");
        last = now;
    };
    for _ in 0..support::times(5000) {
        file.set_len(10).unwrap();
        moved("cut");
        for what in ["written", "written again", "and again"] {
            file.write_all_at(b"word", 0).unwrap();
            moved(what);
        }
    }
    drop(file);
    // One that has nothing on any server before somebody opens it for writing.
    std::fs::remove_file(&path).unwrap();
    let flags = OFlags::RDONLY | OFlags::CREATE;
    let empty = File::from(rustix::fs::open(&path, flags, 0o644.into()).unwrap());
    let last = time(&empty);
    drop(empty);
    let local = sea.dir("clock").join("f");
    wait_until("the disk's clock has gone on", || {
        time(&File::create(&local).unwrap()) > last
    });
    let again = open(&path);
    assert_eq!(time(&again), last, "opened");
    std::fs::remove_file(&path).unwrap();
    assert_eq!(time(&again), last, "removed");
    sea.check();
}

#[test]
fn what_a_map_wrote_is_told_though_the_mount_goes_at_once() {
    let test = "what_a_map_wrote_is_told_though_the_mount_goes_at_once";
    let Some((sea, places)) = passing(test, 2, &["--cache", "0"]) else {
        return;
    };
    let (path, there) = (places[0].join("f"), places[1].join("f"));
    std::fs::write(&path, vec![0; 4096]).unwrap();
    let time = || written(&there.metadata().unwrap());
    let map = Mapped::of(&open(&path), 4096);
    // Each takes longer to be heard: the mount looks for maps ever more seldom.
    let mut heard = time();
    for byte in 1..5 {
        map.put(17, byte);
        wait_until("others hear of it", || time() > heard);
        // Of a second write to a page before that the kernel itself knows nothing.
        map.sync();
        heard = time();
    }
    map.put(17, 5);
    drop(map);
    let umount = format!("{} umount {}", binary(), places[0].display());
    shell(Path::new("/"), &umount);
    until_settled(&sea, "/f");
    assert!(time() > heard);
    sea.check();
}

#[test]
fn who_writes_pieces_elsewhere_puts_nothing_old_back() {
    let test = "who_writes_pieces_elsewhere_puts_nothing_old_back";
    let Some((sea, places)) = passing(test, 1, &[]) else {
        return;
    };
    let path = places[0].join("f");
    let count = 2000;
    std::fs::write(&path, vec![0; 16 * count]).unwrap();
    let library = sea.client();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The server reads, changes and writes back long windows for these.
        scope.spawn(|| {
            let file = library.open_with("/f").unwrap();
            let part = Part::strided(0, 8, 16, count as u64).unwrap();
            let view = file.view(&part);
            while !stop.load(Ordering::Relaxed) {
                view.write_at(&vec![1; 8 * count], 0).unwrap();
            }
        });
        // And by those who open it again and again, and by a map.
        for round in 0..support::times(60) as u8 {
            let file = open(&path);
            let map = Mapped::of(&file, 16 * count);
            for index in 0..count {
                let at = 16 * index + 8;
                if index % 4 == 0 {
                    map.put(at, round);
                } else {
                    file.write_all_at(&[round], at as u64).unwrap();
                }
            }
            let back = read_all(&file, 16 * count);
            let wrong = (0..count).find(|index| back[16 * index + 8] != round);
            if wrong.is_some() {
                stop.store(true, Ordering::Relaxed);
            }
            assert_eq!(wrong, None, "round {round}: an old byte is back");
        }
        stop.store(true, Ordering::Relaxed);
    });
    sea.check();
}

#[test]
fn a_full_disk_is_told_at_once_by_the_kernel() {
    let test = "a_full_disk_is_told_at_once_by_the_kernel";
    let dir = tempfile::tempdir().unwrap();
    let Some(_small) = Small::in_memory(dir.path().join("cluster/io0"), 64) else {
        support::skip(test, "mounting a small file system needs root");
        return;
    };
    let Some(mut sea) = sea_in(test, dir, 1) else {
        return;
    };
    let place = sea.mount(&[]);
    let piece = Random::new(8).bytes(MIB);
    let path = place.join("large");
    for round in 0..3 {
        let file = File::create(&path).unwrap();
        let written = (0..200).find_map(|number| {
            let told = file.write_all_at(&piece, number * MIB as u64);
            told.err().map(|error| (number, error))
        });
        let (sure, error) = written.expect("half of it does not fit");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "round {round}");
        drop(file);
        let back = std::fs::read(&path).unwrap();
        let all = back.chunks(MIB).take(sure as usize).all(|one| one == piece);
        assert!(all && back.len() >= sure as usize * MIB, "round {round}");
        std::fs::remove_file(&path).unwrap();
        wait_until("there is room again", || {
            let file = File::create(&path).unwrap();
            (0..16).all(|number| file.write_all_at(&piece, number * MIB as u64).is_ok())
        });
    }
    sea.check();
}

#[test]
fn who_writes_goes_on_without_servers_and_hears_of_a_mount_that_was_killed() {
    let test = "who_writes_goes_on_without_servers_and_hears_of_a_mount_that_was_killed";
    let Some((mut sea, places)) = passing(test, 2, &["--timeout", "20"]) else {
        return;
    };
    let bytes = Random::new(9).bytes(2 * MIB);
    let file = File::create(places[0].join("f")).unwrap();
    for server in 0..3 {
        sea.local.kill_server(server);
    }
    file.write_all_at(&bytes, 0).unwrap();
    for server in 0..3 {
        sea.local.restart_server(server).unwrap();
    }
    file.write_all_at(&bytes, bytes.len() as u64).unwrap();
    file.sync_all().unwrap();
    assert_eq!(
        places[1].join("f").metadata().unwrap().len(),
        4 * MIB as u64
    );
    sea.process(0).kill().unwrap();
    sea.process(0).wait().unwrap();
    // It may be written to still, but not be taken for safe.
    let _ = file.write_at(&bytes, 0);
    assert!(file.sync_all().is_err(), "a mount that is gone has synced");
    drop(file);
    let back = std::fs::read(places[1].join("f")).unwrap();
    assert!(back[..2 * MIB] == bytes && back[2 * MIB..] == bytes);
    trireme_fuse::kernel::unmount(&places[0], true).unwrap();
    sea.check();
}

/// One way to make a file longer or shorter.
fn resize_somehow(path: &Path, random: &mut Random) {
    let size = random.below(3 * MIB as u64);
    let plain = || OpenOptions::new().write(true).open(path).unwrap();
    let appender = || OpenOptions::new().append(true).open(path).unwrap();
    match random.below(5) {
        0 => appender().set_len(size).unwrap(),
        1 => plain().set_len(size).unwrap(),
        2 => drop(File::create(path).unwrap()),
        3 => _ = rustix::io::write(appender(), &[1; 1000]).unwrap(),
        _ => {
            let file = plain();
            let copy = file.try_clone().unwrap();
            copy.write_all_at(&[2; 100], size).unwrap();
            drop(copy);
            file.write_all_at(&[3; 100], size + 200).unwrap();
        }
    }
}

#[test]
fn sizes_are_right_whoever_cut_and_wrote_at_once() {
    let test = "sizes_are_right_whoever_cut_and_wrote_at_once";
    let Some((sea, places)) = passing(test, 2, &[]) else {
        return;
    };
    let library = sea.client();
    std::fs::write(places[0].join("f"), vec![0; 2 * MIB]).unwrap();
    let mut random = Random::new(support::seed() + 11);
    for round in 0..support::times(15) {
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (path, seed) = (places[number % 2].join("f"), random.below(u64::MAX));
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..=random.below(4) {
                        resize_somehow(&path, &mut random);
                    }
                });
            }
        });
        let file = library.open("/f").unwrap();
        let size = file.size().unwrap();
        for place in &places {
            // As the kernel may believe for a second what it was told before.
            let seen = File::open(place.join("f")).unwrap();
            assert_eq!(seen.metadata().unwrap().len(), size, "round {round}");
        }
        // The manager's word, once it has settled the size.
        wait_until("all have closed it", || {
            library.namespace().stat("/f").unwrap().attr.settled
        });
        let told = library.namespace().stat("/f").unwrap().attr.size;
        assert_eq!(told, size, "round {round}: settled");
    }
    sea.check();
}
