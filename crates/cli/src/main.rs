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
    Advise(command::advise::Args),
    Demo(command::demo::Args),
    Lab(command::lab::Args),
    Pios(command::pios::Args),
    Queueing(command::queueing::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Advise(args) => command::advise::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Lab(args) => command::lab::run(&args),
        Command::Pios(args) => command::pios::run(&args),
        Command::Queueing(args) => command::queueing::run(&args),
    }
}
