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

use crate::context::{Context, Printing};

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
    Disk(Printing<disk::Args>),
    Growth(Printing<growth::Args>),
    Meta(Printing<meta::Args>),
    Patterns(patterns::Args),
    Mount(Printing<mount::Args>),
    Stream(Printing<stream::Args>),
    #[command(hide = true)]
    Worker(worker::Args),
}

/// Measures.
pub fn run(context: Context, args: Args) -> anyhow::Result<()> {
    match args.what {
        What::Btio(args) => btio::run(&context, &args),
        What::Cluster(args) => cluster::run(&context, &args),
        What::Disk(args) => args.run(context, disk::run),
        What::Growth(args) => args.run(context, growth::run),
        What::Meta(args) => args.run(context, meta::run),
        What::Patterns(args) => patterns::run(&context, &args),
        What::Mount(args) => args.run(context, mount::run),
        What::Stream(args) => args.run(context, stream::run),
        What::Worker(args) => worker::run(&context, &args),
    }
}
