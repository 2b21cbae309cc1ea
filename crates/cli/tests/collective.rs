//! Collectives of real processes: their memory moved by the kernel or over TCP, and members and servers
//! that die at every stage.

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use support::{World, world};
use trireme::{Cluster, Collective, File, Group, LayoutWish, Method, OpenOptions, Options, Part};
use trireme_partition::Partition;

/// Set for the processes that this test starts from itself: what they are to do.
const MEMBER: &str = "TRIREME_TEST_MEMBER";

/// Short enough for a test, long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(20);

fn options(network_only: bool) -> Options {
    Options {
        deadline: DEADLINE,
        network_only,
        ..Options::default()
    }
}

fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

fn bytes_of(part: &Part) -> Vec<u8> {
    let mut bytes = vec![0; part.size() as usize];
    for run in part.runs(part.file_span()) {
        for i in 0..run.len {
            bytes[(run.view + i) as usize] = content(run.file + i);
        }
    }
    bytes
}

fn open(cluster: &Cluster, path: &str) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(LayoutWish {
            unit: Some(10_000),
            ..LayoutWish::default()
        })
        .open(cluster, path)
        .unwrap()
}

/// Starts this very test program as one member in a process of its own.
fn member(world: &World, what: &str, group: &str, rank: u32, size: u32, network: bool) -> Child {
    let descriptor = world.local.dir();
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_member", "--nocapture"])
        .env(MEMBER, format!("{what}|{group}|{rank}|{size}|{network}"))
        .env("TRIREME_CLUSTER", descriptor)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Not a test: what member processes do.
#[test]
fn a_member() {
    let Ok(text) = std::env::var(MEMBER) else {
        return;
    };
    let words: Vec<&str> = text.split('|').collect();
    let [what, name, rank, size, network] = words[..] else {
        panic!("{text}");
    };
    let (rank, size): (u32, u32) = (rank.parse().unwrap(), size.parse().unwrap());
    let descriptor = trireme::Descriptor::find().unwrap();
    let cluster = Cluster::connect(&descriptor, options(network == "true")).unwrap();
    let group = Group::join(&cluster, name, rank, size).unwrap();
    match what {
        "patterns" => patterns(&cluster, &group),
        // Joins, and is killed.
        "joined" => std::thread::sleep(DEADLINE * 3),
        // Takes part in the collective that the test makes, and is killed while it does.
        "write" => {
            let file = open(&cluster, "/killed");
            let part = big_part(rank, size);
            let _ = group.write_all(&file, &part, &bytes_of(&part));
        }
        other => panic!("{other}"),
    }
}

fn patterns(cluster: &Cluster, group: &Group) {
    let size = group.size();
    for method in Method::ALL {
        for (name, record, bytes) in [
            ("rcc", 8, 1 << 20),
            ("wbb", 64, 3 << 20),
            ("ra", 100, 400_000),
            ("wc", 5000, 2_000_000),
        ] {
            let partition = Partition::named(name, record, bytes, size).unwrap();
            let part = partition.part(group.rank()).unwrap();
            let file = open(cluster, &format!("/{name}-{method}"));
            let collective = Collective::new(&file, group)
                .view(part.clone())
                .method(method);
            let mine = bytes_of(&part);
            collective.write(&mine).unwrap();
            let mut back = vec![0; mine.len()];
            collective.read(&mut back).unwrap();
            assert!(back == mine, "{name} {method}");
            group.barrier().unwrap();
            let mut all = vec![0; bytes as usize];
            file.read_exact_at(&mut all, 0).unwrap();
            let wrong = (0..bytes).find(|at| all[*at as usize] != content(*at));
            assert_eq!(wrong, None, "{name} {method}");
        }
    }
}

#[test]
fn processes_threads_and_the_network_mixed() {
    let world = world(3);
    let group = "mixed";
    // Ranks 0 and 1 are processes on this host, 2 and 3 reach it over TCP, 4 is a thread of this process.
    let processes: Vec<Child> = (0..4)
        .map(|rank| member(&world, "patterns", group, rank, 5, rank >= 2))
        .collect();
    let cluster = world.client_with(options(false));
    patterns(&cluster, &Group::join(&cluster, group, 4, 5).unwrap());
    for mut process in processes {
        assert!(process.wait().unwrap().success());
    }
}

#[test]
fn who_never_comes_is_named() {
    let world = world(2);
    let quick = Options {
        deadline: Duration::from_millis(700),
        ..Options::default()
    };
    std::thread::scope(|scope| {
        for rank in [0, 2] {
            let world = &world;
            scope.spawn(move || {
                let cluster = world.client_with(quick);
                let error = Group::join(&cluster, "lonely", rank, 4).unwrap_err();
                let error = error.to_string();
                assert!(error.contains("member"), "{error}");
                assert!(error.contains("did not come"), "{error}");
            });
        }
    });
    // All come to the group, and one does not come to the collective.
    std::thread::scope(|scope| {
        for rank in 0..3 {
            let world = &world;
            scope.spawn(move || {
                let cluster = world.client_with(quick);
                let slow = cluster.with_options(options(false));
                let group = Group::join(&slow, "late", rank, 3).unwrap();
                let file = open(&cluster, "/late");
                if rank == 1 {
                    // Alive, but elsewhere until the others have given up.
                    while !file_exists(&slow, "/given-up-0") || !file_exists(&slow, "/given-up-2") {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                } else {
                    let part = Part::contiguous(u64::from(rank) * 10, 10).unwrap();
                    let error = group.write_all(&file, &part, &[1; 10]).unwrap_err();
                    assert!(
                        error.to_string().contains("member 1 did not come"),
                        "{error}"
                    );
                    slow.create(format!("/given-up-{rank}")).unwrap();
                }
            });
        }
    });
}

fn file_exists(cluster: &Cluster, path: &str) -> bool {
    cluster.stat(path).is_ok()
}

/// A member's part of something large, in records of 1000 bytes.
fn big_part(rank: u32, size: u32) -> Part {
    let records = 60_000;
    Part::strided(
        u64::from(rank) * 1000,
        1000,
        1000 * u64::from(size) + 500,
        records,
    )
    .unwrap()
}

/// Every byte is what it was before, or its owner's; bytes without an owner are what they were.
fn check_damage(file: &File, size: u32) {
    let parts: Vec<Part> = (0..size).map(|rank| big_part(rank, size)).collect();
    let end = parts.iter().map(|part| part.file_span().end).max().unwrap();
    let mut bytes = vec![0; end as usize];
    let got = file.read_at(&mut bytes, 0).unwrap();
    bytes[got..].fill(0);
    let mut owned = vec![false; end as usize];
    for run in parts.iter().flat_map(|part| part.runs(part.file_span())) {
        owned[run.file as usize..(run.file + run.len) as usize].fill(true);
    }
    for (at, byte) in bytes.iter().enumerate() {
        assert!(
            *byte == 0 || (owned[at] && *byte == content(at as u64)),
            "byte {at} is {byte}, owned: {}",
            owned[at]
        );
    }
}

/// The others' side while member 0 is killed: an error that names it, in time, and no damage.
fn survive(world: &World, name: &str, size: u32, before: impl Fn() + Sync) -> Vec<String> {
    let size_others = size - 1;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=size_others)
            .map(|rank| {
                let before = &before;
                scope.spawn(move || {
                    let cluster = world.client_with(options(false));
                    let group = match Group::join(&cluster, name, rank, size) {
                        Ok(group) => group,
                        Err(error) => return error.to_string(),
                    };
                    let file = open(&cluster, "/killed");
                    before();
                    let part = big_part(rank, size);
                    let started = Instant::now();
                    let result = group.write_all(&file, &part, &bytes_of(&part));
                    assert!(started.elapsed() < DEADLINE * 2, "within the deadline");
                    match result {
                        Ok(_) => String::new(),
                        Err(error) => error.to_string(),
                    }
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    })
}

fn names_member_0(errors: &[String]) {
    for error in errors {
        assert!(error.contains("member 0"), "{errors:?}");
    }
}

/// Member 0 is killed, wherever it is, when the others are about to call; then they do.
fn kill_before_the_others_call(world: &World, what: &str, network: bool) {
    let name = format!("{what} {network}");
    let mut victim = member(world, what, &name, 0, 3, network);
    let killed = AtomicBool::new(false);
    let waiting = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            survive(world, &name, 3, || {
                waiting.fetch_add(1, Ordering::SeqCst);
                while !killed.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
            })
        });
        while waiting.load(Ordering::SeqCst) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        killed.store(true, Ordering::SeqCst);
        names_member_0(&others.join().unwrap());
    });
    check_damage(&open(&world.client(), "/killed"), 3);
}

