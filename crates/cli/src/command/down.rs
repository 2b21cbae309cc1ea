//! `trireme down`: stops what `trireme up` started.

use crate::context::Context;
use crate::output;
use serde_json::json;
use std::path::PathBuf;

/// Stop a cluster on this machine; its data stays
#[derive(clap::Args)]
pub struct Args {
    /// Its directory; default: the cluster that `up` started last
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// Stops it.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let dir = match &args.dir {
        Some(dir) => dir.clone(),
        None => context.descriptor()?.dir.ok_or_else(|| {
            anyhow::anyhow!("the cluster is not on this machine: stop its servers where they run")
        })?,
    };
    let stopped = trireme::local::down(&dir)?;
    if context.json {
        output::print_json(&json!({ "dir": dir, "stopped": stopped }));
    } else if stopped == 0 {
        println!("nothing runs in {}", dir.display());
    } else {
        println!(
            "stopped {stopped} processes; the data stays in {}",
            dir.display()
        );
    }
    Ok(())
}
