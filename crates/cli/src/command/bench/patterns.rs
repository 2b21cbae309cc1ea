//! `trireme bench patterns`: every file-access pattern of the disk-directed I/O paper, every method,
//! beside MPI-IO on the local file system and beside raw contiguous local I/O, in one run.
//!
//! Each pattern is one cell group: all methods take turns (A, B, C, A, B, C, ...), so that noise hits
//! all alike, every run is verified byte for byte, and medians are compared. Ranks are processes that
//! live for the whole benchmark and sleep while others are measured. See `docs/benchmarks.md`.

mod cell;
mod report;
mod romio;
mod targets;

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use trireme_partition::{READ_PATTERNS, WRITE_PATTERNS};

use super::process::{self, MemoryWatch};
use super::squad::{Run, Squad};
use super::worker::{ALONE, Job};
use cell::Cell;
use romio::{Patterns, VIA};

/// All patterns of the disk-directed I/O paper with every method, beside ROMIO and raw local I/O
///
/// Without --cluster it starts a cluster of its own and removes it afterwards. Ends with the targets,
/// each with what was measured. `--against romio` and `--via mpi` need mpicc and mpiexec of MPICH
/// (Debian: apt-get install mpich libmpich-dev).
#[derive(clap::Args)]
pub struct Args {
    /// Bytes per record, multiples of 8
    #[arg(long, value_delimiter = ',', default_value = "8,8192")]
    records: Vec<u64>,
    /// Bytes of the file
    #[arg(long, default_value = "256M", value_parser = output::parse_bytes)]
    size: u64,
    /// Processes
    #[arg(long, default_value = "4")]
    ranks: u32,
    /// I/O servers of the cluster that is started
    #[arg(long, default_value = "4")]
    servers: u32,
    /// Methods: independent, two-phase, disk-directed, or all
    #[arg(long, value_delimiter = ',', default_value = "all")]
    methods: Vec<String>,
    /// Patterns, such as rcc,wb, or all
    #[arg(long, value_delimiter = ',', default_value = "all")]
    patterns: Vec<String>,
    /// Also the same patterns by MPI-IO on local files
    #[arg(long)]
    against: Vec<Peer>,
    /// Also the same patterns on the cluster through another interface than the native one
    #[arg(long)]
    via: Vec<Via>,
    /// Runs of each method per pattern; medians are printed
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// A smaller file (32M), for a first look
    #[arg(long)]
    quick: bool,
    /// Seconds that one run may take; what would take longer is measured on a smaller file, and says so
    #[arg(long, default_value = "2", value_name = "SECONDS")]
    limit: f64,
    /// Where the cluster and the local files are made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with bar charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// MPICH's MPI-IO: collective, independent with data sieving, independent without
    Romio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Via {
    /// MPI_File_read_at_all and write_at_all, as `trireme mpi-run` gives them to any MPI program
    Mpi,
}

/// Our methods, in the order of tables.
pub const METHODS: [&str; 3] = ["independent", "two-phase", "disk-directed"];

/// The limit beside which all others stand.
pub const RAW: &str = "raw";

/// What `--quick` makes of the file.
const QUICK: u64 = 32 << 20;

/// The first, unmeasured run of a method is on a file of about so many bytes, to see how long a whole one
/// would take; larger ones follow until one takes this many seconds.
const PROBE: u64 = 1 << 20;
const BELIEVED: f64 = 0.05;

/// How many times more runs there are of what is measured again.
const CONFIRM: u32 = 4;

/// What files for reading hold.
const SEED: u64 = 1;

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let plan = Plan::new(args)?;
    let own = tempfile::Builder::new()
        .prefix("trireme-patterns-")
        .tempdir_in(&args.dir)
        .with_context(|| format!("make a directory in {}", args.dir.display()))?;
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
    let servers: Vec<u32> = running
        .as_ref()
        .map(|running| {
            running
                .servers()
                .iter()
                .map(trireme::local::Process::pid)
                .collect()
        })
        .unwrap_or_default();
    let binary = std::env::current_exe()?;
    let mut bench = Bench {
        args,
        ours: Squad::of_workers(args.ranks, |_| {
            let mut command = std::process::Command::new(&binary);
            command.args(["--cluster", &cluster]);
            command
        })?,
        romio: None,
        via: None,
        local: own.path().to_owned(),
        idle: servers.iter().map(|pid| process::memory(*pid)).collect(),
        servers,
        seed: SEED,
        memory: Memory::default(),
    };
    if args.against.contains(&Peer::Romio) {
        eprintln!("compiling and starting the MPI-IO program ...");
        bench.romio = Some(Patterns::start(own.path(), args.ranks, None)?);
    }
    if args.via.contains(&Via::Mpi) {
        eprintln!("compiling and starting the MPI-IO program on the cluster ...");
        bench.via = Some(Patterns::start(own.path(), args.ranks, Some(&cluster))?);
    }
    bench.make_files_to_read(plan.size)?;
    println!("{}", plan.heading(args));
    println!("{}", report::header());
    let mut cells = Vec::new();
    for &record in &plan.records {
        for pattern in &plan.patterns {
            let group = bench.group(&plan, pattern, record)?;
            for cell in &group {
                println!("{}", report::line(cell));
            }
            println!();
            cells.extend(group);
        }
    }
    let results = report::Results {
        heading: plan.heading(args),
        size: plan.size,
        ranks: args.ranks,
        servers: args.servers,
        rounds: args.rounds,
        targets: targets::judge(&cells, &bench.memory),
        romio: bench.romio.as_ref().map(Patterns::about),
        memory: bench.memory,
        cells,
    };
    report::print(&results);
    if let Some(path) = &args.json {
        write(path, &format!("{:#}\n", report::json(&results)))?;
    }
    if let Some(path) = &args.html {
        write(path, &report::html(&results))?;
    }
    let wrong = results.cells.iter().filter(|cell| !cell.verified).count();
    anyhow::ensure!(
        wrong == 0,
        "{wrong} cells had bytes that were not where they belong"
    );
    Ok(())
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// What is to be measured.
struct Plan {
    records: Vec<u64>,
    patterns: Vec<String>,
    methods: Vec<String>,
    size: u64,
}

impl Plan {
    fn new(args: &Args) -> anyhow::Result<Plan> {
        let known: Vec<&str> = READ_PATTERNS.into_iter().chain(WRITE_PATTERNS).collect();
        let chosen = |what: &str, given: &[String], known: &[&str]| {
            if given.iter().any(|name| name == "all") {
                return Ok(known.iter().map(ToString::to_string).collect());
            }
            for name in given {
                anyhow::ensure!(
                    known.contains(&name.as_str()),
                    "no {what} is called {name:?}: write all, or some of {}",
                    known.join(",")
                );
            }
            anyhow::Ok(given.to_vec())
        };
        let size = if args.quick {
            QUICK.min(args.size)
        } else {
            args.size
        };
        for record in &args.records {
            anyhow::ensure!(
                *record > 0 && record.is_multiple_of(8),
                "--records {record}: a record is a multiple of 8 bytes, because every word of the \
                 file tells where it belongs"
            );
            anyhow::ensure!(
                size.is_multiple_of(record * u64::from(args.ranks)),
                "--size {size}: must be a multiple of {} ranks x {record} bytes",
                args.ranks
            );
        }
        anyhow::ensure!(args.limit > 0.0, "--limit {}: must be positive", args.limit);
        Ok(Plan {
            records: args.records.clone(),
            patterns: chosen("pattern", &args.patterns, &known)?,
            methods: chosen("method", &args.methods, &METHODS)?,
            size,
        })
    }

