//! `trireme bench meta`: creates, stats and unlinks from several clients, beside the same on the
//! local file system in the same run.
//!
//! Each client is a process of its own (this binary again) with its own connections. The local peer
//! of a create is a file made and its directory synced, because a create that returned is durable
//! here; the plain create is printed too.

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trireme::{LayoutWish, Namespace};
use trireme_proto::message::meta::Node;

/// Creates, stats and unlinks per second, and ratios to the local file system
///
/// Without --cluster it starts a cluster of its own and removes it afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Client processes
    #[arg(long, default_value = "4")]
    clients: u32,
    /// Creates and unlinks in flight per client: they share commits
    #[arg(long, default_value = "32")]
    depth: u32,
    /// Stats in flight per client
    #[arg(long, default_value = "2")]
    stat_depth: u32,
    /// Seconds per measurement
    #[arg(long, default_value = "3")]
    seconds: f64,
    /// Where to do the same work locally; default: where the cluster is
    #[arg(long)]
    local: Option<PathBuf>,
    /// Where a cluster of its own is made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// What a client process does
    #[arg(long, hide = true)]
    work: Option<String>,
    /// Its number
    #[arg(long, hide = true, default_value = "0")]
    number: u32,
}

/// Operations in the order in which they are measured: creates leave what stats look at.
const OPERATIONS: [&str; 3] = ["create", "stat", "unlink"];

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    if let Some(work) = &args.work {
        return client(context, args, work);
    }
    let own = tempfile::Builder::new()
        .prefix("trireme-bench-")
        .tempdir_in(&args.dir)?;
    let (_running, descriptor) = if context.cluster.is_some() {
        (None, context.cluster.clone().unwrap_or_default())
    } else {
        let mut up = trireme::local::Up::new(own.path().join("cluster"));
        up.publish = false;
        let running = up.start()?;
        let descriptor = running.dir().to_string_lossy().into_owned();
        (Some(running), descriptor)
    };
    let local = args
        .local
        .clone()
        .unwrap_or_else(|| own.path().join("local"));
    std::fs::create_dir_all(&local).with_context(|| format!("make {}", local.display()))?;

    let mut results = Vec::new();
    for operation in OPERATIONS {
        let ours = measure(args, args.depth_of(operation), &descriptor, operation)?;
        let peer = local_rate(args, &local, operation)?;
        results.push((operation, ours, peer));
    }
    let alone = measure(args, 1, &descriptor, "create")?;
    let crowd = measure(args, args.depth, &descriptor, "stat")?;

    if context.json {
        let rows: Vec<Value> = results
            .iter()
            .map(|(operation, ours, peer)| {
                json!({
                    "operation": operation, "per_second": ours, "local": peer.name,
                    "local_per_second": peer.rate, "ratio": ours / peer.rate,
                    "local_plain_per_second": peer.plain,
                })
            })
            .collect();
        output::print_json(&json!({
            "clients": args.clients, "depth": args.depth, "stat_depth": args.stat_depth, "seconds": args.seconds,
            "results": rows,
            "create_with_one_in_flight": alone, "stat_with_depth_in_flight": crowd,
        }));
        return Ok(());
    }
    println!(
        "{} client processes, each with {} creates or unlinks or {} stats in flight; {} s per line",
        args.clients, args.depth, args.stat_depth, args.seconds
    );
    let rows: Vec<_> = results
        .iter()
        .map(|(operation, ours, peer)| {
            vec![
                (*operation).to_owned(),
                format!("{ours:.0}"),
                format!("{:.0}", peer.rate),
                format!("{:.2}x", ours / peer.rate),
                peer.plain
                    .map_or(String::from("-"), |plain| format!("{:.2}x", ours / plain)),
                peer.name.to_owned(),
            ]
        })
        .collect();
    let header = [
        "OPERATION",
        "TRIREME/s",
        "LOCAL/s",
        "RATIO",
        "TO PLAIN",
        "LOCAL PEER",
    ];
    println!("{}", output::table(&header, &rows));
    println!("creates with one in flight per client: {alone:.0}/s");
    println!(
        "stats with {} in flight per client: {crowd:.0}/s",
        args.depth
    );
    Ok(())
}

impl Args {
    fn depth_of(&self, operation: &str) -> u32 {
        if operation == "stat" {
            self.stat_depth
        } else {
            self.depth
        }
    }
}

struct Peer {
    name: &'static str,
    rate: f64,
    plain: Option<f64>,
}

