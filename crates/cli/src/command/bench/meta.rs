//! `trireme bench meta`: creates, stats and unlinks from several clients, beside the same on the
//! local file system in the same run.
//!
//! Each client is a process of its own (this binary again) with its own connections. In the table it has
//! many calls under way on one connection; lines below tell of the same with a thread for each call, and of
//! one call at a time. The local peer
//! of a create is a file made and its directory synced, because a create that returned is durable
//! here; the plain create is printed too.

use super::target::{self, Target};
use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use trireme::namespace::{IN_FLIGHT, place};
use trireme::{LayoutWish, Namespace};
use trireme_proto::message::meta::{Node, Request, Response};

/// Creates, stats and unlinks per second, and ratios to the local file system
///
/// Without --cluster it starts a cluster of its own and removes it afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Client processes
    #[arg(long, default_value = "4")]
    clients: u32,
    /// Calls in flight per client: creates and unlinks share commits
    #[arg(long, default_value_t = IN_FLIGHT as u32)]
    depth: u32,
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
    /// A thread for each call in flight
    #[arg(long, hide = true)]
    threads: bool,
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
        let ours = measure(args, Flight::Together(args.depth), &descriptor, operation)?;
        let peer = local_rate(args, &local, operation)?;
        results.push((operation, ours, peer));
    }
    let mut others = Vec::new();
    for (operation, flight) in [
        ("create", Flight::Threads(args.depth)),
        ("create", Flight::Threads(1)),
        ("stat", Flight::Threads(args.depth)),
        ("stat", Flight::Threads(2)),
        ("stat", Flight::Threads(1)),
    ] {
        let rate = measure(args, flight, &descriptor, operation)?;
        others.push((operation, flight, rate));
    }

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
        let others: Vec<Value> = others
            .iter()
            .map(|(operation, flight, rate)| json!({ "operation": operation, "threads": flight.calls(), "per_second": rate }))
            .collect();
        output::print_json(&json!({
            "clients": args.clients, "depth": args.depth, "seconds": args.seconds,
            "results": rows, "targets": targets(&results), "with_a_thread_for_each_call": others,
        }));
        return Ok(());
    }
    println!(
        "{} client processes, each with {} calls in flight on one connection; {} s per line",
        args.clients, args.depth, args.seconds
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
    println!("with a thread and a connection for each call in flight:");
    for (operation, flight, rate) in others {
        println!(
            "  {operation}, {:2} per client: {rate:.0}/s",
            flight.calls()
        );
    }
    target::print(&targets(&results));
    Ok(())
}

fn targets(results: &[(&str, f64, Peer)]) -> Vec<Target> {
    [("create", 15_000.0), ("stat", 60_000.0)]
        .into_iter()
        .map(|(operation, least)| {
            let rate = results.iter().find(|(name, ..)| *name == operation);
            let rate = rate.map_or(0.0, |(_, rate, _)| *rate);
            Target {
                what: format!("{least} {operation}s a second or more"),
                measured: format!("{rate:.0}"),
                pass: Some(rate >= least),
                misses: Vec::new(),
            }
        })
        .collect()
}

/// How a client has calls under way.
#[derive(Clone, Copy)]
enum Flight {
    /// On one connection, by one thread.
    Together(u32),
    /// Each by a thread of its own.
    Threads(u32),
}

impl Flight {
    fn calls(self) -> u32 {
        match self {
            Flight::Together(calls) | Flight::Threads(calls) => calls,
        }
    }
}

struct Peer {
    name: &'static str,
    rate: f64,
    plain: Option<f64>,
}

