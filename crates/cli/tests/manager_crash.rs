//! The metadata manager is killed with SIGKILL again and again in the middle of random namespace
//! operations and started again at once. Clients notice only a pause: every operation is carried out
//! exactly once, gives what the model says, and nothing acknowledged is ever lost.

mod command_support;
#[path = "../../meta/tests/support/model.rs"]
#[allow(dead_code)]
mod model;

use command_support::World;
use model::{Model, Step};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trireme::namespace::IN_FLIGHT;
use trireme::{Cluster, Descriptor, Namespace, Options};
use trireme_net::NetError;
use trireme_proto::message::meta::{
    DirEntry, Kind, LayoutWish, Node, Place, RenameMode, Request, SetAttr,
};

const CLIENTS: u64 = 4;
const KILLS: u64 = 300;

/// A small generator: the seed is the whole test.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn path(&mut self) -> Vec<u8> {
        let depth = 1 + self.below(3);
        (0..depth)
            .flat_map(|_| [b'/', b'a' + self.below(3) as u8])
            .collect()
    }

    fn step(&mut self) -> Step {
        let (one, two) = (self.path(), self.path());
        match self.below(12) {
            0..=2 => Step::Create(one),
            3 | 4 => Step::Mkdir(one),
            5 => Step::Link(one, two),
            6 => Step::Unlink(one),
            7 => Step::Rmdir(one),
            8 => Step::Chmod(one, 0o700 | self.below(64) as u32),
            9 => Step::Rename(one, two, RenameMode::Exchange),
            _ => Step::Rename(one, two, RenameMode::Replace),
        }
    }
}

fn request(base: u64, step: &Step) -> Request {
    // Relative to the client's own directory, so that clients do not meet.
    let place = |path: &Vec<u8>| Place::name(base, path[1..].to_vec());
    match step {
        Step::Create(path) => {
            let node = Node::File(LayoutWish::default());
            Request::Create {
                place: place(path),
                mode: 0o644,
                node,
            }
        }
        Step::Mkdir(path) => Request::Create {
            place: place(path),
            mode: 0o755,
            node: Node::Directory,
        },
        Step::Link(from, to) => Request::Link {
            from: place(from),
            to: place(to),
        },
        Step::Unlink(path) => Request::Unlink { place: place(path) },
        Step::Rmdir(path) => Request::Rmdir { place: place(path) },
        Step::Rename(from, to, mode) => Request::Rename {
            from: place(from),
            to: place(to),
            mode: *mode,
        },
        Step::Chmod(path, mode) => {
            let set = SetAttr {
                mode: Some(*mode),
                ..SetAttr::default()
            };
            Request::SetAttr {
                place: place(path),
                follow: true,
                set,
            }
        }
        Step::Symlink(..) => unreachable!("not generated"),
    }
}

