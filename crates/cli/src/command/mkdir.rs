//! `trireme mkdir`: makes directories, with the layout that files in them inherit.

use crate::context::Context;
use crate::name::all_on_cluster;
use crate::output;
use std::ffi::OsString;
use std::path::Path;
use trireme::{LayoutWish, Namespace};

const EEXIST: i32 = 17;

/// Make directories, with the layout that files in them inherit
#[derive(clap::Args)]
pub struct Args {
    /// The directories
    #[arg(required = true)]
    names: Vec<OsString>,
    /// Directories above it too; no error when it exists
    #[arg(short, long)]
    parents: bool,
    /// Permission bits, octal; by default 755, or what a default access control list above gives of 777
    #[arg(short, long, value_parser = octal)]
    mode: Option<u32>,
    #[command(flatten)]
    layout: LayoutArgs,
}

/// How new files are spread over the I/O servers.
#[derive(clap::Args)]
pub struct LayoutArgs {
    /// Stripe unit: so many bytes to one server, then on to the next
    #[arg(long, value_name = "SIZE", value_parser = output::parse_bytes)]
    unit: Option<u64>,
    /// Spread over so many servers
    #[arg(long, value_name = "N", conflicts_with = "on")]
    count: Option<u32>,
    /// Spread over exactly these servers, in this order
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    on: Option<Vec<u32>>,
    /// Which of them gets the first stripe unit (0 is the first)
    #[arg(long, value_name = "K")]
    first: Option<u32>,
}

impl LayoutArgs {
    /// As the library takes it.
    pub fn wish(&self) -> LayoutWish {
        LayoutWish {
            unit: self.unit,
            count: self.count,
            servers: self.on.clone(),
            first: self.first,
        }
    }
}

fn octal(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).map_err(|e| format!("{text}: {e}"))?;
    if mode <= 0o7777 {
        Ok(mode)
    } else {
        Err(format!("{text}: at most 7777"))
    }
}

/// Makes them.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let paths = all_on_cluster(&args.names)?;
    let (mode, umask) = args.mode.map_or((0o777, 0o022), |mode| (mode, 0));
    let namespace = context.connect()?.namespace().masking(umask);
    let wish = args.layout.wish();
    for path in &paths {
        if args.parents {
            make_all(&namespace, path, mode)?;
        } else {
            namespace.mkdir(path, mode).map_err(trireme::at(path))?;
        }
        if wish != LayoutWish::default() {
            namespace.set_layout(path, wish.clone())?;
        }
    }
    if context.json {
        let made: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        output::print_json(&serde_json::json!({ "made": made }));
    }
    Ok(())
}

/// Makes a directory and those above it; what exists stays as it is.
pub fn make_all(namespace: &Namespace, path: &Path, mode: u32) -> anyhow::Result<()> {
    if path.parent().is_none() {
        return Ok(());
    }
    match namespace.mkdir(path, mode) {
        Ok(_) => Ok(()),
        Err(error) if error.errno() == EEXIST => Ok(()),
        Err(error) if error.errno() == 2 => {
            make_all(namespace, path.parent().unwrap_or(Path::new("/")), mode)?;
            match namespace.mkdir(path, mode) {
                Err(error) if error.errno() != EEXIST => Err(trireme::at(path)(error).into()),
                _ => Ok(()),
            }
        }
        Err(error) => Err(trireme::at(path)(error).into()),
    }
}