    fn heading(&self, args: &Args) -> String {
        format!(
            "{} ranks, {} servers, {} file, {} runs each in turn (medians), page cache warm, every run verified",
            args.ranks,
            args.servers,
            output::bytes(self.size),
            args.rounds
        )
    }
}

/// Memory of the servers during disk-directed transfers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Memory {
    /// The most that any server had above what it had when idle.
    pub above_idle: u64,
    /// Whether anything was watched.
    pub watched: bool,
}

struct Bench<'a> {
    args: &'a Args,
    ours: Squad,
    romio: Option<Patterns>,
    /// The same program on the cluster.
    via: Option<Patterns>,
    /// Directory of the local files.
    local: PathBuf,
    servers: Vec<u32>,
    idle: Vec<u64>,
    seed: u64,
    memory: Memory,
}

impl Bench<'_> {
    fn local(&self, write: bool) -> String {
        let name = if write { "to-write" } else { "to-read" };
        self.local.join(name).to_string_lossy().into_owned()
    }

    fn job(&self, pattern: &str, record: u64, method: &str, bytes: u64) -> Job {
        let write = pattern.starts_with('w');
        let name = if write { "to-write" } else { "to-read" };
        Job {
            path: if method == RAW {
                self.local(write)
            } else {
                format!("/bench-patterns-{name}")
            },
            write,
            method: method.to_owned(),
            pattern: pattern.to_owned(),
            record,
            bytes,
            seed: self.seed,
            verify: true,
            layout: None,
            order: None,
        }
    }

    /// Fills the files that read patterns read, by contiguous writes; and warms those to be written.
    fn make_files_to_read(&mut self, size: u64) -> anyhow::Result<()> {
        for method in [RAW, ALONE] {
            for name in ["to-read", "to-write"] {
                let mut job = self.job("wb", 8, method, size);
                job.path = job.path.replace("to-write", name);
                let run = self.ours.run(&job.line(), &[])?;
                anyhow::ensure!(run.verified, "{} could not be filled", job.path);
            }
        }
        Ok(())
    }

    /// One run of a method.
    fn once(
        &mut self,
        pattern: &str,
        record: u64,
        method: &str,
        bytes: u64,
    ) -> anyhow::Result<Run> {
        if pattern.starts_with('w') {
            self.seed += 2;
        }
        let mut job = self.job(pattern, record, method, bytes);
        if !job.write {
            job.seed = SEED;
        }
        let run = match method.strip_prefix("romio-") {
            Some(mode) => {
                job.path = self.local(job.write);
                let romio = self.romio.as_mut().context("no MPI program was started")?;
                romio.run(mode, &job, &[])
            }
            None if method == VIA => {
                job.path = format!("trireme:{}", job.path);
                let via = self.via.as_mut().context("no MPI program was started")?;
                via.run("collective", &job, &self.servers)
            }
            None if method == RAW => self.ours.run(&job.line(), &[]),
            None => self.ours.run(&job.line(), &self.servers),
        };
        run.with_context(|| format!("{method} {pattern} {record}"))
    }

    /// All methods on one pattern.
    fn group(&mut self, plan: &Plan, pattern: &str, record: u64) -> anyhow::Result<Vec<Cell>> {
        let mut cells: Vec<Cell> = plan
            .methods
            .iter()
            .map(String::as_str)
            .chain(self.via.is_some().then_some(VIA))
            .chain(romio::METHODS.into_iter().filter(|_| self.romio.is_some()))
            .chain([RAW])
            .map(|method| Cell::new(pattern, record, method, plan.size))
            .collect();
        for cell in &mut cells {
            self.tell(&format!(
                "{pattern} {record} B: {} (first look)",
                cell.method
            ));
            self.first_look(cell, plan)?;
        }
        if let Some([native, via]) = targets::native_and_via(&mut cells) {
            // A slow first look at one of them must not have them compared on different files.
            let least = native.bytes.min(via.bytes);
            (native.bytes, via.bytes) = (least, least);
        }
        self.take_turns(&mut cells.iter_mut().collect::<Vec<_>>(), self.args.rounds)?;
        if let Some([native, via]) = targets::native_and_via(&mut cells)
            && via.times(native) < targets::OF_NATIVE
        {
            // Of tens of cells some miss by chance: these are measured again, longer, and that counts.
            native.forget_runs();
            via.forget_runs();
            self.take_turns(&mut [native, via], CONFIRM * self.args.rounds)?;
        }
        self.tell("");
        cell::compare(&mut cells, self.args.ranks);
        Ok(cells)
    }

    /// Runs of each method, one after the other.
    fn take_turns(&mut self, cells: &mut [&mut Cell], rounds: u32) -> anyhow::Result<()> {
        for round in 1..=rounds {
            for cell in &mut *cells {
                self.tell(&format!(
                    "{} {} B: {} ({round} of {rounds})",
                    cell.pattern, cell.record, cell.method
                ));
                let run = self.once(&cell.pattern, cell.record, &cell.method, cell.bytes)?;
                cell.add(run);
            }
        }
        Ok(())
    }

    /// Unmeasured runs: some on small files, which tell whether the whole one is within the limit, then
    /// one as it will be measured, which warms everything and during which memory is watched.
    fn first_look(&mut self, cell: &mut Cell, plan: &Plan) -> anyhow::Result<()> {
        let multiple = cell.record * u64::from(self.args.ranks);
        // Smaller and smaller halves of the file that still are whole records for everybody.
        let mut halves = vec![plan.size];
        while halves[halves.len() - 1] > PROBE
            && (halves[halves.len() - 1] / 2).is_multiple_of(multiple)
        {
            halves.push(halves[halves.len() - 1] / 2);
        }
        // From the smallest up until a run takes long enough to be believed.
        let mut rate = f64::INFINITY;
        for bytes in halves.iter().rev().step_by(2) {
            let run = self.once(&cell.pattern, cell.record, &cell.method, *bytes)?;
            rate = *bytes as f64 / run.seconds;
            if run.seconds > BELIEVED {
                break;
            }
        }
        let fits = |bytes: &&u64| **bytes as f64 / rate <= self.args.limit;
        let smallest = halves[halves.len() - 1];
        cell.bytes = halves.iter().find(fits).copied().unwrap_or(smallest);
        let watch = (cell.method == "disk-directed" && !self.servers.is_empty())
            .then(|| MemoryWatch::start(&self.servers));
        let run = self.once(&cell.pattern, cell.record, &cell.method, cell.bytes)?;
        if let Some(watch) = watch {
            self.memory.watched = true;
            for (most, idle) in watch.stop().into_iter().zip(&self.idle) {
                self.memory.above_idle = self.memory.above_idle.max(most.saturating_sub(*idle));
            }
        }
        cell.verified &= run.verified;
        Ok(())
    }

    /// Progress for whoever watches.
    #[allow(clippy::unused_self)]
    fn tell(&self, text: &str) {
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let _ = write!(out, "\r\x1b[K{text}");
            let _ = out.flush();
        }
    }
}
