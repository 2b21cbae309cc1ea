//! A world for tests of the command line: a temporary home, maybe a cluster in it, and the binary.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A temporary directory that is the home of everything started here; stops it all when dropped.
pub struct World {
    directory: tempfile::TempDir,
}

/// How a run of the binary ended.
#[derive(Debug)]
pub struct Run {
    pub success: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("not JSON: {error}: {self:?}"))
    }
}

impl World {
    /// Without a cluster.
    pub fn new() -> World {
        World {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    /// With one.
    pub fn up(servers: u32) -> World {
        let world = World::new();
        let dir = world.cluster();
        let servers = servers.to_string();
        let arguments = ["up", "--detach", "--servers", &servers, "--dir"];
        world.ok(arguments
            .map(OsStr::new)
            .into_iter()
            .chain([dir.as_os_str()]));
        world
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn cluster(&self) -> PathBuf {
        self.path("cluster")
    }

    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trireme"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .env("XDG_RUNTIME_DIR", "")
            .env("TRIREME_CLUSTER", "")
            .env("TRIREME_GRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // An empty value would be taken for a name by nobody, but unset is what users have.
        command.env_remove("TRIREME_CLUSTER");
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        let output = self.command(arguments).output().unwrap();
        Run {
            success: output.status.success(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs what must succeed.
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Run {
        let arguments: Vec<_> = arguments
            .into_iter()
            .map(|a| a.as_ref().to_owned())
            .collect();
        let run = self.run(&arguments);
        assert!(run.success, "trireme {arguments:?} failed: {}", run.stderr);
        run
    }

    pub fn text<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        String::from_utf8(self.ok(arguments).stdout).unwrap()
    }

    pub fn json<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> serde_json::Value {
        let arguments = arguments.into_iter().map(|a| a.as_ref().to_owned());
        self.ok(arguments.chain(["--json".into()])).json()
    }

    /// Sends a signal to one of the servers, by the name it has in the cluster's directory.
    pub fn signal(&self, name: &str, signal: rustix::process::Signal) {
        let text = std::fs::read(self.cluster().join("processes.json")).unwrap();
        let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let found = all
            .as_array()
            .unwrap()
            .iter()
            .find(|process| process["name"] == name);
        let pid = found.unwrap()["pid"].as_i64().unwrap() as i32;
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Kills the manager and starts another one at the same place.
    // Nobody waits for the new one here: `down` stops it, and it is reaped with the test.
    #[allow(clippy::zombie_processes)]
    pub fn restart_manager(&self) {
        self.signal("meta", rustix::process::Signal::KILL);
        let descriptor = trireme::Descriptor::read(&self.cluster().join("cluster.json")).unwrap();
        let mut command = self.command(["serve", "meta"]);
        command.arg("--dir").arg(self.cluster().join("meta"));
        command
            .arg("--key-file")
            .arg(self.cluster().join("cluster.key"));
        command
            .arg("--token-key-file")
            .arg(self.cluster().join("token.key"));
        for address in &descriptor.manager {
            command.args(["--listen", address]);
        }
        command.stderr(Stdio::null()).stdout(Stdio::null());
        self.wait_until("the killed manager is gone", || {
            !Path::new("/proc")
                .join(self.pid("meta").to_string())
                .join("exe")
                .exists()
        });
        let child = command.spawn().unwrap();
        self.replace_pid("meta", child.id());
        self.wait_until("the new manager answers", || {
            self.run(["--timeout", "2", "ls"]).success
        });
    }

    fn pid(&self, name: &str) -> u64 {
        let text = std::fs::read(self.cluster().join("processes.json")).unwrap();
        let all: serde_json::Value = serde_json::from_slice(&text).unwrap();
        all.as_array()
            .unwrap()
            .iter()
            .find(|p| p["name"] == name)
            .unwrap()["pid"]
            .as_u64()
            .unwrap()
    }

    fn replace_pid(&self, name: &str, pid: u32) {
        let path = self.cluster().join("processes.json");
        let mut all: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for process in all.as_array_mut().unwrap() {
            if process["name"] == name {
                process["pid"] = pid.into();
            }
        }
        std::fs::write(path, all.to_string()).unwrap();
    }

    /// Waits for a condition, with a deadline that only a failure meets.
    #[allow(clippy::unused_self)]
    pub fn wait_until(&self, what: &str, condition: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !condition() {
            assert!(Instant::now() < deadline, "gave up waiting until {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let dir = self.cluster();
        if dir.exists() {
            self.run([OsStr::new("down"), OsStr::new("--dir"), dir.as_os_str()]);
        }
    }
}
