//! `trireme serve`: one server in this process; `trireme up` starts a whole cluster of them.

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use trireme_net::{Address, Endpoint};
use trireme_proto::Key;
use trireme_server::io::{IoConfig, IoServer};
use trireme_server::meta::{MetaConfig, MetaServer};
use trireme_server::signal::StopSignals;

/// Run one server in the foreground until Ctrl-C or SIGTERM, then stop cleanly.
///
/// Prints one line, `ready ADDRESS...`, once it answers. On many machines: run `serve meta` on one,
/// `serve io --id 0`, `--id 1`, ... on others, all with the same key files, and give
/// clients the manager's address with `--cluster tcp:HOST:PORT`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(clap::Subcommand)]
enum Role {
    Io(Io),
    Meta(Meta),
}

#[derive(clap::Args)]
struct Common {
    /// Where to listen: unix:/path or tcp:host:port (port 0 picks one); may be given several times
    #[arg(long = "listen", value_name = "ADDRESS", required = true)]
    listen: Vec<Address>,
    /// File with the cluster key, 64 hexadecimal digits; needed to listen beyond this host
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with the key that only servers have: the manager signs with it what clients may do
    #[arg(long, value_name = "FILE")]
    token_key_file: PathBuf,
    /// Stop when the process that started this one ends
    #[arg(long, hide = true)]
    with_parent: bool,
}

/// An I/O server: stores its share of each file in local directories.
#[derive(clap::Args)]
struct Io {
    /// Number of this server; stays with its data for ever
    #[arg(long)]
    id: u32,
    /// A directory ("disk") to store in; may be given several times
    #[arg(long = "dir", value_name = "DIR", required = true)]
    dirs: Vec<PathBuf>,
    /// Address of the metadata manager; may be given several times
    #[arg(long = "manager", value_name = "ADDRESS", required = true)]
    manager: Vec<Address>,
    #[command(flatten)]
    common: Common,
}

/// The metadata manager: names, layouts, locks.
#[derive(clap::Args)]
struct Meta {
    /// Directory for the metadata
    #[arg(long = "dir", value_name = "DIR")]
    dir: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// Runs the server.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let signals = StopSignals::block();
    match &args.role {
        Role::Io(io) => {
            let common = io.common.prepare()?;
            let server = IoServer::start(IoConfig {
                server: io.id,
                cluster: 0,
                dirs: io.dirs.clone(),
                listen: io.common.listen.clone(),
                key: common.0,
                token_key: common.1,
                manager: Some(Endpoint::new(io.manager.clone())),
            })?;
            ready(server.addresses())?;
            signals.wait();
            server.stop()?;
        }
        Role::Meta(meta) => {
            let common = meta.common.prepare()?;
            let config = MetaConfig::new(
                meta.dir.clone(),
                meta.common.listen.clone(),
                common.0,
                common.1,
            );
            let server = MetaServer::start(config)?;
            ready(server.addresses())?;
            signals.wait();
            server.stop();
        }
    }
    Ok(())
}

impl Common {
    fn prepare(&self) -> anyhow::Result<(Key, Key)> {
        if self.with_parent {
            trireme_server::signal::stop_with_parent();
        }
        let key = self.key_file.as_deref().map_or(Ok(Key::open()), read_key)?;
        Ok((key, read_key(&self.token_key_file)?))
    }
}

fn read_key(path: &Path) -> anyhow::Result<Key> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read the key file {}", path.display()))?;
    Key::from_text(&text)
        .with_context(|| format!("{}: a key is 64 hexadecimal digits", path.display()))
}

/// Tells whoever started this process; a closed pipe is nobody listening.
fn ready(addresses: &[Address]) -> anyhow::Result<()> {
    let words: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "ready {}", words.join(" "));
    let _ = out.flush();
    Ok(())
}