fn list(namespace: &Namespace, inode: u64, prefix: &str, lines: &mut Vec<String>) {
    let attr = namespace.attr(inode).unwrap();
    lines.push(format!(
        "{prefix}/ dir nlink {} entries {} mode {:o}",
        attr.nlink, attr.size, attr.mode
    ));
    let (entries, end) = namespace
        .read_dir_page(Place::inode(inode), 0, true)
        .unwrap();
    assert!(end);
    for DirEntry {
        name,
        inode,
        kind,
        attr,
        ..
    } in entries
    {
        let path = format!("{prefix}/{}", String::from_utf8_lossy(&name));
        if kind == Kind::Directory {
            list(namespace, inode, &path, lines);
        } else {
            let attr = attr.unwrap();
            lines.push(format!(
                "{path} file nlink {} mode {:o}",
                attr.nlink, attr.mode
            ));
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    let world = World::up(1);
    let descriptor = Descriptor::named(world.cluster().to_str().unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    let steps = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (descriptor, stop, steps) = (&descriptor, &stop, &steps);
            scope.spawn(move || {
                let _stop_all = StopOnPanic(stop);
                let cluster = Cluster::connect(descriptor, Options::default()).unwrap();
                let namespace = cluster.namespace();
                let home = namespace.mkdir(format!("/client-{client}"), 0o755).unwrap();
                let home = home.attr.inode;
                let mut model = Model::default();
                let mut random = Random(0x5eed_0000 + client);
                while !stop.load(Ordering::SeqCst) {
                    let step = random.step();
                    let expected = model
                        .apply(&step)
                        .map_err(trireme_meta::failure::Errno::code);
                    let got = namespace.change(request(home, &step)).map(|_| ());
                    let got = got.map_err(|error| error.errno());
                    assert_eq!(got, expected, "client {client}: {step:?}");
                    steps.fetch_add(1, Ordering::SeqCst);
                }
                let mut lines = Vec::new();
                list(&namespace, home, "", &mut lines);
                lines.sort();
                assert_eq!(lines, model.listing(), "client {client}");
            });
        }
        scope.spawn(|| {
            let _stop_all = StopOnPanic(&stop);
            let cluster = Cluster::connect(&descriptor, Options::default()).unwrap();
            let mut files = 300;
            while !stop.load(Ordering::SeqCst) {
                many_at_once(&cluster.namespace(), files);
                // About as many calls as the others', all the time: each start of the manager reads
                // what was changed.
                let goal = steps.load(Ordering::SeqCst) + 15;
                files = 10;
                world.wait_until("the others have gone on", || {
                    steps.load(Ordering::SeqCst) >= goal || stop.load(Ordering::SeqCst)
                });
            }
        });
        let _stop_all = StopOnPanic(&stop);
        let mut random = Random(77);
        for _ in 0..KILLS {
            // A random number of operations, not a random time: the same on any machine.
            let goal = steps.load(Ordering::SeqCst) + 1 + random.below(40);
            world.wait_until("the clients have gone on", || {
                steps.load(Ordering::SeqCst) >= goal || stop.load(Ordering::SeqCst)
            });
            world.restart_manager();
        }
        stop.store(true, Ordering::SeqCst);
    });
    assert!(steps.load(Ordering::SeqCst) > KILLS);
    let report = world.run(["fsck", "--json"]);
    assert_eq!(
        report.json()["problems"].as_array().unwrap().len(),
        0,
        "{report:?}"
    );
}

/// Files that come and go with many calls under way on one connection: an answer that was lost with the
/// manager must not make a file exist already, or be gone already, when its call is sent again.
fn many_at_once(namespace: &Namespace, files: u32) {
    let home = match namespace.mkdir("/many", 0o755) {
        Err(error) if error.errno() == 17 => namespace.stat("/many"),
        made => made,
    };
    let home = home.unwrap().attr.inode;
    let place = |number: u32| Place::name(home, format!("f{number}").into_bytes());
    let each = |answers: &mut Vec<u32>, place: usize, failed: Option<NetError>| {
        assert!(failed.is_none(), "call {place}: {failed:?}");
        answers[place] += 1;
    };
    let mut answers = vec![0; files as usize];
    let creates = (0..files).map(|number| Request::Create {
        place: place(number),
        mode: 0o644,
        node: Node::File(LayoutWish::default()),
    });
    namespace.change_many(creates, IN_FLIGHT, |n, answer| {
        each(&mut answers, n, answer.err());
    });
    let looks = (0..files).map(|number| Request::Lookup {
        place: place(number),
        follow: true,
    });
    namespace.ask_many(looks, IN_FLIGHT, |n, answer| {
        each(&mut answers, n, answer.err());
    });
    let unlinks = (0..files).map(|number| Request::Unlink {
        place: place(number),
    });
    // May be more than there are numbers for calls: then some wait for others' answers.
    namespace.change_many(unlinks, 400, |n, answer| {
        each(&mut answers, n, answer.err());
    });
    assert!(answers.iter().all(|count| *count == 3), "{answers:?}");
}

/// One failed thread ends the others, so that the failure is what is seen.
struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::SeqCst);
        }
    }
}
