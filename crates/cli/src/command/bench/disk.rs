//! `trireme bench disk`: the ways in which an I/O server can work with its disks, one beside the other.
//!
//! One thread on one subfile, as one connection of a server does it. Plain `pread` and `pwrite` through
//! the page cache, in the same run, are the peer of all.

use crate::context::Context;
use crate::output;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use trireme_server::store::{Aligned, Engine, Options, Store};

/// Compare io_uring with pread, and O_DIRECT with the page cache, on a disk
///
/// `write` is until the bytes are in the page cache (or on the disk, with direct), `durable` is a
/// write and a sync, `read` finds the bytes in the page cache if they may be there, `cold` does not.
#[derive(clap::Args)]
pub struct Args {
    /// A directory on the disk
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Bytes of the file
    #[arg(long, default_value = "64M", value_parser = output::parse_bytes)]
    size: u64,
    /// Bytes per request
    #[arg(long, value_delimiter = ',', default_value = "4K,64K,1M,4M", value_parser = output::parse_bytes)]
    blocks: Vec<u64>,
    /// Rounds; medians are printed
    #[arg(long, default_value = "3")]
    rounds: usize,
}

/// What is done with the file.
const WORKS: [&str; 4] = ["write", "durable", "read", "cold"];

/// Small requests are many: this many are enough.
const REQUESTS: u64 = 4096;

struct Way {
    name: &'static str,
    store: Store,
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let own = tempfile::Builder::new()
        .prefix("trireme-disk-")
        .tempdir_in(&args.dir)?;
    let mut ways = Vec::new();
    for (name, engine, direct) in [
        ("pread", Engine::Pread, false),
        ("uring", Engine::Uring, false),
        ("pread direct", Engine::Pread, true),
        ("uring direct", Engine::Uring, true),
    ] {
        let options = Options {
            engine,
            direct,
            ..Options::default()
        };
        match Store::open_with(&[own.path().join(name)], 0, 1, &options) {
            Ok(store) => ways.push(Way { name, store }),
            Err(error) => eprintln!("{name} is left out: {error}"),
        }
    }
    let mut memory = Aligned::empty();
    let largest = args.blocks.iter().copied().max().unwrap_or(0);
    memory.get(largest as usize).fill(7);
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    let progress = indicatif::ProgressBar::new((args.blocks.len() * (args.rounds + 1)) as u64);
    for &block in &args.blocks {
        anyhow::ensure!(
            block > 0 && block <= args.size,
            "--blocks must be 1 to --size"
        );
        let memory = memory.get(block as usize);
        let mut times = vec![vec![Vec::new(); WORKS.len()]; ways.len()];
        for round in 0..=args.rounds {
            for (way, times) in ways.iter().zip(&mut times) {
                for (work, times) in WORKS.iter().zip(times.iter_mut()) {
                    let time = measure(&way.store, work, block, args.size, memory)?;
                    if round > 0 {
                        times.push(time);
                    }
                }
            }
            progress.inc(1);
        }
        let bytes = block * (args.size / block).min(REQUESTS);
        let rate =
            |times: &[Duration]| bytes as f64 / 1e6 / super::stream::median(times).as_secs_f64();
        for (number, way) in ways.iter().enumerate() {
            let mut row = vec![output::bytes(block), way.name.to_owned()];
            for (which, work) in WORKS.iter().enumerate() {
                let (ours, peer) = (rate(&times[number][which]), rate(&times[0][which]));
                row.push(format!("{ours:.0}"));
                row.push(format!("{:.2}x", ours / peer));
                cells.push(json!({
                    "block": block, "way": way.name, "work": work, "mb_per_s": ours,
                    "peer": ways[0].name, "peer_mb_per_s": peer, "ratio": ours / peer,
                }));
            }
            rows.push(row);
        }
    }
    progress.finish_and_clear();
    if context.json {
        output::print_json(&json!({ "size": args.size, "rounds": args.rounds, "results": cells }));
        return Ok(());
    }
    println!(
        "one thread, a file of {}, MB/s, medians of {} rounds; ratios to pread through the page cache",
        output::bytes(args.size),
        args.rounds
    );
    let header = [
        "BLOCK", "WAY", "WRITE", "", "DURABLE", "", "READ", "", "COLD", "",
    ];
    println!("{}", output::table(&header, &rows));
    Ok(())
}

fn measure(
    store: &Store,
    work: &str,
    block: u64,
    size: u64,
    memory: &mut [u8],
) -> anyhow::Result<Duration> {
    let subfile = store.find_or_make(1)?;
    if work == "cold" {
        store.sync(1)?;
        rustix::fs::fadvise(&*subfile, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    let requests = (size / block).min(REQUESTS);
    let begin = Instant::now();
    for request in 0..requests {
        let at = request * block;
        if work == "write" || work == "durable" {
            subfile.write_at(memory, at)?;
        } else {
            subfile.read_at(memory, at)?;
        }
    }
    if work == "durable" {
        store.sync(1)?;
    }
    Ok(begin.elapsed())
}
