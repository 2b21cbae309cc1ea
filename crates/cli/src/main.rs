//! The `trireme` binary: reads the command line and hands over to one file per command.

mod command;

use clap::Parser;

/// A parallel file system that you start without root, and a lab that simulates it.
#[derive(Parser)]
#[command(name = "trireme", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Demo(command::demo::Args),
    Lab(command::lab::Args),
    Serve(command::serve::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Demo(args) => command::demo::run(&args),
        Command::Lab(args) => command::lab::run(&args),
        Command::Serve(args) => command::serve::run(&args),
    }
}
