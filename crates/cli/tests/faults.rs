//! Servers that die, stop, fill up or lose their memory: what was acknowledged stays, and nobody hangs.

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use support::small::Small;
use support::{Random, world, world_in};
use trireme::{LayoutWish, OpenOptions, Options};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const ETIMEDOUT: i32 = 110;

fn layout(unit: u64) -> LayoutWish {
    LayoutWish {
        unit: Some(unit),
        first: Some(0),
        ..LayoutWish::default()
    }
}

#[test]
fn two_hundred_kills_in_the_middle_of_writes_lose_nothing_acknowledged() {
    const CLIENTS: u64 = 4;
    const REGION: u64 = 400_000;
    const WRITES_PER_KILL: u64 = 1000;
    let mut world = world(4);
    let kills = support::times(200);
    let stop = AtomicBool::new(false);
    let writes = AtomicU64::new(0);
    let options = Options {
        deadline: Duration::from_mins(1),
        ..Options::default()
    };
    let clients: Vec<_> = (0..CLIENTS).map(|_| world.client_with(options)).collect();
    let models: Vec<Vec<u8>> = std::thread::scope(|scope| {
        let handles: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(number, client)| {
                let (stop, writes) = (&stop, &writes);
                scope.spawn(move || {
                    let file = OpenOptions::new()
                        .read(true)
                        .write(true)
                        .create(true)
                        .layout(layout(4096))
                        .open(client, "/killed")
                        .unwrap();
                    // Half of them write through the sockets, half of them what was lent.
                    let mut transfer = file.transfer();
                    transfer.lend = number % 2 == 0;
                    file.set_transfer(transfer);
                    let mut random = Random::new(support::seed() + number as u64 + 1);
                    let mut model = vec![0; REGION as usize];
                    let base = number as u64 * REGION;
                    let _stop_all = StopOnPanic(stop);
                    while !stop.load(Ordering::Relaxed) {
                        let at = random.below(REGION - 1);
                        let length = random.size(100_000).min(REGION - at) as usize;
                        let data = random.bytes(length);
                        let begin = Instant::now();
                        file.write_at(&data, base + at).unwrap();
                        // The longest absence, and five seconds to serve again.
                        assert!(begin.elapsed() < Duration::from_secs(8), "served too late");
                        model[at as usize..at as usize + length].copy_from_slice(&data);
                        if writes.fetch_add(1, Ordering::Relaxed) % 64 == 0 {
                            file.sync().unwrap();
                        }
                        if random.below(4) == 0 {
                            let mut back = vec![0; length];
                            let _ = file.read_at(&mut back, base + at).unwrap();
                            assert!(back == data, "client {number}: a write was lost at {at}");
                        }
                    }
                    model
                })
            })
            .collect();
        let mut random = Random::new(support::seed() + 99);
        let written = |goal: u64| {
            while writes.load(Ordering::Relaxed) < goal && !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        for kill in 0..kills {
            // One at a random moment of each thousand writes, not of a time: the same on any machine.
            written(kill * WRITES_PER_KILL + random.below(WRITES_PER_KILL));
            // One in ten is the manager.
            if kill % 10 == 9 {
                world.local.kill_manager();
                world.local.restart_manager().unwrap();
            } else {
                let server = random.below(4) as usize;
                world.local.kill_server(server);
                // Mostly back soon; now and then it takes up to three seconds.
                let away = if kill % 40 == 5 { 3000 } else { 40 };
                std::thread::sleep(Duration::from_millis(random.below(away)));
                world.local.restart_server(server).unwrap();
            }
        }
        written(kills * WRITES_PER_KILL);
        stop.store(true, Ordering::Relaxed);
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .collect()
    });
    let file = world.client().open("/killed").unwrap();
    for (number, model) in models.iter().enumerate() {
        let mut back = vec![0; model.len()];
        let _ = file.read_at(&mut back, number as u64 * REGION).unwrap();
        assert!(
            back == *model,
            "client {number}: an acknowledged byte is lost"
        );
    }
    let writes = writes.into_inner();
    println!("{kills} kills, {writes} acknowledged writes");
    assert!(writes >= kills * WRITES_PER_KILL, "{writes}");
}