#[test]
fn a_member_killed_after_joining() {
    kill_before_the_others_call(&world(2), "joined", false);
}

#[test]
fn a_member_killed_while_it_waits_for_the_others() {
    let world = world(2);
    for network in [false, true] {
        // It may be anywhere between opening the file and waiting at the servers.
        kill_before_the_others_call(&world, "write", network);
    }
}

#[test]
fn members_and_servers_killed_while_bytes_move() {
    let mut world = world(2);
    let mut hits = [0, 0];
    for round in 0..12u64 {
        let kill_member = round % 2 == 0;
        if hits[(round % 2) as usize] >= 2 {
            continue;
        }
        let name = format!("moving {round}");
        world.client().create("/killed").unwrap();
        // Over TCP, so that the transfer needs the member to the end.
        let mut victim = member(&world, "write", &name, 0, 3, true);
        let errors = std::thread::scope(|scope| {
            let others = scope.spawn(|| survive(&world, &name, 3, || ()));
            let watch = open(&world.client(), "/killed");
            // Somewhere in the middle: some bytes are there, not all.
            while watch.size().unwrap() == 0 && !others.is_finished() {
                std::thread::sleep(Duration::from_micros(200));
            }
            if kill_member {
                victim.kill().unwrap();
            } else {
                rustix::process::kill_process(
                    rustix::process::Pid::from_raw(world.local.servers()[1].pid() as i32).unwrap(),
                    rustix::process::Signal::KILL,
                )
                .unwrap();
            }
            others.join().unwrap()
        });
        victim.wait().unwrap();
        if !kill_member {
            world.local.kill_server(1);
            world.local.restart_server(1).unwrap();
        }
        if errors.iter().all(|error| !error.is_empty()) {
            hits[(round % 2) as usize] += 1;
            if kill_member {
                names_member_0(&errors);
            } else {
                assert!(
                    errors.iter().all(|e| e.contains("I/O server 1")),
                    "{errors:?}"
                );
            }
        }
        check_damage(&open(&world.client(), "/killed"), 3);
        // The same again, by members that live, is whole.
        let name = format!("again {round}");
        let mut member = member(&world, "write", &name, 0, 3, true);
        let errors = survive(&world, &name, 3, || ());
        assert!(errors.iter().all(String::is_empty), "{errors:?}");
        assert!(member.wait().unwrap().success());
        let file = open(&world.client(), "/killed");
        check_damage(&file, 3);
        for rank in 0..3 {
            let part = big_part(rank, 3);
            let mut bytes = vec![0; part.size() as usize];
            file.view(&part).read_at(&mut bytes, 0).unwrap();
            assert!(bytes == bytes_of(&part), "member {rank}'s bytes are whole");
        }
    }
    assert!(hits[0] > 0 && hits[1] > 0, "killed in the middle: {hits:?}");
}

