//! Long files that are whole on one server of this host: the kernel reads them by itself, and nobody can tell but by
//! the time it takes.

mod mount_support;
mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;

use mount_support::mapped::Mapped;
use mount_support::passing::{OpenBoth, Stopped, passing, read_all, soon};
use mount_support::{binary, open, sea_in, shell, wait_until};
use support::Random;
use support::small::Small;
use trireme::LayoutWish;

const MIB: usize = 1 << 20;

#[test]
fn long_files_are_read_by_the_kernel_without_the_mount() {
    let test = "long_files_are_read_by_the_kernel_without_the_mount";
    let Some((mut sea, places)) = passing(test, 1, &[]) else {
        return;
    };
    let path = places[0].join("long");
    let bytes = Random::new(1).bytes(4 * MIB + 77);
    // At once after its writer has closed it.
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    let stopped = Stopped::new(sea.process(0));
    // Closing does ask it, so the file comes back.
    let seen = soon(move || (read_all(&file, 5 * MIB), file));
    let (seen, file) = seen.expect("reading asks the mount");
    assert!(seen == bytes);
    let length = bytes.len();
    let last = soon(move || (Mapped::to_read(&file, length).get(length - 1), file));
    let (last, file) = last.expect("a map asks the mount");
    assert_eq!(last, bytes[length - 1]);
    drop(stopped);
    drop(file);
    sea.check();
}

#[test]
fn what_is_read_without_the_mount_is_what_others_write() {
    let test = "what_is_read_without_the_mount_is_what_others_write";
    for options in [&[][..], &["--no-cache"]] {
        let Some((sea, places)) = passing(test, 2, options) else {
            return;
        };
        let (here, there) = (places[0].join("f"), places[1].join("f"));
        let library = sea.client();
        let mut model = Random::new(2).bytes(2 * MIB);
        std::fs::write(&there, &model).unwrap();
        let reader = File::open(&here).unwrap();
        let map = Mapped::to_read(&reader, 2 * MIB);
        let check = |model: &[u8], who: &str| {
            let seen = read_all(&reader, 3 * MIB);
            let wrong = seen.iter().zip(model).position(|(a, b)| a != b);
            assert!(
                seen == model,
                "{who}: {} bytes, wrong at {wrong:?}",
                seen.len()
            );
            assert_eq!(map.get(MIB), model[MIB], "{who}");
        };
        check(&model, "nobody");
        // Each of these is there when the call returns: long writes, too.
        let piece = vec![1; 512 << 10];
        let writer = OpenOptions::new().write(true).open(&here).unwrap();
        for at in [0, MIB, 700_001] {
            writer.write_all_at(&piece, at as u64).unwrap();
            model[at..at + piece.len()].fill(1);
            check(&model, "a writer of this mount");
        }
        let both = open(&here);
        both.write_all_at(&[2; 5000], MIB as u64 - 77).unwrap();
        model[MIB - 77..][..5000].fill(2);
        check(&model, "who reads and writes");
        assert!(read_all(&both, 3 * MIB) == model);
        let changed = Mapped::of(&both, 2 * MIB);
        changed.put(MIB, 3);
        model[MIB] = 3;
        check(&model, "who has mapped it");
        let appender = OpenOptions::new().append(true).open(&here).unwrap();
        rustix::io::write(&appender, b"more").unwrap();
        model.extend_from_slice(b"more");
        check(&model, "who appends");
        let other = OpenOptions::new().write(true).open(&there).unwrap();
        other.write_all_at(&[4; 3], MIB as u64).unwrap();
        other.sync_all().unwrap();
        model[MIB..MIB + 3].fill(4);
        check(&model, "another mount");
        let file = library.open_with("/f").unwrap();
        file.write_at(&[5; 3], MIB as u64).unwrap();
        file.close().unwrap();
        model[MIB..MIB + 3].fill(5);
        check(&model, "the library");
        both.set_len((MIB + 100) as u64).unwrap();
        model.truncate(MIB + 100);
        check(&model, "who cuts it");
        assert_eq!(reader.metadata().unwrap().len(), model.len() as u64);
        other.set_len((2 * MIB) as u64).unwrap();
        model.resize(2 * MIB, 0);
        check(&model, "who makes it longer");
        // Any alignment.
        let direct = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECT)
            .open(&here);
        let mut some = vec![0; 1001];
        direct.unwrap().read_exact_at(&mut some, 777).unwrap();
        assert!(some == model[777..1778]);
        drop((writer, both, appender, other, changed));
        check(&model, "when all have closed it");
        drop((map, reader));
        // Now through the kernel's cache of this mount.
        let seen = read_all(&open(&here), 3 * MIB);
        let wrong = seen.iter().zip(&model).position(|(a, b)| a != b);
        assert!(seen == model, "{} bytes, wrong at {wrong:?}", seen.len());
        sea.check();
    }
}

