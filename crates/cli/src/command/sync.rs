//! `trireme sync`: makes files durable.

use crate::context::Context;
use crate::name::all_on_cluster;
use anyhow::Context as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use trireme::Cluster;
use trireme_proto::message::meta::Kind;

/// Make files durable: their bytes survive a power cut when this returns
///
/// Names and attributes are always durable. Directories mean everything below them.
#[derive(clap::Args)]
pub struct Args {
    /// Files and directories; default: everything
    #[arg(default_value = "/")]
    names: Vec<OsString>,
}

/// Syncs.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let cluster = context.connect()?;
    let mut synced = 0;
    for path in paths {
        match cluster.stat(&path)?.attr.kind {
            Kind::Directory => sync_tree(&cluster, &path, &mut synced)?,
            Kind::File => sync_file(&cluster, &path, &mut synced)?,
            _ => {}
        }
    }
    // Names that a mount changed last.
    cluster.namespace().sync()?;
    if context.json {
        crate::output::print_json(&serde_json::json!({ "synced": synced }));
    }
    Ok(())
}

fn sync_file(cluster: &Cluster, path: &Path, synced: &mut u64) -> anyhow::Result<()> {
    let file = match cluster.open(path.as_os_str().as_bytes()) {
        // Gone since it was listed.
        Err(error) if error.errno() == 2 => return Ok(()),
        file => file?,
    };
    file.sync().with_context(|| format!("{}", path.display()))?;
    *synced += 1;
    Ok(())
}

fn sync_tree(cluster: &Cluster, path: &Path, synced: &mut u64) -> anyhow::Result<()> {
    for entry in cluster.namespace().read_dir(path)? {
        let below: PathBuf = path.join(OsStr::from_bytes(&entry.name));
        match entry.kind {
            Kind::Directory => sync_tree(cluster, &below, synced)?,
            Kind::File => sync_file(cluster, &below, synced)?,
            _ => {}
        }
    }
    Ok(())
}