#[test]
fn a_group_outlives_a_server_that_restarts() {
    let mut world = world(2);
    let clusters: Vec<Cluster> = (0..3).map(|_| world.client_with(options(false))).collect();
    let groups: Vec<Group> = std::thread::scope(|scope| {
        let joins: Vec<_> = clusters
            .iter()
            .zip(0..)
            .map(|(cluster, rank)| scope.spawn(move || Group::join(cluster, "long", rank, 3)))
            .collect();
        joins
            .into_iter()
            .map(|join| join.join().unwrap().unwrap())
            .collect()
    });
    let all_write = |byte: u8| {
        std::thread::scope(|scope| {
            for (group, cluster) in groups.iter().zip(&clusters) {
                scope.spawn(move || {
                    let file = open(cluster, "/long");
                    let part = Part::strided(u64::from(group.rank()) * 7, 7, 21, 9000).unwrap();
                    group.write_all(&file, &part, &vec![byte; 63_000]).unwrap();
                });
            }
        });
        let mut bytes = vec![0; 189_000];
        open(&clusters[0], "/long")
            .read_exact_at(&mut bytes, 0)
            .unwrap();
        assert!(bytes.iter().all(|b| *b == byte));
    };
    all_write(1);
    for server in [0, 1] {
        world.local.kill_server(server);
        world.local.restart_server(server).unwrap();
        all_write(2 + server as u8);
    }
}

#[test]
fn several_collectives_at_once_and_small_requests_between() {
    let world = world(2);
    let running = AtomicU64::new(0);
    let small = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for job in 0..3u64 {
            for rank in 0..2 {
                let (world, running) = (&world, &running);
                scope.spawn(move || {
                    let cluster = world.client_with(options(false));
                    let name = format!("job {job}");
                    let group = Group::join(&cluster, &name, rank, 2).unwrap();
                    let file = open(&cluster, &format!("/job-{job}"));
                    let part = Partition::named("wc", 8, 24 << 20, 2)
                        .unwrap()
                        .part(rank)
                        .unwrap();
                    running.fetch_add(1, Ordering::SeqCst);
                    let mine = vec![(10 * job + u64::from(rank)) as u8; part.size() as usize];
                    let mut back = vec![0; mine.len()];
                    for _ in 0..4 {
                        group.write_all(&file, &part, &mine).unwrap();
                        group.read_all(&file, &part, &mut back).unwrap();
                        assert!(back == mine);
                    }
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        }
        let cluster = world.client();
        let file = open(&cluster, "/small");
        file.write_at(&[1; 4096], 0).unwrap();
        while running.load(Ordering::SeqCst) < 6 {
            std::thread::yield_now();
        }
        while running.load(Ordering::SeqCst) > 0 {
            file.read_exact_at(&mut [0; 4096], 0).unwrap();
            small.fetch_add(1, Ordering::SeqCst);
        }
    });
    let small = small.load(Ordering::SeqCst);
    assert!(small > 50, "only {small} small requests got through");
}
