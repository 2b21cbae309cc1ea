//! Patient members wait for the others as long as those live, and not for what has died.

mod support;

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use support::{World, world};
use trireme::{Cluster, Collective, File, Group, LayoutWish, Method, OpenOptions, Options, Part};

/// What members of this test wait for anything but each other.
const DEADLINE: Duration = Duration::from_secs(3);

/// Longer than anybody waits for a server that does not say anything.
const LATE: Duration = Duration::from_secs(9);

struct Member {
    cluster: Cluster,
    group: Group,
}

/// Two patient members.
fn members(world: &World, name: &str) -> [Member; 2] {
    let join = |rank| {
        let options = Options {
            deadline: DEADLINE,
            ..Options::default()
        };
        let cluster = world.client_with(options);
        let group = Group::join(&cluster, name, rank, 2).unwrap().patient();
        Member { cluster, group }
    };
    std::thread::scope(|scope| {
        let [a, b] = [0, 1].map(|rank| scope.spawn(move || join(rank)));
        [a.join().unwrap(), b.join().unwrap()]
    })
}

impl Member {
    fn open(&self, path: &str) -> File {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .layout(LayoutWish {
                unit: Some(1000),
                ..LayoutWish::default()
            })
            .open(&self.cluster, path)
            .unwrap()
    }

    /// Writes ten thousand bytes beside those of the other.
    fn write(&self, file: &File, method: Method, byte: u8) -> trireme::Result<()> {
        let part = Part::contiguous(u64::from(self.group.rank()) * 10_000, 10_000).unwrap();
        let collective = Collective::new(file, &self.group).view(part).method(method);
        collective.write(&[byte; 10_000]).map(drop)
    }

    fn fails(&self, file: &File) -> String {
        let error = self.write(file, Method::Auto, 0).unwrap_err();
        error.to_string()
    }
}

fn signal(world: &World, server: usize, signal: Signal) {
    let pid = world.local.servers()[server].pid() as i32;
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn who_is_late_but_lives_is_waited_for() {
    let world = world(2);
    std::thread::scope(|scope| {
        for method in Method::ALL {
            for member in members(&world, &method.to_string()) {
                scope.spawn(move || {
                    let file = member.open(&format!("/{method}"));
                    if member.group.rank() == 1 {
                        std::thread::sleep(LATE);
                    }
                    member.write(&file, method, 7).unwrap();
                    let mut bytes = vec![0; 20_000];
                    file.read_exact_at(&mut bytes, 0).unwrap();
                    assert!(bytes.iter().all(|byte| *byte == 7), "{method}");
                });
            }
        }
    });
}

#[test]
fn who_leaves_is_not_waited_for() {
    let world = world(2);
    let [stays, leaves] = members(&world, "leaves");
    let file = stays.open("/f");
    std::thread::scope(|scope| {
        let error = scope.spawn(|| stays.fails(&file));
        drop(leaves);
        let error = error.join().unwrap();
        assert!(error.contains("member 1 went away"), "{error}");
    });
}

#[test]
fn a_server_lost_while_members_wait_is_an_error_for_all() {
    for end in [Signal::KILL, Signal::STOP] {
        let world = world(2);
        let [first, second] = members(&world, "lost");
        let (file, late) = (first.open("/f"), second.open("/f"));
        std::thread::scope(|scope| {
            let error = scope.spawn(|| first.fails(&file));
            // Most likely it waits by now; nothing depends on it.
            std::thread::sleep(Duration::from_millis(300));
            signal(&world, 1, end);
            // The second one has not made its call, and is not waited for.
            let error = error.join().unwrap();
            assert!(error.contains("server 1"), "{error}");
            let error = second.fails(&late);
            assert!(error.contains("server 1"), "{error}");
        });
        signal(&world, 1, Signal::CONT);
    }
}

#[test]
fn a_server_that_restarts_keeps_nobody_waiting() {
    let mut world = world(1);
    let [first, second] = members(&world, "restart");
    let (file, late) = (first.open("/f"), second.open("/f"));
    for quiet in [true, false] {
        std::thread::scope(|scope| {
            let error = scope.spawn(|| first.fails(&file));
            std::thread::sleep(Duration::from_millis(300));
            world.local.kill_server(0);
            error.join().unwrap();
        });
        world.local.restart_server(0).unwrap();
        std::thread::scope(|scope| {
            // For the first one that call is over, which the new server cannot know of.
            let next = (!quiet).then(|| scope.spawn(|| first.write(&file, Method::Auto, 3)));
            let error = second.fails(&late);
            assert!(error.contains("member 0"), "{error}");
            if let Some(next) = next {
                second.write(&late, Method::Auto, 3).unwrap();
                next.join().unwrap().unwrap();
            }
        });
    }
}