#[test]
fn times_of_files_that_the_kernel_reads_are_kept() {
    let test = "times_of_files_that_the_kernel_reads_are_kept";
    let Some((_sea, places)) = passing(test, 2, &[]) else {
        return;
    };
    let path = places[0].join("f");
    let times = |path: &Path| {
        let data = path.metadata().unwrap();
        let time = |seconds, nanos| (seconds, nanos);
        (
            time(data.atime(), data.atime_nsec()),
            time(data.mtime(), data.mtime_nsec()),
        )
    };
    std::fs::write(&path, vec![7; 2 * MIB]).unwrap();
    let before = times(&path);
    let quiet = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOATIME)
        .open(&path);
    let quiet = quiet.unwrap();
    read_all(&quiet, 100);
    assert_eq!(times(&path), before, "O_NOATIME");
    drop(quiet);
    let file = File::open(&path).unwrap();
    assert_eq!(times(&path), before, "opening is not reading");
    read_all(&file, 100);
    let read = times(&path);
    assert!(read.0 > before.0 && read.1 == before.1);
    drop(file);
    assert_eq!(times(&path), read);
    wait_until("the other mount hears of it", || {
        times(&places[1].join("f")) == read
    });
    // By the rule of `relatime` once is enough, until the file changes in any way.
    read_all(&File::open(&path).unwrap(), 100);
    assert_eq!(times(&path), read);
    shell(&places[0], "chmod 600 f");
    read_all(&File::open(&path).unwrap(), 100);
    let again = times(&path);
    assert!(again.0 > read.0 && again.1 == read.1);
    // What was written through a map.
    let reader = File::open(&path).unwrap();
    let both = open(&path);
    shell(&places[0], "touch -m -d @1000 f");
    assert_eq!(times(&path).1, (1000, 0));
    let map = Mapped::of(&both, 2 * MIB);
    map.put(5, 8);
    map.sync();
    let written = times(&path).1;
    assert!(written > again.1);
    drop((map, both));
    assert_eq!(times(&path).1, written);
    wait_until("the other mount hears of that", || {
        times(&places[1].join("f")).1 == written
    });
    drop(reader);
}

#[test]
fn new_files_of_a_mount_are_whole_where_servers_share_a_disk() {
    let test = "new_files_of_a_mount_are_whole_where_servers_share_a_disk";
    let Some((mut sea, places)) = passing(test, 1, &[]) else {
        return;
    };
    let striped = sea.mount(&["--striped"]);
    let library = sea.client();
    let servers = |path: &str| {
        let entry = library.namespace().stat(path).unwrap();
        entry.layout.unwrap().servers
    };
    let mut used = std::collections::BTreeSet::new();
    for number in 0..6 {
        let name = format!("whole{number}");
        std::fs::write(places[0].join(&name), "x").unwrap();
        let on = servers(&format!("/{name}"));
        assert_eq!(on.len(), 1);
        used.extend(on);
    }
    assert_eq!(used.len(), 3, "all servers have some of them: {used:?}");
    shell(
        &places[0],
        "mknod node p; touch touched; cp touched copied; ln copied linked",
    );
    assert_eq!(servers("/copied").len(), 1);
    std::fs::write(striped.join("spread"), "x").unwrap();
    assert_eq!(servers("/spread").len(), 3);
    library.create("/by-library").unwrap().close().unwrap();
    assert_eq!(servers("/by-library").len(), 3);
    // What a directory hands down counts, whatever it is.
    for (name, wish, count) in [
        (
            "two",
            LayoutWish {
                count: Some(2),
                ..LayoutWish::default()
            },
            2,
        ),
        (
            "unit",
            LayoutWish {
                unit: Some(4096),
                ..LayoutWish::default()
            },
            3,
        ),
    ] {
        std::fs::create_dir(places[0].join(name)).unwrap();
        library
            .namespace()
            .set_layout(format!("/{name}"), wish)
            .unwrap();
        std::fs::write(places[0].join(name).join("f"), "x").unwrap();
        assert_eq!(servers(&format!("/{name}/f")).len(), count);
    }
    // Their disk is counted once.
    let disk = rustix::fs::statvfs(sea.local.dir()).unwrap();
    let shown = rustix::fs::statvfs(&places[0]).unwrap();
    assert_eq!(
        shown.f_blocks * shown.f_frsize,
        disk.f_blocks * disk.f_frsize
    );
    sea.check();
}

#[test]
fn disks_that_the_kernel_does_not_take_are_used_by_the_mount() {
    let test = "disks_that_the_kernel_does_not_take_are_used_by_the_mount";
    let (dir, base) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let over = Small::laid_over(dir.path().join("cluster"), base.path());
    let Some(_over) = over else {
        support::skip(
            test,
            "a file system over another one cannot be mounted here",
        );
        return;
    };
    let Some(mut sea) = sea_in(test, dir, 3) else {
        return;
    };
    let (one, other) = (sea.mount(&[]), sea.mount(&[]));
    let library = sea.client();
    let bytes = Random::new(11).bytes(3 * MIB + 5);
    for name in ["first", "second"] {
        std::fs::write(one.join(name), &bytes).unwrap();
        assert!(std::fs::read(other.join(name)).unwrap() == bytes);
        let map = Mapped::of(&open(&other.join(name)), bytes.len());
        map.put(1, 77);
        map.sync();
        drop(map);
        assert_eq!(std::fs::read(one.join(name)).unwrap()[1], 77);
    }
    // Nothing is won by having them whole.
    let second = library.namespace().stat("/second").unwrap();
    assert_eq!(second.layout.unwrap().servers.len(), 3);
    sea.check();
}