/// Runs one operation in all client processes at once.
fn measure(args: &Args, flight: Flight, cluster: &str, operation: &str) -> anyhow::Result<f64> {
    let binary = std::env::current_exe()?;
    let mut clients: Vec<Child> = (0..args.clients)
        .map(|number| {
            Command::new(&binary)
                .args(["--cluster", cluster, "bench", "meta", "--work", operation])
                .args([
                    "--number",
                    &number.to_string(),
                    "--depth",
                    &flight.calls().to_string(),
                ])
                .args(matches!(flight, Flight::Threads(_)).then_some("--threads"))
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

/// The calls of one client, until its time is over: whichever thread asks gets the next.
struct Work<'a> {
    operation: &'a str,
    directory: &'a Path,
    names: &'a [PathBuf],
    next: AtomicU64,
    begin: Instant,
    limit: Duration,
}

impl Work<'_> {
    fn next(&self) -> Option<Request> {
        if self.begin.elapsed() >= self.limit {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let looked_at = |number: usize| place(&self.names[number]);
        Some(match self.operation {
            "create" => Request::Create {
                place: place(
                    self.directory
                        .join(format!("file-{}-{number}", std::process::id())),
                ),
                mode: 0o644,
                node: Node::File(LayoutWish::default()),
            },
            "stat" => Request::Lookup {
                place: looked_at(number as usize % self.names.len()),
                follow: true,
            },
            _ if number as usize >= self.names.len() => return None,
            _ => Request::Unlink {
                place: looked_at(number as usize),
            },
        })
    }

    fn is_change(&self) -> bool {
        self.operation != "stat"
    }
}

fn work(
    namespace: &Namespace,
    args: &Args,
    operation: &str,
    directory: &Path,
    names: &[PathBuf],
) -> anyhow::Result<f64> {
    let work = Work {
        operation,
        directory,
        names,
        next: AtomicU64::new(0),
        begin: Instant::now(),
        limit: Duration::from_secs_f64(args.seconds),
    };
    let count = if args.threads {
        with_threads(namespace, args.depth, &work)?
    } else {
        together(namespace, args.depth, &work)?
    };
    Ok(count as f64 / work.begin.elapsed().as_secs_f64())
}

/// All on one connection.
fn together(namespace: &Namespace, depth: u32, work: &Work<'_>) -> anyhow::Result<u64> {
    let (mut count, mut failed) = (0, None);
    let requests = std::iter::from_fn(|| work.next());
    let done = |_, answer: Result<Response, trireme_net::NetError>| match answer {
        Ok(_) => count += 1,
        Err(error) => failed = Some(error),
    };
    if work.is_change() {
        namespace.change_many(requests, depth as usize, done);
    } else {
        namespace.ask_many(requests, depth as usize, done);
    }
    failed.map_or(Ok(count), |error| Err(error.into()))
}

/// Each by a thread of its own.
fn with_threads(namespace: &Namespace, threads: u32, work: &Work<'_>) -> anyhow::Result<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while let Some(request) = work.next() {
                        if work.is_change() {
                            namespace.change(request)?;
                        } else {
                            namespace.ask(request)?;
                        }
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic in a worker"))
            .sum()
    })
}

/// The same number of threads doing the same directly on the local file system.
fn local_rate(args: &Args, local: &Path, operation: &str) -> anyhow::Result<Peer> {
    Ok(match operation {
        "create" => Peer {
            name: "create, fsync of the directory",
            rate: local_run(args, args.depth, local, "synced", |dir, path| {
                std::fs::File::create_new(path)?;
                dir.sync_all()
            })?,
            plain: Some(local_run(args, args.depth, local, "plain", |_, path| {
                std::fs::File::create_new(path).map(|_| ())
            })?),
        },
        "stat" => Peer {
            name: "stat",
            rate: {
                let path = local.join("looked-at");
                std::fs::File::create(&path)?;
                local_run(args, args.depth, local, "stat", |_, _| {
                    std::fs::metadata(&path).map(|_| ())
                })?
            },
            plain: None,
        },
        _ => Peer {
            name: "create and unlink, fsync of the directory",
            rate: local_run(args, args.depth, local, "unlink", |dir, path| {
                std::fs::File::create_new(path)?;
                std::fs::remove_file(path)?;
                dir.sync_all()
            })?,
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
