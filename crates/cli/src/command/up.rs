//! `trireme up`: a whole cluster on this machine.

use crate::context::Context;
use crate::output;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trireme::local::Up;
use trireme_server::signal::StopSignals;

/// Start a cluster on this machine: a metadata manager and I/O servers
///
/// On a directory that was used before, the same data comes back. Clients find the cluster by
/// themselves. Without --detach it runs until Ctrl-C.
#[derive(clap::Args)]
pub struct Args {
    /// Directory for data, logs and addresses; made if need be
    #[arg(long, default_value = "trireme-data")]
    dir: PathBuf,
    /// Number of I/O servers; default: as many as the directory has, or 4
    #[arg(long)]
    servers: Option<u32>,
    /// Return when it runs; `trireme down` stops it
    #[arg(long)]
    detach: bool,
    /// Also serve other hosts on this address (they need the key in DIR/cluster.json)
    #[arg(long, value_name = "HOST[:PORT]")]
    listen: Option<String>,
    /// Do not become the cluster that clients find by themselves
    #[arg(long)]
    private: bool,
    /// What carries the I/O servers' requests to their disks: pread or uring
    #[arg(long, value_name = "ENGINE")]
    disk_engine: Option<String>,
    /// I/O servers read and write past the page cache (O_DIRECT)
    #[arg(long)]
    direct: bool,
}

/// Starts and, unless detached, waits.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    // Before any thread: only `wait_any` below sees the signals.
    let signals = StopSignals::block();
    let started = Instant::now();
    let mut up = Up::new(&args.dir);
    up.servers = args.servers;
    up.detach = args.detach;
    up.listen.clone_from(&args.listen);
    up.publish = !args.private;
    if let Some(engine) = &args.disk_engine {
        let engine = engine.clone();
        up.io_arguments.extend(["--disk-engine".into(), engine]);
    }
    if args.direct {
        up.io_arguments.push("--direct".into());
    }
    let mut cluster = up.start()?;
    let took = started.elapsed();
    let descriptor = cluster.descriptor()?;
    if context.json {
        output::print_json(&json!({
            "dir": cluster.dir(),
            "servers": cluster.servers().len(),
            "manager": descriptor.manager,
            "seconds": took.as_secs_f64(),
            "processes": std::iter::once(cluster.manager())
                .chain(cluster.servers())
                .map(|process| json!({ "name": process.name, "pid": process.pid() }))
                .collect::<Vec<_>>(),
        }));
    } else {
        println!(
            "{} I/O servers and a metadata manager run in {} (ready in {:.2} s)",
            cluster.servers().len(),
            cluster.dir().display(),
            took.as_secs_f64()
        );
        println!("manager  {}", descriptor.manager.join("  "));
        println!("try      trireme cp README.md trireme:/ && trireme where /README.md");
        let stop = if args.detach {
            format!("trireme down --dir {}", cluster.dir().display())
        } else {
            "Ctrl-C".into()
        };
        println!("stop     {stop}");
    }
    if args.detach {
        // Servers must not get our blocked signals for ever; they unblock by waiting for them.
        return Ok(());
    }
    while !signals.wait_for(Duration::from_millis(500)) {
        if let Some(name) = cluster.watch() {
            let log = cluster.dir().join(format!("{name}.log"));
            cluster.stop()?;
            anyhow::bail!("{name} ended by itself; {} says why", log.display());
        }
    }
    eprintln!("stopping");
    cluster.stop()?;
    Ok(())
}
