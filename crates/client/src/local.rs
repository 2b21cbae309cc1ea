//! A whole cluster on this machine: one process per server, started with one call.
//!
//! Everything is below one directory: `meta` and `io0`, `io1`, ... hold the data, `*.log` what the
//! servers say, `cluster.json` how clients reach it, `processes.json` who runs. Starting again on the
//! same directory brings the same data back. Servers are the `trireme` binary itself, told to
//! `serve`; each prints a line `ready ADDRESS...` once it answers.

mod process;
mod secret;
mod sockets;

use std::path::{Path, PathBuf};
use std::time::Duration;

use trireme_net::{Address, Deadline};

use crate::descriptor::{self, FILE_NAME};
use crate::{Cluster, Descriptor, Error, Options, Result};
pub use process::Process;
use process::{Launch, Recorded};
pub(crate) use secret::token_key;
pub(crate) use sockets::SocketDir;

/// How long a server may take to say that it is ready; they take a few hundred milliseconds.
const READY: Duration = Duration::from_secs(30);

/// How long a server may take to write everything back after being asked to stop.
const STOP: Duration = Duration::from_mins(1);

/// How to start a cluster.
#[derive(Debug, Clone)]
pub struct Up {
    /// Its directory.
    pub dir: PathBuf,
    /// How many I/O servers; `None`: as many as the directory has, or 4.
    pub servers: Option<u32>,
    /// The `trireme` binary.
    pub binary: PathBuf,
    /// The servers outlive this process.
    pub detach: bool,
    /// Also listen on this host address (default: loopback only).
    pub listen: Option<String>,
    /// Write the address file where clients look by themselves.
    pub publish: bool,
    /// More arguments for each I/O server (`trireme serve io --help`).
    pub io_arguments: Vec<String>,
}

impl Up {
    /// The usual: this binary, servers that stop with this process, found by clients.
    pub fn new(dir: impl Into<PathBuf>) -> Up {
        Up {
            dir: dir.into(),
            servers: None,
            binary: std::env::current_exe().unwrap_or_else(|_| "trireme".into()),
            detach: false,
            listen: None,
            publish: true,
            io_arguments: Vec::new(),
        }
    }

    /// Starts everything; when it returns, clients can come.
    pub fn start(&self) -> Result<LocalCluster> {
        LocalCluster::start(self)
    }
}

/// A cluster of processes on this machine. Unless detached, it stops when dropped.
#[derive(Debug)]
pub struct LocalCluster {
    up: Up,
    dir: PathBuf,
    sockets: SocketDir,
    manager: Process,
    servers: Vec<Process>,
}

impl LocalCluster {
    fn start(up: &Up) -> Result<LocalCluster> {
        std::fs::create_dir_all(&up.dir)
            .map_err(Error::local(format!("create {}", up.dir.display())))?;
        let dir = up
            .dir
            .canonicalize()
            .map_err(Error::local(format!("open {}", up.dir.display())))?;
        if let Some(running) = Recorded::read(&dir)?
            .iter()
            .find(|process| process.is_alive(&dir))
        {
            return Err(Error::Invalid(format!(
                "a cluster already runs in {} (process {}): use it, or stop it with `trireme down --dir {}`",
                dir.display(),
                running.pid,
                dir.display()
            )));
        }
        secret::prepare(&dir)?;
        let sockets = SocketDir::of(&dir)?;
        let servers = up
            .servers
            .unwrap_or_else(|| servers_in(&dir).max(1).max(default_servers(&dir)));
        if servers == 0 || servers < servers_in(&dir) {
            return Err(Error::Invalid(format!(
                "{} has data on {} I/O servers: --servers must be at least that",
                dir.display(),
                servers_in(&dir)
            )));
        }
        let deadline = Deadline::after(READY);
        let manager = Launch::manager(up, &dir, &sockets)
            .start(&dir)?
            .ready(deadline)?;
        let started: Vec<_> = (0..servers)
            .map(|id| Launch::server(up, &dir, &sockets, id, &manager).start(&dir))
            .collect::<Result<_>>()?;
        let servers = started
            .into_iter()
            .map(|process| process.ready(deadline))
            .collect::<Result<Vec<_>>>()?;
        let cluster = LocalCluster {
            up: up.clone(),
            dir,
            sockets,
            manager,
            servers,
        };
        cluster.record()?;
        let descriptor = cluster.descriptor()?;
        descriptor.write(&cluster.dir.join(FILE_NAME))?;
        if up.publish {
            descriptor.write(&descriptor::default_path())?;
        }
        Ok(cluster)
    }

