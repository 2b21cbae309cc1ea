//! Files that are whole on one server of this host: the kernel reads and writes them by itself, and nobody can tell
//! but by the time it takes.

mod mount_support;
mod support;

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use mount_support::mapped::Mapped;
use mount_support::{Sea, binary, open, sea, sea_in, shell, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use support::Random;
use support::small::Small;
use trireme::{LayoutWish, Part};

const MIB: usize = 1 << 20;

/// A cluster, and mounts of it with these options; `None`, said aloud, where kernels pass nothing on.
fn passing(test: &str, mounts: usize, options: &[&str]) -> Option<(Sea, Vec<PathBuf>)> {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|word| word.parse().unwrap_or(0u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 9) || !rustix::process::geteuid().is_root() {
        support::skip(test, "needs Linux 6.9 and root");
        return None;
    }
    // It would take that away again.
    if std::env::var("TRIREME_TEST_MOUNT").is_ok_and(|more| more.contains("--striped")) {
        support::skip(test, "the mounts are told to spread files");
        return None;
    }
    let mut sea = sea(test, 3)?;
    let places = (0..mounts).map(|_| sea.mount(options)).collect();
    Some((sea, places))
}

/// A process that does nothing while this lives.
struct Stopped(Pid);

impl Stopped {
    fn new(child: &Child) -> Stopped {
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP).unwrap();
        wait_until("it has stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        });
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// What `act` gives, if that takes less than some seconds.
fn soon<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(act()));
    told.recv_timeout(Duration::from_secs(10)).ok()
}

fn read_all(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut at = 0;
    while at < length {
        match file.read_at(&mut bytes[at..], at as u64).unwrap() {
            0 => break,
            got => at += got,
        }
    }
    bytes.truncate(at);
    bytes
}

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

trait OpenBoth {
    fn open_with(&self, path: &str) -> trireme::Result<trireme::File>;
}

impl OpenBoth for trireme::Cluster {
    fn open_with(&self, path: &str) -> trireme::Result<trireme::File> {
        let mut options = trireme::OpenOptions::new();
        options.read(true).write(true).open(self, path)
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
    std::fs::copy(binary(), &program).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::read(&program).unwrap();
            }
        });
        for _ in 0..20 {
            let output = Command::new(&program).arg("--version").output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
        stop.store(true, Ordering::Relaxed);
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
        let later = |data: &std::fs::Metadata| (data.mtime(), data.mtime_nsec());
        assert!(later(&now) >= later(&before), "line {number}");
        assert_eq!(path.metadata().unwrap().len(), number * 7);
        drop(copy);
        before = now;
        if number % 5 == 0 {
            // Nothing of it changes, but that it was written.
            file.write_all_at(b"A", 0).unwrap();
            file.sync_all().unwrap();
            assert!(
                later(&there.metadata().unwrap()) > later(&before),
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
