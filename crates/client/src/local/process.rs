//! One server process: started, ready, killed, stopped, and found again by a later command.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use trireme_net::Deadline;

use super::{SocketDir, Up, secret, unix_and_tcp};
use crate::{Error, Result};

/// Name of the list of processes in a cluster's directory.
const PROCESSES: &str = "processes.json";

/// A server process of ours.
#[derive(Debug)]
pub struct Process {
    /// `meta`, `io0`, ...
    pub name: String,
    /// Where it listens.
    pub addresses: Vec<String>,
    child: Child,
    log: PathBuf,
}

/// How to start one.
pub(super) struct Launch {
    name: String,
    binary: PathBuf,
    arguments: Vec<String>,
    listen: Vec<String>,
    detach: bool,
}

/// A process that was started but has not said that it is ready.
pub(super) struct Starting {
    process: Process,
    output: ChildStdout,
}

impl Launch {
    pub fn manager(up: &Up, dir: &Path, sockets: &SocketDir) -> Launch {
        Launch::new(
            up,
            dir,
            "meta".into(),
            unix_and_tcp(sockets, "meta", up.listen.as_deref()),
        )
    }

    pub fn server(up: &Up, dir: &Path, sockets: &SocketDir, id: u32, manager: &Process) -> Launch {
        let name = format!("io{id}");
        let listen = unix_and_tcp(sockets, &name, up.listen.as_deref());
        let mut launch = Launch::new(up, dir, name, listen);
        launch.arguments.extend(["--id".into(), id.to_string()]);
        launch.arguments.extend_from_slice(&up.io_arguments);
        for address in &manager.addresses {
            launch
                .arguments
                .extend(["--manager".into(), address.clone()]);
        }
        launch
    }

    fn new(up: &Up, dir: &Path, name: String, listen: Vec<String>) -> Launch {
        let role = if name == "meta" { "meta" } else { "io" };
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let arguments = vec![
            "serve".into(),
            role.into(),
            "--dir".into(),
            text(dir.join(&name)),
            "--key-file".into(),
            text(secret::cluster_key_path(dir)),
            "--token-key-file".into(),
            text(secret::token_key_path(dir)),
        ];
        Launch {
            name,
            binary: up.binary.clone(),
            arguments,
            listen,
            detach: up.detach,
        }
    }

    /// Listens where it did before, so that clients find it again.
    pub fn at(mut self, addresses: &[String]) -> Launch {
        self.listen = addresses.to_vec();
        self
    }

    pub fn start(self, dir: &Path) -> Result<Starting> {
        use std::os::unix::process::CommandExt;
        let log = dir.join(format!("{}.log", self.name));
        let failed = |what: &str| Error::local(format!("{what} {}", log.display()));
        let sink = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .map_err(failed("open"))?;
        let mut command = Command::new(&self.binary);
        command.args(&self.arguments);
        for address in &self.listen {
            command.args(["--listen", address]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(sink);
        if self.detach {
            // Its own group: a Ctrl-C in this terminal is not for it.
            command.process_group(0);
        } else {
            command.arg("--with-parent");
        }
        let mut child = command
            .spawn()
            .map_err(Error::local(format!("start {}", self.binary.display())))?;
        let output = child.stdout.take().expect("was asked for");
        let process = Process {
            name: self.name,
            addresses: Vec::new(),
            child,
            log,
        };
        Ok(Starting { process, output })
    }
}

impl Starting {
    /// Waits for the line `ready ADDRESS...`.
    pub fn ready(mut self, deadline: Deadline) -> Result<Process> {
        let (send, receive) = std::sync::mpsc::channel();
        let mut output = BufReader::new(self.output);
        std::thread::spawn(move || {
            let mut line = String::new();
            let _ = output.read_line(&mut line);
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(deadline.left()).unwrap_or_default();
        if let Some(addresses) = line.trim().strip_prefix("ready ") {
            self.process.addresses = addresses.split(' ').map(str::to_owned).collect();
            return Ok(self.process);
        }
        self.process.kill();
        Err(Error::Invalid(format!(
            "{} did not start; the end of {} says:\n{}",
            self.process.name,
            self.process.log.display(),
            self.process.last_words()
        )))
    }
}

impl Process {
    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    /// Kills it without warning and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(super) fn ask_to_stop(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    pub(super) fn has_ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)) | Err(_))
    }

    pub(super) fn wait_or_kill(&mut self, deadline: Deadline) {
        while !self.has_ended() {
            if deadline.over() {
                self.kill();
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub(super) fn recorded(&self) -> Recorded {
        Recorded {
            name: self.name.clone(),
            pid: self.pid(),
        }
    }

    fn last_words(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(2000)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|error| error.to_string())
    }
}

/// A process as later commands find it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Recorded {
    pub name: String,
    pub pid: u32,
}

impl Recorded {
    pub fn read(dir: &Path) -> Result<Vec<Recorded>> {
        let path = dir.join(PROCESSES);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| Error::Descriptor {
                path,
                why: error.to_string(),
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(Error::local(format!("read {}", path.display()))(error)),
        }
    }

    pub fn write(dir: &Path, all: &[Recorded]) -> Result<()> {
        let path = dir.join(PROCESSES);
        let new = dir.join("processes.new");
        std::fs::write(&new, serde_json::to_vec_pretty(all).expect("plain data"))
            .and_then(|()| std::fs::rename(&new, &path))
            .map_err(Error::local(format!("write {}", path.display())))
    }

    pub fn remove(dir: &Path) {
        let _ = std::fs::remove_file(dir.join(PROCESSES));
    }

    /// Whether the process with this number is still ours: numbers are used again.
    pub fn is_alive(&self, dir: &Path) -> bool {
        let Ok(line) = std::fs::read(format!("/proc/{}/cmdline", self.pid)) else {
            return false;
        };
        let ours = dir.join(&self.name);
        line.split(|byte| *byte == 0)
            .any(|word| word == ours.as_os_str().as_encoded_bytes())
    }

    pub fn ask_to_stop(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(pid) = rustix::process::Pid::from_raw(self.pid as i32) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }

    pub fn wait_or_kill(&self, dir: &Path, deadline: Deadline) {
        while self.is_alive(dir) {
            if deadline.over() {
                self.signal(rustix::process::Signal::KILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
