//! `trireme rm`: removes files and trees.

use crate::context::Context;
use crate::name::all_on_cluster;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use trireme::Cluster;
use trireme::namespace::{IN_FLIGHT, place};
use trireme_proto::message::meta::{Kind, Request};

const ENOENT: i32 = 2;

/// Remove files, or whole trees with -r
#[derive(clap::Args)]
pub struct Args {
    /// What to remove
    #[arg(required = true)]
    names: Vec<OsString>,
    /// Directories and everything below them
    #[arg(short, long)]
    recursive: bool,
    /// No error when a name does not exist
    #[arg(short, long)]
    force: bool,
}

/// Removes.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let cluster = context.connect()?;
    let removed = AtomicU64::new(0);
    for path in paths {
        let entry = match cluster.lstat(&path) {
            Err(error) if error.errno() == ENOENT && args.force => continue,
            result => result?,
        };
        if entry.attr.kind == Kind::Directory {
            anyhow::ensure!(
                args.recursive,
                "{}: is a directory; remove it and everything below it with -r",
                path.display()
            );
            anyhow::ensure!(
                path != Path::new("/"),
                "/: the root stays; name what is in it, as in trireme rm -r /results"
            );
            remove_tree(&cluster, &path, &removed)?;
        } else {
            cluster
                .namespace()
                .unlink(&path)
                .map_err(trireme::at(&path))?;
            removed.fetch_add(1, Ordering::Relaxed);
        }
    }
    if context.json {
        crate::output::print_json(&serde_json::json!({ "removed": removed.into_inner() }));
    }
    Ok(())
}

/// Removes a directory and everything below it; files of one directory together.
pub fn remove_tree(cluster: &Cluster, path: &Path, removed: &AtomicU64) -> anyhow::Result<()> {
    let namespace = cluster.namespace();
    // Again until empty: others may add names meanwhile.
    loop {
        let (files, directories): (Vec<_>, Vec<_>) = namespace
            .read_dir(path)?
            .into_iter()
            .partition(|entry| entry.kind != Kind::Directory);
        for directory in &directories {
            remove_tree(
                cluster,
                &path.join(OsStr::from_bytes(&directory.name)),
                removed,
            )?;
        }
        let unlinks = files.iter().map(|file| Request::Unlink {
            place: place(path.join(OsStr::from_bytes(&file.name))),
        });
        let mut failed = None;
        namespace.change_many(unlinks, IN_FLIGHT, |number, answer| match answer {
            Err(error) if error.errno() != ENOENT => failed = Some((number, error)),
            _ => _ = removed.fetch_add(1, Ordering::Relaxed),
        });
        if let Some((number, error)) = failed {
            let name = path.join(OsStr::from_bytes(&files[number].name));
            return Err(trireme::at(&name)(error).into());
        }
        if files.is_empty() && directories.is_empty() {
            break;
        }
    }
    match namespace.rmdir(path) {
        Err(error) if error.errno() != ENOENT => Err(trireme::at(path)(error).into()),
        _ => {
            removed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }
}
