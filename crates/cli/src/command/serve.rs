//! `trireme serve`: one server in the foreground. `trireme up` starts these by itself.

use anyhow::Context as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use trireme_net::{Address, Endpoint};
use trireme_proto::Key;
use trireme_server::io::{IoConfig, IoServer};
use trireme_server::meta::{EngineKind, MetaConfig, MetaServer};
use trireme_server::signal::StopSignals;

/// Run one server in the foreground (`up` does this for you)
///
/// A cluster by hand, on several hosts: make a key file of 64 hexadecimal digits for all, another
/// one for the servers only, start `serve meta` on one host, then `serve io` where the disks are.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    /// The metadata manager
    Meta(Meta),
    /// An I/O server
    Io(Io),
}

#[derive(clap::Args)]
struct Common {
    /// Where to listen: unix:/path or tcp:host:port (port 0 picks one); repeat for more
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<String>,
    /// The cluster key, which clients have too; without it only loopback is listened on
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The key that only servers have
    #[arg(long, value_name = "FILE")]
    token_key_file: PathBuf,
    /// End when the process that started this one ends
    #[arg(long, hide = true)]
    with_parent: bool,
}

#[derive(clap::Args)]
struct Meta {
    /// Where the metadata is kept
    #[arg(long)]
    dir: PathBuf,
    /// Engine of a new directory; an existing one keeps its own
    #[arg(long, value_enum, default_value = "fjall")]
    engine: EngineName,
    /// Seconds after a restart in which earlier clients may come back before what they had open
    /// and others unlinked is removed
    #[arg(
        long,
        env = "TRIREME_GRACE",
        value_name = "SECONDS",
        default_value = "30",
        hide = true
    )]
    grace: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
struct Io {
    /// The server's number in the cluster, the same at each start
    #[arg(long)]
    id: u32,
    /// A directory on one of its disks; repeat for more
    #[arg(long, required = true)]
    dir: Vec<PathBuf>,
    /// Where the metadata manager is; repeat for more addresses of it
    #[arg(long, value_name = "ADDRESS", required = true)]
    manager: Vec<String>,
    /// What carries requests to the disks; `trireme bench disk` compares them
    #[arg(long, value_enum, default_value = "pread")]
    disk_engine: DiskEngine,
    /// Read and write past the page cache (O_DIRECT): for devices faster than a copy in memory
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum EngineName {
    /// Log-structured merge tree: faster commits
    Fjall,
    /// B-tree in one file: faster scans
    Redb,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DiskEngine {
    /// pread and pwrite
    Pread,
    /// io_uring: several requests at once for each large one
    Uring,
}

/// Runs until asked to stop.
pub fn run(args: &Args) -> anyhow::Result<()> {
    // Before any thread: only `wait` below sees the signals.
    let signals = StopSignals::block();
    let filter = tracing_subscriber::EnvFilter::try_from_env("TRIREME_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,fjall=warn,lsm_tree=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // It would complain on the standard error output that this cannot be written, and panic there: a
        // server whose disk is full goes on without its log.
        .log_internal_errors(false)
        .init();
    match &args.role {
        Role::Meta(meta) => {
            follow_parent(&meta.common);
            let (listen, key, token_key) = meta.common.read()?;
            let mut config = MetaConfig::new(meta.dir.clone(), listen, key, token_key);
            config.engine = match meta.engine {
                EngineName::Fjall => EngineKind::Fjall,
                EngineName::Redb => EngineKind::Redb,
            };
            config.grace = std::time::Duration::from_secs(meta.grace);
            let server = MetaServer::start(config)?;
            ready(server.addresses());
            signals.wait();
            server.stop();
        }
        Role::Io(io) => {
            follow_parent(&io.common);
            let (listen, key, token_key) = io.common.read()?;
            let server = IoServer::start(IoConfig {
                server: io.id,
                cluster: 0,
                dirs: io.dir.clone(),
                store: trireme_server::store::Options {
                    engine: match io.disk_engine {
                        DiskEngine::Pread => trireme_server::store::Engine::Pread,
                        DiskEngine::Uring => trireme_server::store::Engine::Uring,
                    },
                    direct: io.direct,
                    ..trireme_server::store::Options::default()
                },
                listen,
                key,
                token_key,
                manager: Some(Endpoint::from_texts(&io.manager)),
            })?;
            ready(server.addresses());
            signals.wait();
            server.stop()?;
        }
    }
    Ok(())
}

impl Common {
    fn read(&self) -> anyhow::Result<(Vec<Address>, Key, Key)> {
        let listen = self
            .listen
            .iter()
            .map(|text| text.parse().map_err(anyhow::Error::msg))
            .collect::<anyhow::Result<_>>()?;
        let key = match &self.key_file {
            Some(path) => read_key(path)?,
            None => Key::open(),
        };
        Ok((listen, key, read_key(&self.token_key_file)?))
    }
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("read the key file {}", path.display()))?;
    Key::from_text(&text).with_context(|| {
        format!(
            "{}: a key file holds 64 hexadecimal digits (openssl rand -hex 32)",
            path.display()
        )
    })
}

/// Tells whoever started us that clients can come, and where.
fn ready(addresses: &[Address]) {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    println!("ready {}", addresses.join(" "));
    let _ = std::io::stdout().flush();
}

fn follow_parent(common: &Common) {
    if common.with_parent {
        trireme_server::signal::stop_with_parent();
    }
}
