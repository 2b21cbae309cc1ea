//! The metadata manager as a process: [`trireme_meta::Manager`] behind sockets.
//!
//! One blocking thread per connection decodes calls; reads are answered on it, changes by the thread of
//! `answers.rs` once the commit queue has made them durable, many with one fsync. A peer that does not
//! read its answers gets them from a thread of its own, so that it holds up nobody else.

mod answers;
mod identity;
mod subfiles;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use trireme_meta::failure::Failure;
use trireme_meta::kv::{Engine, EngineError, Fjall, Redb};
use trireme_meta::manager::Who;
use trireme_meta::{Manager, Options};
use trireme_net::{Address, Handler, Link, Listener, ListenerConfig, Peer, random_u64};
use trireme_proto::hello::Role;
use trireme_proto::message::meta::{Call, LEASE_SECONDS, Request};
use trireme_proto::{Header, Key, Op, Refusal, refusal::errno};

use answers::Answers;

/// Which engine holds the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// fjall: faster commits.
    #[default]
    Fjall,
    /// redb: one file, faster scans.
    Redb,
}

/// What a metadata manager needs to know.
#[derive(Debug, Clone)]
pub struct MetaConfig {
    /// Its directory.
    pub dir: PathBuf,
    /// Which engine; an existing directory keeps its own.
    pub engine: EngineKind,
    /// Where it listens.
    pub listen: Vec<Address>,
    /// What strangers must prove to have.
    pub key: Key,
    /// What grants are signed with; the I/O servers have the same.
    pub token_key: Key,
    /// How long after a restart earlier clients may come back.
    pub grace: Duration,
}

impl MetaConfig {
    /// The usual.
    pub fn new(dir: PathBuf, listen: Vec<Address>, key: Key, token_key: Key) -> MetaConfig {
        MetaConfig {
            dir,
            engine: EngineKind::default(),
            listen,
            key,
            token_key,
            grace: Duration::from_secs(LEASE_SECONDS),
        }
    }
}

/// A running metadata manager.
pub struct MetaServer {
    listener: Listener,
    manager: Manager,
    incarnation: u64,
}

/// Why a manager did not start.
#[derive(Debug, thiserror::Error)]
pub enum MetaServerError {
    /// Its engine.
    #[error(
        "cannot open the metadata in {}: {source}; is another manager using it? (`trireme status`)",
        dir.display()
    )]
    Engine {
        /// Where.
        dir: PathBuf,
        /// Why.
        source: EngineError,
    },
    /// The file system in it.
    #[error("the metadata in {} cannot be used: {reason}", dir.display())]
    Namespace {
        /// Where.
        dir: PathBuf,
        /// Why.
        reason: Failure,
    },
    /// Its sockets or directory.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl MetaServer {
    /// Opens the engine and starts to listen.
    pub fn start(config: MetaConfig) -> Result<MetaServer, MetaServerError> {
        let engine = open_engine(&config)?;
        let incarnation = random_u64();
        let mut options = Options::new(config.token_key.clone());
        options.grace = config.grace;
        options.directory = Some(config.dir.clone());
        let owner = options.owner.uid;
        let manager =
            Manager::open(engine, options).map_err(|reason| MetaServerError::Namespace {
                dir: config.dir.clone(),
                reason,
            })?;
        let servers =
            subfiles::IoServers::new(manager.clone(), config.key.clone(), config.token_key);
        manager.connect_subfiles(Arc::new(servers));
        let listener = Listener::start(
            ListenerConfig {
                addresses: config.listen,
                key: config.key,
                role: Role::Manager,
                server: 0,
                cluster: manager.cluster(),
                incarnation: Arc::new(AtomicU64::new(incarnation)),
            },
            Arc::new(Shared {
                manager: manager.clone(),
                owner,
                answers: Answers::start()?,
            }),
        )?;
        Ok(MetaServer {
            listener,
            manager,
            incarnation,
        })
    }

    /// Where it really listens.
    pub fn addresses(&self) -> &[Address] {
        self.listener.addresses()
    }

    /// Another one at each start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The manager itself, for a process that embeds it.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Ends all connections; everything acknowledged is durable already.
    pub fn stop(mut self) {
        self.listener.stop();
        self.manager.clean_stop();
    }
}

fn open_engine(config: &MetaConfig) -> Result<Arc<dyn Engine>, MetaServerError> {
    std::fs::create_dir_all(&config.dir)?;
    let (fjall, redb) = (config.dir.join("fjall"), config.dir.join("redb"));
    let kind = if fjall.exists() {
        EngineKind::Fjall
    } else if redb.exists() {
        EngineKind::Redb
    } else {
        config.engine
    };
    let failed = |source| MetaServerError::Engine {
        dir: config.dir.clone(),
        source,
    };
    Ok(match kind {
        EngineKind::Fjall => {
            let engine = Fjall::open(&fjall).map_err(failed)?;
            Arc::new(engine.with_ballast(&config.dir.join("ballast")))
        }
        EngineKind::Redb => Arc::new(Redb::open(&redb).map_err(failed)?),
    })
}

/// Whether earlier answers may wait until this one is ready, too.
fn is_quick(request: &Request) -> bool {
    matches!(
        request,
        Request::Lookup { .. }
            | Request::GetAttr { .. }
            | Request::ReadLink { .. }
            | Request::GetXattr { .. }
            | Request::ListXattr { .. }
            | Request::Access { .. }
    )
}

struct Shared {
    manager: Manager,
    owner: u32,
    answers: Answers,
}

impl Handler for Shared {
    type Session = Who;

    fn connected(&self, peer: &Peer) -> Who {
        self.manager.connected(peer.client);
        identity::of(peer, self.owner)
    }

    fn request(
        &self,
        who: &mut Who,
        header: &Header,
        body: &[u8],
        link: &mut Link,
    ) -> Result<io::Result<()>, Refusal> {
        match header.op() {
            Op::META => {
                let call: Call = trireme_proto::decode(body)?;
                if !is_quick(&call.request)
                    && let Err(error) = link.flush()
                {
                    return Ok(Err(error));
                }
                let responder = link.responder(header);
                // Reads are answered before `submit` returns, on this connection's own thread, and leave
                // with the answers to all requests that came together.
                let own = std::thread::current().id();
                let answers = self.answers.clone();
                let answer = move |result| answers.give(responder, result, own);
                self.manager.submit(who, call, answer);
                Ok(Ok(()))
            }
            Op::PING => Ok(link.reply(header.reply())),
            Op(other) => Err(Refusal::new(
                errno::EOPNOTSUPP,
                format!("the metadata manager knows no request {other:#06x}"),
            )),
        }
    }

    fn disconnected(&self, who: Who, _peer: &Peer) {
        self.manager.disconnected(who.client);
    }
}