/// One failed thread ends the others, so that the failure is what is seen.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

#[test]
fn a_stopped_server_costs_the_deadline_and_its_late_writes_change_nothing() {
    let world = world(3);
    let patient = world.client();
    let options = Options {
        deadline: Duration::from_millis(700),
        ..Options::default()
    };
    let hasty = world.client_with(options);
    let file = |cluster: &trireme::Cluster, path: &str, first: u32| {
        let layout = LayoutWish {
            unit: Some(4096),
            servers: Some(vec![first]),
            ..LayoutWish::default()
        };
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .layout(layout)
            .open(cluster, path)
    };
    let on_one = file(&hasty, "/one", 1).unwrap();
    let mut asked = on_one.transfer();
    asked.lend = false;
    on_one.set_transfer(asked);
    let on_two = file(&patient, "/two", 2).unwrap();
    on_one.write_at(&[1; 9000], 0).unwrap();
    for round in 0..5u8 {
        let process = &world.local.servers()[1];
        process.signal(Signal::STOP);
        support::wait_until_stopped(process.pid());
        let begin = Instant::now();
        // Small ones wait in the socket's buffer until the server goes on.
        let error = on_one.write_at(&[100 + round; 3000], 0).unwrap_err();
        assert_eq!(error.errno(), ETIMEDOUT, "{error}");
        assert!(error.to_string().contains("server 1"), "{error}");
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(5), "took {took:?}");
        on_two.write_at(&[round; 3000], 0).unwrap();
        process.signal(Signal::CONT);
        // The server now finds the abandoned write in its socket; what comes after must win.
        on_one.write_at(&[2 + round; 3000], 0).unwrap();
        let mut back = [0; 3000];
        for _ in 0..20 {
            on_one.read_exact_at(&mut back, 0).unwrap();
            assert!(back == [2 + round; 3000], "an abandoned write came through");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_dead_server_is_an_error_that_names_it_and_other_files_go_on() {
    let mut world = world(3);
    let options = Options {
        deadline: Duration::from_millis(500),
        ..Options::default()
    };
    let cluster = world.client_with(options);
    let open = |path: &str, server: u32| {
        let layout = LayoutWish {
            unit: Some(4096),
            servers: Some(vec![server]),
            ..LayoutWish::default()
        };
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .layout(layout)
            .open(&cluster, path)
    };
    let (dead, alive) = (open("/dead", 0).unwrap(), open("/alive", 1).unwrap());
    dead.write_at(b"before", 0).unwrap();
    world.local.kill_server(0);
    let error = dead.write_at(&vec![1; 100_000], 0).unwrap_err();
    assert!(
        error.to_string().contains("server 0") && error.to_string().contains("trireme"),
        "{error}"
    );
    assert!(dead.read_at(&mut [0; 6], 0).is_err());
    assert!(dead.size().is_err());
    alive.write_at(&vec![1; 100_000], 0).unwrap();
    world.local.restart_server(0).unwrap();
    let mut back = [0; 6];
    dead.read_exact_at(&mut back, 0).unwrap();
    assert_eq!(&back, b"before", "the same client uses the server again");
}

#[test]
fn sync_says_so_when_a_server_lost_its_memory() {
    let mut world = world(2);
    let cluster = world.client();
    for run in 0..support::times(200) {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .layout(layout(4096))
            .open(&cluster, format!("/lost-{run}"))
            .unwrap();
        file.write_at(&vec![1; 20_000], 0).unwrap();
        if run % 2 == 0 {
            file.sync().unwrap();
            file.write_at(&vec![2; 20_000], 0).unwrap();
        }
        // The machine of server 1 loses power: another boot, and what was not synced is gone.
        world.local.kill_server(1);
        let label = world.local.dir().join("io1/trireme-store");
        let text = std::fs::read_to_string(&label).unwrap();
        let boot = text.lines().find(|line| line.starts_with("boot")).unwrap();
        std::fs::write(&label, text.replace(boot, "boot = another")).unwrap();
        world.local.restart_server(1).unwrap();
        let error = file.sync().expect_err("sync lied");
        assert_eq!(error.errno(), EIO, "{error}");
        // Said once; written again, it is durable.
        file.write_at(&vec![3; 20_000], 0).unwrap();
        file.sync().unwrap();
        // And a killed process alone loses nothing: the page cache lives on.
        file.write_at(&vec![4; 20_000], 0).unwrap();
        world.local.kill_server(0);
        world.local.restart_server(0).unwrap();
        file.sync().unwrap();
        let mut back = vec![0; 20_000];
        file.read_exact_at(&mut back, 0).unwrap();
        assert!(back == vec![4; 20_000]);
    }
}

#[test]
fn the_space_of_a_removed_file_comes_back_while_its_last_user_is_idle() {
    let dir = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(dir.path().join("io0"), 64) else {
        support::skip("idle user", "mounting a small file system needs root");
        return;
    };
    let world = world_in(dir, 1);
    let cluster = world.client();
    let data = Random::new(5).bytes(1 << 20);
    let file = cluster.create("/large").unwrap();
    for piece in 0..40 {
        file.write_at(&data, piece << 20).unwrap();
    }
    drop(file);
    cluster.namespace().unlink("/large").unwrap();
    let free = || {
        let status = cluster.status().unwrap();
        status[0].space.as_ref().map_or(0, |space| space.1)
    };
    let begin = Instant::now();
    while free() < 45 << 20 {
        let waited = begin.elapsed();
        assert!(
            waited < Duration::from_secs(30),
            "{} bytes are free",
            free()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_is_enospc_to_the_writer_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(dir.path().join("io1"), 64) else {
        support::skip("full disk", "mounting a small file system needs root");
        return;
    };
    std::fs::create_dir_all(dir.path().join("io0")).unwrap();
    let world = world_in(dir, 2);
    let cluster = world.client();
    let data: Vec<u8> = Random::new(5).bytes(1 << 20);
    for round in 0..20 {
        let mut full = 0;
        std::thread::scope(|scope| {
            let results: Vec<_> = (0..4)
                .map(|client| {
                    let (cluster, data) = (&cluster, &data);
                    scope.spawn(move || {
                        let mut written = Vec::new();
                        for number in 0..100 {
                            let path = format!("/full-{client}-{number}");
                            let file = cluster.create(&path).unwrap();
                            match file.write_at(data, 0) {
                                Ok(()) => written.push(path),
                                Err(error) => {
                                    assert_eq!(error.errno(), ENOSPC, "{error}");
                                    cluster.namespace().unlink(&path).unwrap();
                                    return (written, true);
                                }
                            }
                        }
                        (written, false)
                    })
                })
                .collect();
            for result in results {
                let (written, hit) = result.join().unwrap();
                full += u32::from(hit);
                for path in &written {
                    let mut back = vec![0; data.len()];
                    cluster
                        .open(path)
                        .unwrap()
                        .read_exact_at(&mut back, 0)
                        .unwrap();
                    assert!(back == data, "round {round}: {path} was acknowledged");
                }
                for path in &written {
                    cluster.namespace().unlink(path).unwrap();
                }
            }
        });
        assert!(full > 0, "round {round}: the disk never filled");
        // Space comes back without a restart; removal of subfiles is the manager's, so wait for it.
        let begin = Instant::now();
        loop {
            let free = cluster.status().unwrap()[1]
                .space
                .as_ref()
                .map_or(0, |space| space.1);
            if free > 45 << 20 {
                break;
            }
            assert!(
                begin.elapsed() < Duration::from_mins(2),
                "only {free} bytes came back"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    println!("20 rounds on a full {}", small.kind);
}

/// Uses up all room on a file system but `leave` bytes.
fn fill(path: &std::path::Path, leave: u64) {
    let file = std::fs::File::create(path).unwrap();
    let mut taken = 0;
    for part in [4 << 20, 256 << 10, 16 << 10, 4096] {
        loop {
            let stat = rustix::fs::statvfs(path).unwrap();
            let free = stat.f_bavail * stat.f_frsize;
            let flags = rustix::fs::FallocateFlags::empty();
            if free < leave + part || rustix::fs::fallocate(&file, flags, taken, part).is_err() {
                break;
            }
            taken += part;
        }
    }
}

/// As where a whole cluster is started in one directory: whoever fills the disk fills the manager's, too.
#[test]
fn files_can_be_removed_from_a_disk_that_is_full_for_the_manager_too() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(dir.path().join("disk"), 384) else {
        let test = "files_can_be_removed_from_a_disk_that_is_full_for_the_manager_too";
        support::skip(test, "mounting a small file system needs root");
        return;
    };
    for part in ["meta", "io0"] {
        std::fs::create_dir(small.at.join(part)).unwrap();
        std::os::unix::fs::symlink(small.at.join(part), dir.path().join(part)).unwrap();
    }
    let world = world_in(dir, 1);
    let cluster = world.client();
    let data = Random::new(5).bytes(4 << 20);
    for round in 0..5 {
        let mut made = Vec::new();
        let error = loop {
            let path = format!("/f{round}-{}", made.len());
            match cluster.create(&path) {
                Ok(file) => {
                    made.push(path);
                    if let Err(error) = file.write_at(&data, 0) {
                        break error;
                    }
                }
                Err(error) => break error,
            }
        };
        assert_eq!(error.errno(), ENOSPC, "round {round}: {error}");
        assert!(made.len() > 10, "round {round}: {} files", made.len());
        // To the last block, by somebody else.
        let filler = small.at.join("filler");
        fill(&filler, 0);
        for path in made {
            let removed = cluster.namespace().unlink(&path);
            removed.unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        std::fs::remove_file(&filler).unwrap();
        let free = || {
            let status = cluster.status().unwrap();
            status[0].space.as_ref().map_or(0, |space| space.1)
        };
        let begin = Instant::now();
        // The manager looks at its disk now and then.
        let path = format!("/after{round}");
        while free() < 200 << 20 || cluster.create(&path).is_err() {
            let waited = begin.elapsed();
            assert!(waited < Duration::from_mins(1), "{} bytes are free", free());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_full_disk_of_the_manager_is_enospc_loses_nothing_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let Some(small) = Small::mount(dir.path().join("meta"), 192) else {
        support::skip(
            "full manager disk",
            "mounting a small file system needs root",
        );
        return;
    };
    let filler = small.at.join("filler");
    // Nor can what goes wrong then be logged.
    std::os::unix::fs::symlink("/dev/full", dir.path().join("meta.log")).unwrap();
    let world = world_in(dir, 1);
    let options = Options {
        deadline: Duration::from_secs(5),
        ..Options::default()
    };
    let cluster = world.client_with(options);
    let mut made = Vec::new();
    for round in 0..20 {
        // Nearly full as the manager sees it, and full to the last block.
        fill(&filler, if round % 2 == 0 { 8 << 20 } else { 0 });
        let begin = Instant::now();
        let mut number = 0;
        loop {
            assert!(begin.elapsed() < Duration::from_mins(1), "it never filled");
            let path = format!("/made-{round}-{number}");
            number += 1;
            match cluster.create(&path) {
                Ok(_) => made.push(path),
                Err(error) => {
                    assert_eq!(error.errno(), ENOSPC, "round {round}: {error}");
                    break;
                }
            }
        }
        std::fs::remove_file(&filler).unwrap();
        // It goes on by itself once there is room.
        let begin = Instant::now();
        let path = format!("/after-{round}");
        while let Err(error) = cluster.create(&path) {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "round {round}: still full: {error}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        made.push(path);
        // All that was acknowledged is there; half of it goes.
        for path in &made {
            cluster
                .stat(path)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
        }
        for path in made.drain(..made.len() / 2) {
            cluster.namespace().unlink(&path).unwrap();
        }
    }
    println!("20 rounds on a full {} of the manager", small.kind);
}
