//! Where a server listens, as text: `unix:/path/to/socket` or `tcp:host:port`.

use std::path::PathBuf;
use std::str::FromStr;

/// One way to reach a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket on this host.
    Unix(PathBuf),
    /// `host:port`.
    Tcp(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        match text.split_once(':') {
            Some(("unix", path)) if path.starts_with('/') => Ok(Address::Unix(path.into())),
            Some(("tcp", host)) if host.contains(':') => Ok(Address::Tcp(host.to_owned())),
            _ => Err(format!(
                "address \"{text}\" is neither unix:/path nor tcp:host:port"
            )),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(host) => write!(f, "tcp:{host}"),
        }
    }
}

/// All ways to reach one server; a Unix socket that exists here is tried before TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    addresses: Vec<Address>,
    /// The number that the server must show in its hello; `None`: any.
    pub server: Option<u32>,
    /// The cluster that the server must belong to; 0: any.
    pub cluster: u64,
}

impl Endpoint {
    /// An endpoint; Unix addresses move to the front.
    pub fn new(mut addresses: Vec<Address>) -> Endpoint {
        addresses.sort_by_key(|address| matches!(address, Address::Tcp(_)));
        Endpoint {
            addresses,
            server: None,
            cluster: 0,
        }
    }

    /// Parses the addresses of a cluster map; unreadable ones are left out.
    pub fn from_texts<S: AsRef<str>>(texts: &[S]) -> Endpoint {
        Endpoint::new(
            texts
                .iter()
                .filter_map(|text| text.as_ref().parse().ok())
                .collect(),
        )
    }

    /// The same without Unix sockets.
    pub fn network_only(mut self) -> Endpoint {
        self.addresses
            .retain(|address| matches!(address, Address::Tcp(_)));
        self
    }

    /// Addresses in the order in which they are tried.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(server) = self.server {
            write!(f, "I/O server {server} at ")?;
        }
        for (i, address) in self.addresses.iter().enumerate() {
            write!(f, "{}{address}", if i == 0 { "" } else { ", " })?;
        }
        if self.addresses.is_empty() {
            f.write_str("no address")
        } else {
            Ok(())
        }
    }
}
