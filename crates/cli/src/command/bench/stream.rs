//! `trireme bench stream`: contiguous writes and reads and small random reads from several client
//! processes, beside the same work done directly on the local file system in the same run.
//!
//! Rounds are interleaved (local, ours, local, ours, ...), so that noise hits both alike; each round
//! gives a ratio, and the median of them is printed. Clients are processes of this binary. One warm-up round fills the page cache for both.

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use serde_json::json;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::crew::{Crew, tell_ready_and_wait};

/// Throughput of large and small requests, and ratios to the local file system
///
/// Without --cluster it starts a cluster of its own and removes it afterwards.
#[derive(clap::Args)]
pub struct Args {
    /// Client processes
    #[arg(long, default_value = "4")]
    pub clients: u64,
    /// I/O servers of the cluster that is started
    #[arg(long, default_value = "4")]
    pub servers: u32,
    /// Bytes in all
    #[arg(long, default_value = "256M", value_parser = output::parse_bytes)]
    pub size: u64,
    /// Bytes per call, the same for both sides
    #[arg(long, default_value = "4M", value_parser = output::parse_bytes)]
    pub transfer: u64,
    /// Rounds; medians are printed
    #[arg(long, default_value = "9")]
    pub rounds: usize,
    /// Where the cluster and the local files are made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Only these of write, write-copied, read, read-allocated, small-read
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Compare schedules, schedule blocks, blocks in flight and stripe units instead
    #[arg(long)]
    sweep: bool,
    #[command(flatten)]
    way: Way,
    /// What a client process does
    #[arg(long, hide = true)]
    work: Option<String>,
    /// Its number
    #[arg(long, hide = true, default_value = "0")]
    number: u64,
    /// Where the local files are
    #[arg(long, hide = true)]
    local: Option<PathBuf>,
}

/// How transfers are carried out; what is not said is the library's default.
#[derive(clap::Args, Clone, Default)]
pub struct Way {
    /// Schedule: first, random or hash
    #[arg(long)]
    pub schedule: Option<trireme::Schedule>,
    /// Schedule block: bytes per request to one server
    #[arg(long, value_parser = output::parse_bytes)]
    pub block: Option<u64>,
    /// Blocks in flight per server
    #[arg(long)]
    pub in_flight: Option<u32>,
    /// Stripe unit of the file
    #[arg(long, value_parser = output::parse_bytes)]
    pub unit: Option<u64>,
    /// Do not use shared memory for writes on this host
    #[arg(long)]
    pub no_window: bool,
    /// Have the servers of this host move every byte instead of borrowing their files
    #[arg(long)]
    pub no_lend: bool,
    /// Have a second thread of each client take a part of long transfers, as a mount does
    #[arg(long)]
    pub second: bool,
}

/// Bytes of a small random read.
const SMALL: usize = 4096;

/// How far behind the beginning of a page the C library's allocator puts large buffers.
const BEHIND: usize = 16;
const PAGE: usize = 4096;

/// Small reads per client and round.
const SMALL_READS: u64 = 5000;

