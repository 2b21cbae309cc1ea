//! The I/O server: answers requests for bytes of subfiles.
//!
//! One blocking thread per connection; a buffer of [`BUFFER`] bytes per busy connection is all the
//! memory that data can take, whatever clients send. One request, one file, in `request/`.

mod buffer;
mod directed;
mod group;
mod register;
mod request;
mod session;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use trireme_net::{
    Address, Deadline, Endpoint, Handler, Link, Listener, ListenerConfig, NetError, Peer,
};
use trireme_proto::hello::Role;
use trireme_proto::message::meta::ServerInfo;
use trireme_proto::{Header, Key, Op, Refusal, limits, refusal::errno};
use trireme_store::{Store, StoreError};

pub use buffer::BUFFER;
use register::Registration;
use session::Session;

/// What an I/O server needs to know.
#[derive(Debug, Clone)]
pub struct IoConfig {
    /// Its number in the cluster.
    pub server: u32,
    /// The cluster's number; 0: take what the disks say.
    pub cluster: u64,
    /// Its disks.
    pub dirs: Vec<PathBuf>,
    /// How it works with them.
    pub store: trireme_store::Options,
    /// Where it listens.
    pub listen: Vec<Address>,
    /// What strangers must prove to have.
    pub key: Key,
    /// What the manager signs grants with.
    pub token_key: Key,
    /// Where to register; `None`: nowhere.
    pub manager: Option<Endpoint>,
}

/// A running I/O server.
#[derive(Debug)]
pub struct IoServer {
    _registration: Option<Registration>,
    listener: Listener,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    store: Store,
    token_key: Key,
    groups: group::Groups,
    turns: Arc<directed::Turns>,
}

impl IoServer {
    /// Opens the disks, starts to listen and registers with the manager.
    pub fn start(config: IoConfig) -> Result<IoServer, IoServerError> {
        crate::descriptors::raise_limit();
        let store = Store::open_with(&config.dirs, config.server, config.cluster, &config.store)?;
        let incarnation = store.incarnation();
        let shared = Arc::new(Shared {
            store,
            token_key: config.token_key,
            groups: group::Groups::default(),
            turns: Arc::default(),
        });
        let listener = Listener::start(
            ListenerConfig {
                addresses: config.listen,
                key: config.key.clone(),
                role: Role::Io,
                server: config.server,
                cluster: config.cluster,
                incarnation,
            },
            shared.clone(),
        )?;
        let info = ServerInfo {
            id: config.server,
            addresses: listener
                .addresses()
                .iter()
                .map(ToString::to_string)
                .collect(),
            incarnation: shared.store.incarnation().load(Ordering::Relaxed),
        };
        let deadline = Deadline::after(limits::CALL_TIME);
        let registration = config
            .manager
            .map(|manager| Registration::start(manager, config.key, info, deadline))
            .transpose()?;
        Ok(IoServer {
            _registration: registration,
            listener,
            shared,
        })
    }

    /// Where it really listens.
    pub fn addresses(&self) -> &[Address] {
        self.listener.addresses()
    }

    /// Changes whenever acknowledged bytes may have been lost.
    pub fn incarnation(&self) -> u64 {
        self.shared.store.incarnation().load(Ordering::Relaxed)
    }

    /// Ends all connections, writes everything to the disks and marks them clean.
    pub fn stop(mut self) -> Result<(), IoServerError> {
        self.listener.stop();
        Ok(self.shared.store.stop()?)
    }
}

/// Why an I/O server did not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum IoServerError {
    /// Its disks.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its sockets.
    #[error(transparent)]
    Listen(#[from] io::Error),
    /// The manager.
    #[error("cannot register with the manager: {0}")]
    Register(#[from] NetError),
}

impl Handler for Shared {
    type Session = Session;

    fn connected(&self, _peer: &Peer) -> Session {
        Session::default()
    }

    fn request(
        &self,
        session: &mut Session,
        header: &Header,
        body: &[u8],
        link: &mut Link,
    ) -> Result<io::Result<()>, Refusal> {
        let call = request::Call {
            shared: self,
            header,
            body,
        };
        match header.op() {
            Op::READ => request::read::run(&call, session, link),
            Op::WRITE => request::write::run(&call, session, link),
            Op::READ_VIEW => request::view::read(&call, session, link),
            Op::WRITE_VIEW => request::view::write(&call, session, link),
            Op::STAT => request::stat::run(&call, session, link),
            Op::TRUNCATE => request::truncate::run(&call, session, link),
            Op::SYNC => request::sync::run(&call, session, link),
            Op::REMOVE => request::remove::run(&call, session, link),
            Op::SPACE => request::space::run(&call, link),
            Op::LIST => request::list::run(&call, link),
            Op::WINDOW => request::window::run(&call, session, link),
            Op::LEND => request::lend::run(&call, session, link),
            Op::ALLOCATE => request::allocate::run(&call, session, link),
            Op::SEEK => request::allocate::seek(&call, session, link),
            Op::JOIN => request::group::join(&call, link),
            Op::LANE => request::group::lane(&call, link),
            Op::GATHER => request::group::gather(&call, link),
            Op::ABSENT => request::group::absent(&call, link),
            Op::COLLECTIVE => request::collective::run(&call, session, link),
            Op::PING => Ok(link.reply(header.reply())),
            Op(other) => Err(Refusal::new(
                errno::EOPNOTSUPP,
                format!("an I/O server knows no request {other:#06x}"),
            )),
        }
    }
}

fn refusal(error: StoreError) -> Refusal {
    Refusal::new(error.errno(), error.to_string())
}