/// Runs one operation in all client processes at once.
fn measure(args: &Args, depth: u32, cluster: &str, operation: &str) -> anyhow::Result<f64> {
    let binary = std::env::current_exe()?;
    let mut clients: Vec<Child> = (0..args.clients)
        .map(|number| {
            Command::new(&binary)
                .args(["--cluster", cluster, "bench", "meta", "--work", operation])
                .args([
                    "--number",
                    &number.to_string(),
                    "--depth",
                    &depth.to_string(),
                ])
                .args(["--seconds", &args.seconds.to_string()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
        })
        .collect::<Result<_, _>>()?;
    let mut outputs: Vec<_> = clients
        .iter_mut()
        .map(|client| BufReader::new(client.stdout.take().expect("was asked for")))
        .collect();
    let mut line = String::new();
    for output in &mut outputs {
        line.clear();
        output.read_line(&mut line)?;
        anyhow::ensure!(line.trim() == "ready", "a client did not start: {line}");
    }
    for client in &mut clients {
        client
            .stdin
            .take()
            .expect("was asked for")
            .write_all(b"go\n")?;
    }
    let mut total = 0.0;
    for (client, output) in clients.iter_mut().zip(&mut outputs) {
        line.clear();
        output.read_line(&mut line)?;
        total += line
            .trim()
            .parse::<f64>()
            .with_context(|| format!("a client said {line:?}"))?;
        anyhow::ensure!(client.wait()?.success(), "a client failed");
    }
    Ok(total)
}

/// One client process: connects, waits for the word, works, tells its rate.
fn client(context: &Context, args: &Args, operation: &str) -> anyhow::Result<()> {
    let namespace = context.connect()?.namespace();
    let directory = PathBuf::from(format!("/bench-{}", args.number));
    if operation == "create" {
        match namespace.mkdir(&directory, 0o755) {
            Err(error) if error.errno() != 17 => return Err(error.into()),
            _ => {}
        }
    }
    let names = names(&namespace, &directory, operation)?;
    println!("ready");
    std::io::stdout().flush()?;
    std::io::stdin().read_line(&mut String::new())?;
    let rate = work(&namespace, args, operation, &directory, &names)?;
    println!("{rate}");
    Ok(())
}

/// What is there to look at or remove.
fn names(namespace: &Namespace, directory: &Path, operation: &str) -> anyhow::Result<Vec<PathBuf>> {
    use std::os::unix::ffi::OsStrExt;
    if operation == "create" {
        return Ok(Vec::new());
    }
    let entries = namespace.read_dir(directory)?;
    Ok(entries
        .iter()
        .map(|entry| directory.join(std::ffi::OsStr::from_bytes(&entry.name)))
        .collect())
}

fn work(
    namespace: &Namespace,
    args: &Args,
    operation: &str,
    directory: &Path,
    names: &[PathBuf],
) -> anyhow::Result<f64> {
    let next = AtomicU64::new(0);
    let limit = Duration::from_secs_f64(args.seconds);
    let started = Instant::now();
    let run = std::process::id();
    let counts: Vec<anyhow::Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.depth)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while started.elapsed() < limit {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        match operation {
                            "create" => {
                                let place = trireme::namespace::place(
                                    directory.join(format!("file-{run}-{number}")),
                                );
                                namespace.create(
                                    place,
                                    0o644,
                                    Node::File(LayoutWish::default()),
                                )?;
                            }
                            "stat" => {
                                namespace.stat(&names[number as usize % names.len()])?;
                            }
                            _ => match names.get(number as usize) {
                                Some(name) => namespace.unlink(name)?,
                                None => break,
                            },
                        }
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic in a worker"))
            .collect()
    });
    let time = started.elapsed().as_secs_f64();
    let mut total = 0;
    for count in counts {
        total += count?;
    }
    Ok(total as f64 / time)
}

/// The same number of threads doing the same directly on the local file system.
fn local_rate(args: &Args, local: &Path, operation: &str) -> anyhow::Result<Peer> {
    Ok(match operation {
        "create" => Peer {
            name: "create, fsync of the directory",
            rate: local_run(
                args,
                args.depth_of(operation),
                local,
                "synced",
                |dir, path| {
                    std::fs::File::create_new(path)?;
                    dir.sync_all()
                },
            )?,
            plain: Some(local_run(
                args,
                args.depth_of(operation),
                local,
                "plain",
                |_, path| std::fs::File::create_new(path).map(|_| ()),
            )?),
        },
        "stat" => Peer {
            name: "stat",
            rate: {
                let path = local.join("looked-at");
                std::fs::File::create(&path)?;
                local_run(args, args.depth_of(operation), local, "stat", |_, _| {
                    std::fs::metadata(&path).map(|_| ())
                })?
            },
            plain: None,
        },
        _ => Peer {
            name: "create and unlink, fsync of the directory",
            rate: local_run(
                args,
                args.depth_of(operation),
                local,
                "unlink",
                |dir, path| {
                    std::fs::File::create_new(path)?;
                    std::fs::remove_file(path)?;
                    dir.sync_all()
                },
            )?,
            plain: None,
        },
    })
}

fn local_run(
    args: &Args,
    depth: u32,
    local: &Path,
    what: &str,
    work: impl Fn(&std::fs::File, &Path) -> std::io::Result<()> + Sync,
) -> anyhow::Result<f64> {
    let limit = Duration::from_secs_f64(args.seconds.min(2.0));
    let started = Instant::now();
    let work = &work;
    let counts: Vec<std::io::Result<u64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..args.clients * depth)
            .map(|number| {
                // One directory per client, as on the cluster.
                let directory = local.join(format!("{what}-{}", number / depth));
                scope.spawn(move || {
                    std::fs::create_dir_all(&directory)?;
                    let handle = std::fs::File::open(&directory)?;
                    let mut count = 0u64;
                    while started.elapsed() < limit {
                        work(&handle, &directory.join(format!("{number}-{count}")))?;
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic in a worker"))
            .collect()
    });
    let time = started.elapsed().as_secs_f64();
    let mut total = 0;
    for count in counts {
        total += count?;
    }
    Ok(total as f64 / time)
}