/// Ours, its peer, the ratio that is the target.
const PAIRS: [(&str, &str, &str, f64); 5] = [
    (
        "write",
        "local-write",
        "the same writes to local files",
        0.6,
    ),
    (
        "write-copied",
        "local-write",
        "the same; ours from an ordinary buffer",
        0.6,
    ),
    ("read", "local-read", "the same reads of local files", 0.35),
    (
        "read-allocated",
        "local-read-allocated",
        "the same; both to where an allocator puts buffers",
        0.35,
    ),
    (
        "small-read",
        "bare",
        "bare request and response of 4 KiB over a Unix socket",
        0.3,
    ),
];

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    if let Some(work) = &args.work {
        return client(context, args, work);
    }
    for name in &args.only {
        anyhow::ensure!(
            PAIRS.iter().any(|pair| pair.0 == name),
            "--only {name}: there are write, write-copied, read, read-allocated and small-read"
        );
    }
    let field = Field::prepare(context, args)?;
    if args.sweep {
        return super::sweep::run(context, args, &field);
    }
    let pairs: Vec<_> = PAIRS
        .iter()
        .filter(|pair| args.only.is_empty() || args.only.iter().any(|name| name == pair.0))
        .collect();
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); pairs.len() * 2];
    for round in 0..=args.rounds {
        for (number, (ours, peer, _, _)) in pairs.iter().enumerate() {
            for (side, work) in [peer, ours].into_iter().enumerate() {
                let time = field.measure(args, work, &args.way)?;
                if round > 0 {
                    times[number * 2 + side].push(time);
                }
            }
        }
    }
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    for (number, (ours, _, peer_name, target)) in pairs.into_iter().enumerate() {
        let amount = if *ours == "small-read" {
            (SMALL_READS * args.clients) as f64
        } else {
            args.size as f64 / 1e6
        };
        let unit = if *ours == "small-read" {
            "reads/s"
        } else {
            "MB/s"
        };
        let rate = |times: &[Duration]| amount / median(times).as_secs_f64();
        let peer_rate = rate(&times[number * 2]);
        let our_rate = rate(&times[number * 2 + 1]);
        // Of each round by itself: what slows the machine down for a while slows both.
        let ratio = median_ratio(&times[number * 2], &times[number * 2 + 1]);
        let verdict = if ratio >= *target { "pass" } else { "MISS" };
        cells.push(json!({
            "work": ours, "unit": unit, "ours": our_rate, "peer": peer_name, "peer_rate": peer_rate,
            "ratio": ratio, "target": target, "pass": ratio >= *target,
        }));
        rows.push(vec![
            (*ours).to_owned(),
            format!("{our_rate:.0} {unit}"),
            format!("{peer_rate:.0} {unit}"),
            format!("{ratio:.2}x"),
            format!("{target:.2}x {verdict}"),
            (*peer_name).to_owned(),
        ]);
    }
    if context.json {
        output::print_json(&json!({
            "clients": args.clients, "servers": args.servers, "size": args.size,
            "transfer": args.transfer, "rounds": args.rounds, "results": cells,
        }));
        return Ok(());
    }
    println!(
        "{} clients, {} servers, {} in calls of {}, medians of {} rounds, page cache warm",
        args.clients,
        args.servers,
        output::bytes(args.size),
        output::bytes(args.transfer),
        args.rounds
    );
    let header = ["WORK", "TRIREME", "PEER", "RATIO", "TARGET", "PEER IS"];
    println!("{}", output::table(&header, &rows));
    Ok(())
}

pub fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

