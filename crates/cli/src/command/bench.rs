//! `trireme bench`: what the system does, beside what the machine can do, in the same run.

mod btio;
mod cluster;
mod crew;
mod disk;
mod emulated;
mod growth;
mod meta;
mod mount;
mod mpi;
mod patterns;
mod process;
mod squad;
mod stream;
mod sweep;
mod target;
mod words;
mod worker;

use crate::context::Context;

/// Measure, beside the same work done directly on the local file system
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Btio(btio::Args),
    Cluster(cluster::Args),
    Disk(disk::Args),
    Growth(growth::Args),
    Meta(meta::Args),
    Patterns(patterns::Args),
    Mount(mount::Args),
    Stream(stream::Args),
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    match &args.what {
        What::Btio(args) => btio::run(context, args),
        What::Cluster(args) => cluster::run(context, args),
        What::Disk(args) => disk::run(context, args),
        What::Growth(args) => growth::run(context, args),
        What::Meta(args) => meta::run(context, args),
        What::Patterns(args) => patterns::run(context, args),
        What::Mount(args) => mount::run(context, args),
        What::Stream(args) => stream::run(context, args),
        What::Worker(args) => worker::run(context, args),
    }
}
