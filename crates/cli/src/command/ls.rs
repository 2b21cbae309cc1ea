//! `trireme ls`: lists directories.

use crate::context::Context;
use crate::name::all_on_cluster;
use crate::output;
use std::ffi::OsString;
use std::path::Path;
use trireme::Cluster;
use trireme_proto::message::meta::{DirEntry, Entry, Kind};

/// List directories on the cluster
#[derive(clap::Args)]
pub struct Args {
    /// What to list
    #[arg(default_value = "/")]
    names: Vec<OsString>,
    /// Mode, links, owner, size and time of each entry
    #[arg(short, long)]
    long: bool,
    /// The directory itself, not what is in it
    #[arg(short, long)]
    directory: bool,
    /// Directories below directories too
    #[arg(short = 'R', long)]
    recursive: bool,
}

/// Lists.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let cluster = context.connect()?;
    let mut json = Vec::new();
    for path in paths {
        let entry = cluster.lstat(&path)?;
        if entry.attr.kind != Kind::Directory || args.directory {
            show(context, args, &path, b"", &entry, &mut json);
        } else {
            if args.names.len() > 1 && !args.recursive && !context.json {
                println!("{}:", path.display());
            }
            list(context, args, &cluster, &path, &mut json)?;
        }
    }
    if context.json {
        output::print_json(&json.into());
    }
    Ok(())
}

fn list(
    context: &Context,
    args: &Args,
    cluster: &Cluster,
    path: &Path,
    json: &mut Vec<serde_json::Value>,
) -> anyhow::Result<()> {
    use std::os::unix::ffi::OsStrExt;
    if args.recursive && !context.json {
        println!("{}:", path.display());
    }
    let entries = cluster.read_dir(path)?;
    for DirEntry { name, attr, .. } in &entries {
        let Some(attr) = attr else { continue };
        let entry = Entry {
            attr: attr.clone(),
            layout: None,
        };
        let below = path.join(std::ffi::OsStr::from_bytes(name));
        show(context, args, &below, name, &entry, json);
    }
    if args.recursive {
        for DirEntry { name, kind, .. } in &entries {
            if *kind == Kind::Directory {
                if !context.json {
                    println!();
                }
                list(
                    context,
                    args,
                    cluster,
                    &path.join(std::ffi::OsStr::from_bytes(name)),
                    json,
                )?;
            }
        }
    }
    Ok(())
}

fn show(
    context: &Context,
    args: &Args,
    path: &Path,
    name: &[u8],
    entry: &Entry,
    json: &mut Vec<serde_json::Value>,
) {
    use std::os::unix::ffi::OsStrExt;
    if context.json {
        json.push(output::entry_json(&path.to_string_lossy(), entry));
        return;
    }
    let shown = output::name(if name.is_empty() {
        path.as_os_str().as_bytes()
    } else {
        name
    });
    if args.long {
        let attr = &entry.attr;
        println!(
            "{} {:>3} {:>5} {:>5} {:>12} {} {shown}",
            output::mode(attr),
            attr.nlink,
            attr.uid,
            attr.gid,
            attr.size,
            output::time(attr.mtime),
        );
    } else {
        println!("{shown}");
    }
}