/// How much faster ours is than its peer's, round by round; the median.
fn median_ratio(peer: &[Duration], ours: &[Duration]) -> f64 {
    let mut ratios: Vec<f64> = peer
        .iter()
        .zip(ours)
        .map(|(peer, ours)| peer.as_secs_f64() / ours.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

/// A cluster and a directory beside it for the local files.
pub struct Field {
    cluster: String,
    local: PathBuf,
    // In this order: the cluster stops before its directory is removed.
    _running: Option<trireme::local::LocalCluster>,
    _bare: BareServer,
    _own: tempfile::TempDir,
}

impl Field {
    fn prepare(context: &Context, args: &Args) -> anyhow::Result<Field> {
        let own = tempfile::Builder::new()
            .prefix("trireme-bench-")
            .tempdir_in(&args.dir)?;
        let (running, cluster) = if let Some(cluster) = &context.cluster {
            (None, cluster.clone())
        } else {
            let mut up = trireme::local::Up::new(own.path().join("cluster"));
            up.publish = false;
            up.servers = Some(args.servers);
            let running = up.start()?;
            let cluster = running.dir().to_string_lossy().into_owned();
            (Some(running), cluster)
        };
        let local = own.path().join("local");
        std::fs::create_dir(&local)?;
        let bare = BareServer::start(&local.join("bare"))?;
        Ok(Field {
            cluster,
            local,
            _running: running,
            _bare: bare,
            _own: own,
        })
    }

    /// Time from the start signal until the last client has done its share.
    pub fn measure(&self, args: &Args, work: &str, way: &Way) -> anyhow::Result<Duration> {
        let mut arguments: Vec<String> = ["--cluster", &self.cluster, "bench", "stream"]
            .map(str::to_owned)
            .to_vec();
        let mut option = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        option("--work", work.to_owned());
        option("--local", self.local.to_string_lossy().into_owned());
        option("--clients", args.clients.to_string());
        option("--size", args.size.to_string());
        option("--transfer", args.transfer.to_string());
        if let Some(schedule) = way.schedule {
            option("--schedule", schedule.to_string());
        }
        if let Some(block) = way.block {
            option("--block", block.to_string());
        }
        if let Some(in_flight) = way.in_flight {
            option("--in-flight", in_flight.to_string());
        }
        if let Some(unit) = way.unit {
            option("--unit", unit.to_string());
        }
        if way.no_window {
            arguments.push("--no-window".to_owned());
        }
        if way.no_lend {
            arguments.push("--no-lend".to_owned());
        }
        if way.second {
            arguments.push("--second".to_owned());
        }
        let mut crew = Crew::start(args.clients, &arguments)?;
        let time = crew.go()?;
        crew.finish()?;
        Ok(time)
    }
}

/// One client process.
fn client(context: &Context, args: &Args, work: &str) -> anyhow::Result<()> {
    let local = args.local.as_deref().context("--local is needed")?;
    let share = args.size / args.clients;
    let base = share * args.number;
    // Buffers begin on a page: see `read-allocated` for what else happens on some processors.
    let (work, further) = match work.strip_suffix("-allocated") {
        Some(work) => (work, BEHIND),
        None => (work, 0),
    };
    let mut memory = vec![args.number as u8 + 1; args.transfer as usize + 2 * PAGE];
    let start = memory.as_ptr().align_offset(PAGE) + further;
    let buffer = &mut memory[start..start + args.transfer as usize];
    let calls: Vec<u64> = (0..share).step_by(args.transfer as usize).collect();
    let length = |at: u64| args.transfer.min(share - at) as usize;
    let random =
        |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (args.size / SMALL as u64);
    match work {
        "local-write" | "local-read" => {
            let path = local.join(format!("file-{}", args.number));
            let file = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            tell_ready_and_wait()?;
            for at in calls {
                let buffer = &mut buffer[..length(at)];
                if work == "local-write" {
                    file.write_all_at(buffer, at)?;
                } else {
                    file.read_exact_at(buffer, at)?;
                }
            }
        }
        "write" | "write-copied" | "read" | "small-read" => {
            let cluster = context.connect()?;
            let mut options = *cluster.options();
            options.own = args.number as u32;
            let transfer = &mut options.transfer;
            let way = &args.way;
            transfer.schedule = way.schedule.unwrap_or(transfer.schedule);
            transfer.block = way.block.unwrap_or(transfer.block);
            transfer.in_flight = way.in_flight.unwrap_or(transfer.in_flight);
            transfer.window &= !way.no_window;
            transfer.lend &= !way.no_lend;
            transfer.second |= way.second;
            let cluster = cluster.with_options(options);
            let layout = trireme::LayoutWish {
                unit: way.unit,
                ..trireme::LayoutWish::default()
            };
            let file = trireme::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .layout(layout)
                .open(&cluster, format!("/stream-{}", way.unit.unwrap_or(0)))?;
            // Bytes where the servers of this host can read them, unless told otherwise.
            let mut shared = cluster.buffer(args.transfer as usize)?;
            shared.copy_from_slice(buffer);
            let buffer = if work == "write" {
                &mut shared[..]
            } else {
                buffer
            };
            // Connections are made before the clock starts, as the local files are opened.
            let writing = work.starts_with("write");
            if writing {
                file.write_at(&buffer[..length(0)], base)?;
            } else {
                let _ = file.read_at(buffer, base)?;
            }
            tell_ready_and_wait()?;
            if work == "small-read" {
                for i in 0..SMALL_READS {
                    let at = random(i + base) * SMALL as u64;
                    file.read_exact_at(&mut buffer[..SMALL], at)?;
                }
            } else {
                for at in calls {
                    let buffer = &mut buffer[..length(at)];
                    if writing {
                        file.write_at(buffer, base + at)?;
                    } else {
                        file.read_exact_at(buffer, base + at)?;
                    }
                }
            }
        }
        "bare" => {
            let mut stream = UnixStream::connect(local.join("bare"))?;
            let request = [0; 64];
            let mut reply = [0; 64 + SMALL];
            tell_ready_and_wait()?;
            for _ in 0..SMALL_READS {
                stream.write_all(&request)?;
                stream.read_exact(&mut reply)?;
            }
        }
        other => anyhow::bail!("no client does {other:?}"),
    }
    println!("done");
    Ok(())
}

/// Answers each request of 64 bytes with 64 bytes and a block: what any such system must at least do.
struct BareServer;

impl BareServer {
    fn start(path: &Path) -> anyhow::Result<BareServer> {
        let listener = UnixListener::bind(path)?;
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    let mut request = [0; 64];
                    let reply = [1; 64 + SMALL];
                    while stream.read_exact(&mut request).is_ok() {
                        if stream.write_all(&reply).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Ok(BareServer)
    }
}
