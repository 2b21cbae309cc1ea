//! `trireme bench`: what the system does, beside what the machine can do, in the same run.

mod crew;
mod growth;
mod meta;
mod mount;
mod stream;

use crate::context::Context;

/// Measure, beside the same work done directly on the local file system
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Growth(growth::Args),
    Meta(meta::Args),
    Mount(mount::Args),
    Stream(stream::Args),
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Growth(args) => growth::run(context, args),
        What::Meta(args) => meta::run(context, args),
        What::Mount(args) => mount::run(context, args),
        What::Stream(args) => stream::run(context, args),
    }
}
