//! `trireme stat`: everything that is known of a name.

use crate::context::Context;
use crate::name::all_on_cluster;
use crate::output;
use std::ffi::OsString;

/// Show everything that is known of a name: attributes and layout
#[derive(clap::Args)]
pub struct Args {
    /// The names
    #[arg(required = true)]
    names: Vec<OsString>,
    /// What a symbolic link leads to, not the link
    #[arg(short = 'L', long)]
    follow: bool,
}

/// Shows.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let cluster = context.connect()?;
    let mut json = Vec::new();
    for path in paths {
        let entry = if args.follow {
            cluster.stat(&path)?
        } else {
            cluster.lstat(&path)?
        };
        let shown = path.to_string_lossy();
        if context.json {
            json.push(output::entry_json(&shown, &entry));
            continue;
        }
        let attr = &entry.attr;
        println!("path    {shown}");
        println!(
            "kind    {}, inode {}, {} links",
            output::kind(attr.kind),
            attr.inode,
            attr.nlink
        );
        println!("size    {} ({})", attr.size, output::bytes(attr.size));
        println!(
            "mode    {} ({:04o})  user {}  group {}",
            output::mode(attr),
            attr.mode,
            attr.uid,
            attr.gid
        );
        for (what, time) in [
            ("read", attr.atime),
            ("written", attr.mtime),
            ("changed", attr.ctime),
            ("born", attr.btime),
        ] {
            println!("{what:<7} {} UTC", output::time(time));
        }
        if let Some(layout) = &entry.layout {
            println!(
                "layout  units of {} over servers {:?}, the first unit on server {}",
                output::bytes(layout.unit),
                layout.servers,
                layout
                    .servers
                    .get(layout.first as usize)
                    .copied()
                    .unwrap_or(0)
            );
        }
    }
    if context.json {
        output::print_json(&json.into());
    }
    Ok(())
}
