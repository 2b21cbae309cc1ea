//! A whole cluster inside this process, over real sockets: for tests, notebooks and trying out.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let embedded = trireme::embedded::Embedded::start(dir.path(), 4)?;
//! let cluster = embedded.connect()?;
//! cluster.create("/hello")?.write_at(b"hello", 0)?;
//! let mut buffer = [0; 5];
//! cluster.open("/hello")?.read_exact_at(&mut buffer, 0)?;
//! assert_eq!(&buffer, b"hello");
//! # Ok(()) }
//! ```

use std::path::{Path, PathBuf};

use trireme_net::{Address, Endpoint, random_bytes};
use trireme_proto::Key;
use trireme_server::io::{IoConfig, IoServer};
use trireme_server::meta::{MetaConfig, MetaServer};
use trireme_server::store::Options as StoreOptions;

use crate::local::SocketDir;
use crate::{Cluster, Descriptor, Error, Options, Result};

/// A running embedded cluster; everything stops when it is dropped, and the data stays in its directory.
pub struct Embedded {
    dir: PathBuf,
    sockets: SocketDir,
    key: Key,
    token_key: Key,
    unix: bool,
    tcp: bool,
    servers: Vec<Option<IoServer>>,
    manager: Option<MetaServer>,
    store: StoreOptions,
}

impl Embedded {
    /// Starts a manager and `servers` I/O servers in `dir`, over Unix sockets.
    pub fn start(dir: &Path, servers: u32) -> Result<Embedded> {
        Embedded::start_on(dir, servers, true, false, StoreOptions::default())
    }

    /// The same with I/O servers that work with their disks in another way.
    pub fn start_with(dir: &Path, servers: u32, store: StoreOptions) -> Result<Embedded> {
        Embedded::start_on(dir, servers, true, false, store)
    }

    /// The same over TCP on the loopback interface.
    pub fn start_tcp(dir: &Path, servers: u32) -> Result<Embedded> {
        Embedded::start_on(dir, servers, false, true, StoreOptions::default())
    }

    /// The same over both: each client takes what suits it.
    pub fn start_both(dir: &Path, servers: u32) -> Result<Embedded> {
        Embedded::start_on(dir, servers, true, true, StoreOptions::default())
    }

    fn start_on(
        dir: &Path,
        servers: u32,
        unix: bool,
        tcp: bool,
        store: StoreOptions,
    ) -> Result<Embedded> {
        let token_key = crate::local::token_key(dir)?;
        let mut embedded = Embedded {
            dir: dir.into(),
            sockets: SocketDir::of(dir)?,
            key: Key::new(random_bytes()),
            token_key,
            unix,
            tcp,
            servers: Vec::new(),
            manager: None,
            store,
        };
        embedded.start_manager()?;
        for server in 0..servers {
            embedded.servers.push(None);
            embedded.start_server(server)?;
        }
        Ok(embedded)
    }

    fn listen(&self, name: &str) -> Vec<Address> {
        let mut addresses = Vec::new();
        if self.unix {
            addresses.push(Address::Unix(self.sockets.path(name)));
        }
        if self.tcp {
            addresses.push(Address::Tcp("127.0.0.1:0".into()));
        }
        addresses
    }

    /// Starts the manager, which must not be running.
    pub fn start_manager(&mut self) -> Result<()> {
        let config = MetaConfig::new(
            self.dir.join("meta"),
            self.listen("meta"),
            self.key.clone(),
            self.token_key.clone(),
        );
        let manager = MetaServer::start(config)
            .map_err(|error| Error::Invalid(format!("the manager did not start: {error}")))?;
        self.manager = Some(manager);
        Ok(())
    }

    /// Starts an I/O server, which must not be running.
    pub fn start_server(&mut self, server: u32) -> Result<()> {
        let config = IoConfig {
            server,
            cluster: 0,
            dirs: vec![self.dir.join(format!("io{server}"))],
            store: self.store.clone(),
            listen: self.listen(&format!("io{server}")),
            key: self.key.clone(),
            token_key: self.token_key.clone(),
            manager: Some(Endpoint::from_texts(&self.manager_addresses())),
        };
        let started = IoServer::start(config).map_err(|error| {
            Error::Invalid(format!("I/O server {server} did not start: {error}"))
        })?;
        self.servers[server as usize] = Some(started);
        Ok(())
    }

    /// Stops an I/O server cleanly.
    pub fn stop_server(&mut self, server: u32) -> Result<()> {
        match self.servers[server as usize].take() {
            Some(running) => running
                .stop()
                .map_err(|error| Error::Invalid(error.to_string())),
            None => Ok(()),
        }
    }

    fn manager_addresses(&self) -> Vec<String> {
        self.manager
            .as_ref()
            .map(|manager| {
                manager
                    .addresses()
                    .iter()
                    .map(ToString::to_string)
                    .collect()
            })
            .unwrap_or_default()
    }

    /// What other processes need to connect.
    pub fn descriptor(&self) -> Descriptor {
        Descriptor {
            manager: self.manager_addresses(),
            key: Some(self.key.to_text()),
            dir: Some(self.dir.clone()),
        }
    }

    /// A client of it.
    pub fn connect(&self) -> Result<Cluster> {
        self.connect_with(Options::default())
    }

    /// A client of it with other defaults.
    pub fn connect_with(&self, options: Options) -> Result<Cluster> {
        Cluster::connect(&self.descriptor(), options)
    }
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Embedded({} servers in {})",
            self.servers.len(),
            self.dir.display()
        )
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        for server in &mut self.servers {
            if let Some(running) = server.take()
                && let Err(error) = running.stop()
            {
                tracing::warn!("an embedded I/O server did not stop cleanly: {error}");
            }
        }
    }
}