    fn record(&self) -> Result<()> {
        let all: Vec<_> = std::iter::once(&self.manager)
            .chain(&self.servers)
            .map(Process::recorded)
            .collect();
        Recorded::write(&self.dir, &all)
    }

    /// What clients need to connect.
    pub fn descriptor(&self) -> Result<Descriptor> {
        Ok(Descriptor {
            manager: self.manager.addresses.clone(),
            key: Some(secret::cluster_key(&self.dir)?.to_text()),
            dir: Some(self.dir.clone()),
        })
    }

    /// A client of it.
    pub fn connect(&self, options: Options) -> Result<Cluster> {
        Cluster::connect(&self.descriptor()?, options)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The manager's process.
    pub fn manager(&self) -> &Process {
        &self.manager
    }

    /// The I/O servers' processes.
    pub fn servers(&self) -> &[Process] {
        &self.servers
    }

    /// Kills an I/O server without warning.
    pub fn kill_server(&mut self, id: usize) {
        self.servers[id].kill();
    }

    /// Kills the manager without warning.
    pub fn kill_manager(&mut self) {
        self.manager.kill();
    }

    /// Starts an I/O server again, where it was.
    pub fn restart_server(&mut self, id: usize) -> Result<()> {
        let launch = Launch::server(&self.up, &self.dir, &self.sockets, id as u32, &self.manager)
            .at(&self.servers[id].addresses);
        self.servers[id] = launch.start(&self.dir)?.ready(Deadline::after(READY))?;
        self.record()
    }

    /// Starts the manager again, where it was.
    pub fn restart_manager(&mut self) -> Result<()> {
        let launch =
            Launch::manager(&self.up, &self.dir, &self.sockets).at(&self.manager.addresses);
        self.manager = launch.start(&self.dir)?.ready(Deadline::after(READY))?;
        self.record()
    }

    /// Stops everything cleanly.
    pub fn stop(mut self) -> Result<()> {
        self.end();
        Ok(())
    }

    fn end(&mut self) {
        let deadline = Deadline::after(STOP);
        for process in self.servers.iter().chain([&self.manager]) {
            process.ask_to_stop();
        }
        for process in self.servers.iter_mut().chain([&mut self.manager]) {
            process.wait_or_kill(deadline);
        }
        forget(&self.dir);
    }

    /// The name of a process that has ended by itself, if one has.
    pub fn watch(&mut self) -> Option<String> {
        self.servers
            .iter_mut()
            .chain([&mut self.manager])
            .find_map(|process| process.has_ended().then(|| process.name.clone()))
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        if !self.up.detach {
            self.end();
        }
    }
}

/// Stops the cluster that runs in `dir`; gives the number of processes that were stopped.
pub fn down(dir: &Path) -> Result<usize> {
    let dir = dir
        .canonicalize()
        .map_err(Error::local(format!("open {}", dir.display())))?;
    let alive: Vec<_> = Recorded::read(&dir)?
        .into_iter()
        .filter(|process| process.is_alive(&dir))
        .collect();
    let deadline = Deadline::after(STOP);
    for process in &alive {
        process.ask_to_stop();
    }
    for process in &alive {
        process.wait_or_kill(&dir, deadline);
    }
    forget(&dir);
    Ok(alive.len())
}

/// Removes what clients would find; the data stays.
fn forget(dir: &Path) {
    let published = descriptor::default_path();
    if Descriptor::read(&published).is_ok_and(|found| found.dir.as_deref() == Some(dir)) {
        let _ = std::fs::remove_file(published);
    }
    let _ = std::fs::remove_file(dir.join(FILE_NAME));
    Recorded::remove(dir);
}

fn servers_in(dir: &Path) -> u32 {
    (0..u32::MAX)
        .take_while(|id| dir.join(format!("io{id}")).is_dir())
        .count() as u32
}

fn default_servers(dir: &Path) -> u32 {
    if servers_in(dir) == 0 { 4 } else { 0 }
}

fn unix_and_tcp(sockets: &SocketDir, name: &str, listen: Option<&str>) -> Vec<String> {
    let host = listen.unwrap_or("127.0.0.1");
    let host = if host.contains(':') {
        host.to_owned()
    } else {
        format!("{host}:0")
    };
    vec![
        Address::Unix(sockets.path(name)).to_string(),
        Address::Tcp(host).to_string(),
    ]
}
