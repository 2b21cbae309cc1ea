//! `trireme mv`: renames, atomically.

use crate::context::Context;
use crate::name::on_cluster;
use crate::output;
use anyhow::Context as _;
use serde_json::json;
use std::ffi::OsString;
use trireme_proto::message::meta::{Kind, RenameMode};

/// Rename files and directories, atomically replacing what has the new name
///
/// To a directory that exists, names move into it.
#[derive(clap::Args)]
pub struct Args {
    /// What to move, and last where to
    #[arg(required = true, num_args = 2..)]
    names: Vec<OsString>,
    /// Fail when the new name is taken
    #[arg(short, long)]
    no_clobber: bool,
    /// Swap the two names
    #[arg(long, conflicts_with = "no_clobber")]
    exchange: bool,
}

/// Renames.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let namespace = context.connect()?.namespace();
    let mut paths = args
        .names
        .iter()
        .map(|name| on_cluster(name))
        .collect::<Result<Vec<_>, _>>()?;
    let target = paths.pop().expect("at least two names");
    let into = !args.exchange
        && namespace
            .stat(&target)
            .is_ok_and(|entry| entry.attr.kind == Kind::Directory);
    anyhow::ensure!(
        into || paths.len() == 1,
        "{}: is not a directory, so only one name can move there",
        target.display()
    );
    let mode = match (args.exchange, args.no_clobber) {
        (true, _) => RenameMode::Exchange,
        (_, true) => RenameMode::NoReplace,
        _ => RenameMode::Replace,
    };
    let mut moved = Vec::new();
    for path in paths {
        let to = match path.file_name() {
            Some(name) if into => target.join(name),
            _ => target.clone(),
        };
        namespace
            .rename_with(&path, &to, mode)
            .map_err(trireme::at(&path))
            .with_context(|| format!("to {}", to.display()))?;
        moved.push(json!({ "from": path.to_string_lossy(), "to": to.to_string_lossy() }));
    }
    if context.json {
        output::print_json(&json!({ "moved": moved }));
    }
    Ok(())
}
