//! `trireme mount`: the cluster as a directory that any program can use.

mod guard;

use crate::context::Context;
use anyhow::Context as _;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use trireme_fuse::{Mount, Options};
use trireme_server::signal::StopSignals;

/// Mount the cluster on a directory: any program can use it
///
/// Needs root, or fusermount3 (Debian: package fuse3). Returns when it is mounted; `trireme umount`
/// takes it away. What one mount wrote and closed, every other sees when it opens the file;
/// docs/mount.md says what else is promised, and what is not supported.
#[derive(clap::Args)]
pub struct Args {
    /// The directory to mount on; must be there
    dir: PathBuf,
    /// Stay here and serve until it is unmounted or Ctrl-C
    #[arg(long)]
    foreground: bool,
    /// Seconds for which the kernel may believe names and attributes without asking
    #[arg(long, value_name = "SECONDS", default_value = "1")]
    cache: f64,
    /// Cache nothing: names, attributes and bytes are asked for each time
    #[arg(long)]
    no_cache: bool,
    /// Let other users in; the default for root, others need user_allow_other in /etc/fuse.conf
    #[arg(long, conflicts_with = "only_me")]
    allow_other: bool,
    /// Let no other users in, not even as root
    #[arg(long)]
    only_me: bool,
    /// Nothing can be changed through this mount
    #[arg(long)]
    read_only: bool,
    /// Reading leaves access times alone
    #[arg(long)]
    no_atime: bool,
    /// Set-id bits of programs count for nothing
    #[arg(long)]
    no_suid: bool,
    /// Device nodes cannot be opened
    #[arg(long)]
    no_dev: bool,
    /// Programs cannot be started from it
    #[arg(long)]
    no_exec: bool,
    /// Take requests from /dev/fuse, not through io_uring, even if the kernel and root allow that
    #[arg(long)]
    no_io_uring: bool,
    /// Spread new files over all I/O servers even where these share one disk of this host; else each is on one
    /// of them there, and read at the disk's and memory's own speed
    #[arg(long)]
    striped: bool,
    /// Change a mount that is there: read-only or not, and what it does not let programs do
    #[arg(long)]
    remount: bool,
    /// Say nothing when it is mounted
    #[arg(long, hide = true)]
    quiet: bool,
    /// Where the mount writes what went wrong, when it does not stay here
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Tell the process that started this one when it is mounted
    #[arg(long, hide = true)]
    notify: bool,
    /// End the mount when this process, which serves it, is no more
    #[arg(long, hide = true, value_name = "PROCESS")]
    guard: Option<u32>,
}

/// Mounts.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.cache.is_finite() && (0.0..=3600.0).contains(&args.cache),
        "--cache {}: between 0 and 3600 seconds",
        args.cache
    );
    if let Some(process) = args.guard {
        guard::run(process)
    } else if args.remount {
        remount(args)
    } else if args.foreground || args.notify {
        serve(context, args)
    } else {
        detach(context, args)
    }
}

fn options(args: &Args) -> Options {
    let defaults = Options::default();
    Options {
        ttl: if args.no_cache {
            Duration::ZERO
        } else {
            Duration::from_secs_f64(args.cache)
        },
        direct: args.no_cache,
        allow_other: (defaults.allow_other || args.allow_other) && !args.only_me,
        read_only: args.read_only,
        no_atime: args.no_atime,
        no_suid: args.no_suid,
        no_dev: args.no_dev,
        no_exec: args.no_exec,
        striped: args.striped,
        io_uring: !args.no_io_uring,
        ..defaults
    }
}

fn remount(args: &Args) -> anyhow::Result<()> {
    let dir = super::umount::mounted(&args.dir)?;
    options(args)
        .change(&dir)
        .with_context(|| format!("cannot change the mount on {}", dir.display()))
}

fn serve(context: &Context, args: &Args) -> anyhow::Result<()> {
    // Before any thread: only the wait below sees the signals.
    let signals = StopSignals::block();
    if args.notify {
        // A session of its own: a Ctrl-C in the shell that mounted is not meant for it.
        rustix::process::setsid().context("start a session")?;
    }
    let level = tracing_subscriber::EnvFilter::try_from_env("TRIREME_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        // It would panic where the log's disk is full.
        .log_internal_errors(false)
        .try_init();
    trireme_server::descriptors::raise_limit();
    let cluster = context.connect()?;
    let mount = Mount::start(&cluster, &args.dir, options(args))
        .with_context(|| format!("cannot mount on {}", args.dir.display()))?;
    let _guard = guard::Guard::start(mount.dir())
        .inspect_err(|error| {
            tracing::info!("should this process be killed, programs may hang: {error:#}");
        })
        .ok();
    if args.notify {
        println!("ready");
        std::io::stdout().flush()?;
        leave_terminal(args)?;
    } else {
        eprintln!("mounted on {}; Ctrl-C unmounts", mount.dir().display());
    }
    while !mount.wait_for(Duration::ZERO) {
        if signals.wait_for(Duration::from_millis(200)) {
            mount.unmount()?;
            // Programs may still be using it; their calls end with ours.
            mount.wait_for(Duration::from_secs(2));
            break;
        }
    }
    Ok(())
}

/// Nobody reads what a detached mount prints.
fn leave_terminal(args: &Args) -> anyhow::Result<()> {
    let null = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    let log = match &args.log {
        Some(path) => std::fs::File::options()
            .create(true)
            .append(true)
            .open(path)
            .with_context(|| format!("open the log {}", path.display()))?,
        None => null.try_clone()?,
    };
    rustix::stdio::dup2_stdin(null.as_fd())?;
    rustix::stdio::dup2_stdout(null.as_fd())?;
    rustix::stdio::dup2_stderr(log.as_fd())?;
    Ok(())
}

fn detach(context: &Context, args: &Args) -> anyhow::Result<()> {
    let dir = std::path::absolute(&args.dir)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(&context.words[1..]).arg("--notify");
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("start the mount's process")?;
    let stdout = child.stdout.take().context("its output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    if line.trim() != "ready" {
        // It has said why on the standard error that we share.
        let _ = child.wait();
        std::process::exit(1);
    }
    if args.quiet {
        return Ok(());
    }
    if context.json {
        crate::output::print_json(&json!({ "dir": dir, "pid": child.id() }));
    } else {
        println!("mounted on {} (process {})", dir.display(), child.id());
        println!("unmount  trireme umount {}", dir.display());
    }
    Ok(())
}
