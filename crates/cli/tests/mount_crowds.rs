//! More programs at once than a mount has threads, all of them waiting: for the kernel to write pages, or
//! for a server that is away. Nobody may wait for ever, and nobody else with them.

mod mount_support;
mod support;

use mount_support::control::{Control, in_time};
use mount_support::mapped::Mapped;
use mount_support::{binary, is_mounted, open, sea, two, wait_until};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

/// Several times the threads of a mount.
const CROWD: usize = 256;

const PAGE: usize = 4096;

/// The kernel is told to forget pages, and writes those first that were changed: for that it needs a thread of
/// the mount, which must not all be telling it such things.
#[test]
fn a_crowd_can_cut_and_look_at_mapped_files() {
    let test = "a_crowd_can_cut_and_look_at_mapped_files";
    let Some((_sea, place, other)) = two(test, &["--striped"]) else {
        return;
    };
    let there = place.clone();
    let act = move || {
        let barrier = Arc::new(Barrier::new(CROWD));
        let threads: Vec<_> = (0..CROWD)
            .map(|number| {
                let (barrier, path) = (barrier.clone(), there.join(format!("f{number}")));
                std::thread::spawn(move || {
                    let file = open(&path);
                    file.set_len(PAGE as u64).unwrap();
                    let map = Mapped::of(&file, PAGE);
                    for round in 0..4 {
                        map.put(17, round);
                        barrier.wait();
                        file.set_len(1000 + u64::from(round)).unwrap();
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
    };
    if !in_time(&place, "cutting mapped files", act) {
        return support::skip(test, "no fusectl: a mount that hangs could not be ended");
    }
    for number in 0..CROWD {
        let bytes = std::fs::read(other.join(format!("f{number}"))).unwrap();
        assert_eq!((bytes.len(), bytes[17]), (1003, 3), "file {number}");
    }
}

/// Programs that wait for a server, and are killed in the end.
struct Crowd(Vec<Child>);

impl Crowd {
    fn start(place: &Path, script: &str) -> Crowd {
        let start = |number| {
            let mut command = Command::new("sh");
            command.args(["-c", script, "sh"]).arg(number_of(number));
            command.current_dir(place).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            // A group of its own: what the shell started is killed with it.
            command.process_group(0).spawn().unwrap()
        };
        Crowd((0..CROWD).map(start).collect())
    }

    fn signal(child: &Child, signal: rustix::process::Signal) {
        let group = rustix::process::Pid::from_child(child);
        let _ = rustix::process::kill_process_group(group, signal);
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for child in &self.0 {
            Crowd::signal(child, rustix::process::Signal::KILL);
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

fn number_of(number: usize) -> String {
    format!("f{number}")
}

/// What needs no I/O server is done soon, and so is what was interrupted.
fn goes_on(control: &mut Control, place: PathBuf, crowd: &mut Crowd) {
    control.in_time("using names", move || {
        let begin = Instant::now();
        assert!(std::fs::metadata(&place).unwrap().is_dir());
        std::fs::create_dir(place.join("new")).unwrap();
        std::os::unix::fs::symlink("x", place.join("new/link")).unwrap();
        std::fs::rename(place.join("new"), place.join("renamed")).unwrap();
        assert!(std::fs::read_dir(&place).unwrap().count() > CROWD);
        std::fs::remove_dir_all(place.join("renamed")).unwrap();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(20), "names took {took:?}");
    });
    let mut one = crowd.0.pop().unwrap();
    Crowd::signal(&one, rustix::process::Signal::TERM);
    let begin = Instant::now();
    wait_until("a signal ends a wait", || one.try_wait().unwrap().is_some());
    assert!(begin.elapsed() < Duration::from_secs(20));
}

#[test]
fn names_go_on_while_a_crowd_waits_for_a_server() {
    let test = "names_go_on_while_a_crowd_waits_for_a_server";
    let scripts = [
        "exec cat $1",
        "exec dd if=/dev/zero of=$1 bs=1M count=4 conv=notrunc",
    ];
    for script in scripts {
        let Some(mut sea) = sea(test, 2) else { return };
        let place = sea.dir("patient");
        let mounted =
            mount_support::mount(sea.local.dir(), &place, &["--timeout", "100", "--striped"]);
        let Some(mut control) = Control::of(&place) else {
            return support::skip(test, "no fusectl: a mount that hangs could not be ended");
        };
        for number in 0..CROWD {
            std::fs::write(place.join(number_of(number)), vec![1; 300_000]).unwrap();
        }
        sea.local.kill_server(0);
        let mut crowd = Crowd::start(&place, script);
        // Some may have ended: what the kernel or the mount had of their file was enough.
        wait_until("a crowd waits", || control.waiting() > CROWD / 2);
        goes_on(&mut control, place.clone(), &mut crowd);
        assert!(control.waiting() > CROWD / 3, "nobody waited any more");
        let begin = Instant::now();
        let mut umount = Command::new(binary());
        umount.args(["umount", "--lazy"]).arg(&place);
        assert!(umount.status().unwrap().success());
        assert!(begin.elapsed() < Duration::from_secs(20));
        assert!(!is_mounted(&place));
        control.abort();
        drop((crowd, mounted));
    }
}
