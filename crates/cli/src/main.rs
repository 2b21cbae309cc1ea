//! The `trireme` binary: reads the command line and hands over to one file per command.

mod command;
mod context;
mod name;
mod output;

use clap::{CommandFactory, Parser};
use context::Context;

const EXAMPLES: &str = "\
Names on the cluster are written trireme:/path; a bare /path will do where only a cluster name
makes sense. The cluster is found through --cluster, $TRIREME_CLUSTER, or what `trireme up` left.

Try:
  trireme up --servers 4 --dir /tmp/t --detach   start a cluster
  trireme cp -r results trireme:/                copy a directory in
  trireme ls -l /results                         look at it
  trireme where /results/big                     see which bytes lie on which server
  trireme down --dir /tmp/t                      stop; the data stays";

/// A parallel file system that you start without root, and a lab that simulates it.
#[derive(Parser)]
#[command(name = "trireme", version, about, after_help = EXAMPLES)]
struct Cli {
    #[command(flatten)]
    context: Context,
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Advise(command::advise::Args),
    Demo(command::demo::Args),
    Up(command::up::Args),
    Down(command::down::Args),
    Status(command::status::Args),
    Ls(command::ls::Args),
    Cp(command::cp::Args),
    Cat(command::cat::Args),
    Rm(command::rm::Args),
    Mv(command::mv::Args),
    Mkdir(command::mkdir::Args),
    Stat(command::stat::Args),
    Where(command::where_is::Args),
    Df(command::df::Args),
    Sync(command::sync::Args),
    Fsck(command::fsck::Args),
    Bench(command::bench::Args),
    Serve(command::serve::Args),
    Lab(command::lab::Args),
    Pios(command::pios::Args),
    Queueing(command::queueing::Args),
    Completions(command::completions::Args),
    Man(command::man::Args),
}

fn main() -> std::process::ExitCode {
    // A reader that closes its end (`trireme ls | head`) ends us as it ends any other program.
    restore_sigpipe();
    let cli = Cli::parse();
    let context = &cli.context;
    let result = match cli.command {
        Command::Advise(args) => command::advise::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Up(args) => command::up::run(context, &args),
        Command::Down(args) => command::down::run(context, &args),
        Command::Status(args) => command::status::run(context, &args),
        Command::Ls(args) => command::ls::run(context, &args),
        Command::Cp(args) => command::cp::run(context, &args),
        Command::Cat(args) => command::cat::run(context, &args),
        Command::Rm(args) => command::rm::run(context, &args),
        Command::Mv(args) => command::mv::run(context, &args),
        Command::Mkdir(args) => command::mkdir::run(context, &args),
        Command::Stat(args) => command::stat::run(context, &args),
        Command::Where(args) => command::where_is::run(context, &args),
        Command::Df(args) => command::df::run(context, &args),
        Command::Sync(args) => command::sync::run(context, &args),
        Command::Fsck(args) => command::fsck::run(context, &args),
        Command::Bench(args) => command::bench::run(context, &args),
        Command::Serve(args) => command::serve::run(&args),
        Command::Lab(args) => command::lab::run(&args),
        Command::Pios(args) => command::pios::run(&args),
        Command::Queueing(args) => command::queueing::run(&args),
        Command::Completions(args) => command::completions::run(&args, Cli::command()),
        Command::Man(args) => command::man::run(&args, Cli::command()),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trireme: {}", output::error(&error));
            std::process::ExitCode::FAILURE
        }
    }
}

fn restore_sigpipe() {
    // SAFETY: called before any thread is started; the default action is a constant.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
