//! The `trireme` binary: reads the command line and hands over to one file per command.

mod command;
mod context;
mod mount_helper;
mod name;
mod output;

use clap::{CommandFactory, Parser};
use context::{Context, Printing};

const EXAMPLES: &str = "\
Names on the cluster are written trireme:/path; a bare /path will do where only a cluster name
makes sense. The cluster is found through --cluster, $TRIREME_CLUSTER, or what `trireme up` left.

Try:
  trireme up --servers 4 --dir /tmp/t --detach   start a cluster
  trireme cp -r results trireme:/                copy a directory in
  trireme ls -l /results                         look at it
  trireme where /results/big                     see which bytes lie on which server
  trireme mount /mnt                             any program can use it
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
    Up(Printing<command::up::Args>),
    Down(Printing<command::down::Args>),
    Status(Printing<command::status::Args>),
    Ls(Printing<command::ls::Args>),
    Cp(Printing<command::cp::Args>),
    Cat(Printing<command::cat::Args>),
    Rm(Printing<command::rm::Args>),
    Mv(Printing<command::mv::Args>),
    Mkdir(Printing<command::mkdir::Args>),
    Stat(Printing<command::stat::Args>),
    Where(Printing<command::where_is::Args>),
    Df(Printing<command::df::Args>),
    Sync(Printing<command::sync::Args>),
    Fsck(Printing<command::fsck::Args>),
    Mount(Printing<command::mount::Args>),
    Umount(command::umount::Args),
    Bench(command::bench::Args),
    MpiRun(command::mpi_run::Args),
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
    let words = std::env::args_os().collect();
    let is_command = |word: &std::ffi::OsStr| Cli::command().find_subcommand(word).is_some();
    let words = match mount_helper::translate(words, is_command) {
        Ok(Some(words)) => words,
        Ok(None) => return std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trireme: {}", output::error(&error));
            return std::process::ExitCode::FAILURE;
        }
    };
    let cli = Cli::parse_from(&words);
    let mut context = cli.context;
    context.words = words;
    let result = match cli.command {
        Command::Advise(args) => command::advise::run(&args),
        Command::Demo(args) => command::demo::run(&args),
        Command::Up(args) => args.run(context, command::up::run),
        Command::Down(args) => args.run(context, command::down::run),
        Command::Status(args) => args.run(context, command::status::run),
        Command::Ls(args) => args.run(context, command::ls::run),
        Command::Cp(args) => args.run(context, command::cp::run),
        Command::Cat(args) => args.run(context, command::cat::run),
        Command::Rm(args) => args.run(context, command::rm::run),
        Command::Mv(args) => args.run(context, command::mv::run),
        Command::Mkdir(args) => args.run(context, command::mkdir::run),
        Command::Stat(args) => args.run(context, command::stat::run),
        Command::Where(args) => args.run(context, command::where_is::run),
        Command::Df(args) => args.run(context, command::df::run),
        Command::Sync(args) => args.run(context, command::sync::run),
        Command::Fsck(args) => args.run(context, command::fsck::run),
        Command::Mount(args) => args.run(context, command::mount::run),
        Command::Umount(args) => command::umount::run(&context, &args),
        Command::Bench(args) => command::bench::run(context, args),
        Command::MpiRun(args) => command::mpi_run::run(&context, &args),
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