/// One way to open and use a file that others use in other ways.
fn use_somehow(path: &Path, random: &mut Random) {
    let mut options = OpenOptions::new();
    match random.below(6) {
        0 => options.read(true).write(true),
        1 => options.write(true),
        2 => options.append(true),
        3 => options.read(true).custom_flags(libc::O_DIRECT),
        _ => options.read(true),
    };
    let file = options
        .open(path)
        .unwrap_or_else(|error| panic!("{options:?}: {error}"));
    let mut bytes = [0; 100];
    let at = random.below(MIB as u64);
    let flags = rustix::fs::fcntl_getfl(&file).unwrap();
    match flags & rustix::fs::OFlags::RWMODE {
        rustix::fs::OFlags::RDONLY => {
            file.read_exact_at(&mut bytes, at).unwrap();
            if random.below(3) == 0 {
                Mapped::to_read(&file, MIB).get(at as usize);
            }
        }
        rustix::fs::OFlags::WRONLY => _ = rustix::io::pwrite(&file, &bytes, at).unwrap(),
        _ => {
            file.write_all_at(&bytes, at).unwrap();
            if random.below(3) == 0 {
                Mapped::of(&file, MIB).put(at as usize, 0);
            }
        }
    }
    if random.below(4) == 0 {
        drop(file.as_fd().try_clone_to_owned().unwrap());
    }
}

#[test]
fn a_crowd_may_open_a_file_in_all_ways_at_once() {
    let test = "a_crowd_may_open_a_file_in_all_ways_at_once";
    let Some((sea, places)) = passing(test, 2, &[]) else {
        return;
    };
    std::fs::write(places[0].join("f"), vec![0; 2 * MIB]).unwrap();
    std::thread::scope(|scope| {
        for number in 0..6 {
            let path = places[number % 2].join("f");
            scope.spawn(move || {
                let mut random = Random::new(support::seed() + number as u64);
                for _ in 0..support::times(300) {
                    use_somehow(&path, &mut random);
                }
            });
        }
    });
    let bytes = std::fs::read(places[0].join("f")).unwrap();
    assert!(bytes.len() >= 2 * MIB && bytes.iter().all(|byte| *byte == 0));
    sea.check();
}

#[test]
fn programs_run_from_files_that_the_kernel_reads() {
    let test = "programs_run_from_files_that_the_kernel_reads";
    let Some((sea, places)) = passing(test, 1, &[]) else {
        return;
    };
    let program = places[0].join("program");
    // By another process: those that tests beside this one start would have it open for a moment, and it be busy.
    shell(&places[0], &format!("cp {} program", binary()));
    std::thread::scope(|scope| {
        // Goes with this, also if something fails.
        let (_going_on, over) = mpsc::channel::<()>();
        let path = &program;
        scope.spawn(move || {
            while over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                std::fs::read(path).unwrap();
            }
        });
        for _ in 0..20 {
            let output = Command::new(&program).arg("--version").output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    });
    sea.check();
}

#[test]
fn reading_goes_on_without_servers_and_ends_with_nothing_left() {
    let test = "reading_goes_on_without_servers_and_ends_with_nothing_left";
    let Some((mut sea, places)) = passing(test, 1, &["--timeout", "20"]) else {
        return;
    };
    let path = places[0].join("f");
    let bytes = Random::new(5).bytes(3 * MIB);
    std::fs::write(&path, &bytes).unwrap();
    let file = File::open(&path).unwrap();
    for server in 0..3 {
        sea.local.kill_server(server);
    }
    assert!(read_all(&file, 4 * MIB) == bytes);
    for server in 0..3 {
        sea.local.restart_server(server).unwrap();
    }
    assert!(read_all(&file, 4 * MIB) == bytes);
    // Removed, and still read by who has it.
    std::fs::remove_file(&path).unwrap();
    assert!(read_all(&file, 4 * MIB) == bytes);
    drop(file);
    wait_until("its bytes are gone", || {
        sea.client().namespace().reap().unwrap() == 0
    });
    // A mount that is killed takes nobody with it.
    std::fs::write(places[0].join("g"), &bytes).unwrap();
    let file = File::open(places[0].join("g")).unwrap();
    sea.process(0).kill().unwrap();
    sea.process(0).wait().unwrap();
    let seen = soon(move || file.read_exact_at(&mut [0; 100], 0).is_ok());
    assert!(
        seen.is_some(),
        "who reads waits for a mount that was killed"
    );
    trireme_fuse::kernel::unmount(&places[0], true).unwrap();
    sea.check();
}
