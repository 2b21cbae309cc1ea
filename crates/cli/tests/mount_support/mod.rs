//! Real mounts for tests: a cluster of processes, as many mounts as wanted, all gone at the end.
#![allow(dead_code)]

mod acl;
pub mod actor;
pub mod apart;
pub mod control;
mod directory;
pub mod handle;
pub mod mapped;
pub mod passing;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use trireme::Cluster;
use trireme::local::{LocalCluster, Up};

/// A cluster and its mounts. Whatever happens, dropping it unmounts and stops everything.
pub struct Sea {
    mounts: Vec<Mounted>,
    pub local: LocalCluster,
    dir: tempfile::TempDir,
}

/// One mount and its process.
pub struct Mounted {
    pub place: PathBuf,
    pub process: Child,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = trireme_fuse::kernel::unmount(&self.place, true);
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn binary() -> &'static str {
    env!("CARGO_BIN_EXE_trireme")
}

/// A cluster with `servers` I/O servers; `None`, said aloud, where nothing can be mounted.
pub fn sea(test: &str, servers: u32) -> Option<Sea> {
    sea_in(test, tempfile::tempdir().unwrap(), servers)
}

/// The same in a directory whose `cluster` may have been prepared.
pub fn sea_in(test: &str, dir: tempfile::TempDir, servers: u32) -> Option<Sea> {
    if !Path::new("/dev/fuse").exists() {
        crate::support::skip(test, "there is no /dev/fuse");
        return None;
    }
    if !rustix::process::geteuid().is_root()
        && Command::new("fusermount3").arg("-V").output().is_err()
    {
        crate::support::skip(test, "neither root nor fusermount3");
        return None;
    }
    let mut up = Up::new(dir.path().join("cluster"));
    up.binary = binary().into();
    up.servers = Some(servers);
    up.publish = false;
    Some(Sea {
        mounts: Vec::new(),
        local: up.start().unwrap(),
        dir,
    })
}

/// A cluster and two mounts of it.
pub fn two(test: &str, options: &[&str]) -> Option<(Sea, PathBuf, PathBuf)> {
    let mut sea = sea(test, 3)?;
    let (a, b) = (sea.mount(options), sea.mount(options));
    Some((sea, a, b))
}

impl Sea {
    /// One more mount with these options.
    pub fn mount(&mut self, options: &[&str]) -> PathBuf {
        let place = self.dir.path().join(format!("mount{}", self.mounts.len()));
        std::fs::create_dir(&place).unwrap();
        let mounted = mount(self.local.dir(), &place, options);
        self.mounts.push(mounted);
        place
    }

    /// The process of a mount.
    pub fn process(&mut self, number: usize) -> &mut Child {
        &mut self.mounts[number].process
    }

    /// An empty directory beside the cluster's.
    pub fn dir(&self, name: &str) -> PathBuf {
        self.local_dir(name)
    }

    /// A directory of the local file system, for comparison.
    pub fn local_dir(&self, name: &str) -> PathBuf {
        let place = self.dir.path().join(name);
        std::fs::create_dir(&place).unwrap();
        place
    }

    pub fn client(&self) -> Cluster {
        self.local.connect(trireme::Options::default()).unwrap()
    }

    /// The namespace and the subfiles fit together.
    pub fn check(&self) {
        let report = self.client().namespace().check(false).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
}

/// Mounts a cluster in a process of its own and waits until it is there.
pub fn mount(cluster: &Path, place: &Path, options: &[&str]) -> Mounted {
    // `./test` runs some of the tests once more for another way that requests can take.
    let more = std::env::var("TRIREME_TEST_MOUNT").unwrap_or_default();
    let process = Command::new(binary())
        .arg("--cluster")
        .arg(cluster)
        .args(["mount", "--foreground"])
        .args(options)
        .args(
            more.split_whitespace()
                .filter(|word| !options.contains(word)),
        )
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mounted = Mounted {
        place: place.into(),
        process,
    };
    wait_until("it is mounted", || is_mounted(place));
    mounted
}

pub fn is_mounted(place: &Path) -> bool {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let place = format!(
        " {} ",
        place.canonicalize().unwrap_or(place.into()).display()
    );
    table.lines().any(|line| line.contains(&place))
}

/// Opens a file for reading and writing, and makes it if it is not there.
pub fn open(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap()
}

/// Waits for a condition, at most a minute.
pub fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(
            begin.elapsed() < Duration::from_mins(1),
            "not in a minute: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a shell command that must succeed within two minutes; gives what it printed. A program that
/// is missing skips the test, aloud.
pub fn shell(dir: &Path, script: &str) -> String {
    let output = Command::new("timeout")
        .args(["120", "bash", "-euo", "pipefail", "-c", script])
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("HOME", "/nonexistent")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{script}\n{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// Whether all of these programs are installed; says so if not.
pub fn have(test: &str, programs: &[&str]) -> bool {
    for program in programs {
        let found = Command::new("sh")
            .args(["-c", &format!("command -v {program}")])
            .output()
            .unwrap();
        if !found.status.success() {
            crate::support::skip(test, &format!("{program} is not installed"));
            return false;
        }
    }
    true
}
