//! `trireme bench btio`: the I/O of the NAS benchmark BT-IO through trireme's MPI library, beside ROMIO
//! and OMPIO on the local file system, in one run.
//!
//! One MPI program (`mpi/btio.c`), compiled for each MPI, does it all; see `docs/benchmarks.md`.

mod report;

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::mpi::{Mpi, Program};
use super::squad::{Run, Squad};
use report::Cell;

/// BT-IO (nested strided solution vectors) through MPI-IO, beside ROMIO and OMPIO on local files
///
/// Every time step's vector is written collectively, the file is closed, opened again, and every step
/// read back and compared. Counts the time in the collective calls, of the slowest rank. Without
/// --cluster it starts a cluster of its own and removes it afterwards. Needs mpicc and mpiexec of MPICH
/// and Open MPI (Debian: apt-get install mpich libmpich-dev openmpi-bin libopenmpi-dev).
#[derive(clap::Args)]
pub struct Args {
    /// Classes of the benchmark
    #[arg(long, value_delimiter = ',', default_value = "S,W,A")]
    classes: Vec<Class>,
    /// Processes, a square number
    #[arg(long, default_value = "4")]
    ranks: u32,
    /// I/O servers of the cluster that is started; default: one for each processor, at most 4
    #[arg(long)]
    servers: Option<u32>,
    /// Beside which MPI-IO on local files
    #[arg(long, value_delimiter = ',', default_value = "romio,ompio")]
    against: Vec<Peer>,
    /// Runs of each, in turn; medians are printed
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// 4 steps of each class and 3 runs, for a first look
    #[arg(long)]
    quick: bool,
    /// Where the cluster and the local files are made
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A size of the problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Class {
    S,
    W,
    A,
}

impl Class {
    /// Cells along an edge of the cube, and how often the solution is written.
    fn size(self) -> (u64, u64) {
        match self {
            Class::S => (12, 12),
            Class::W => (24, 40),
            Class::A => (64, 40),
        }
    }
}

/// Somebody else's MPI-IO.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// MPICH's
    Romio,
    /// Open MPI's
    Ompio,
}

/// What `--quick` makes of steps and rounds.
const QUICK: (u64, u32) = (4, 3);

/// Who is measured in turn.
struct Contestant {
    method: &'static str,
    path: String,
    squad: Squad,
    /// Processes whose processor time counts too.
    servers: Vec<u32>,
    version: String,
}

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let own = tempfile::Builder::new()
        .prefix("trireme-btio-")
        .tempdir_in(&args.dir)
        .with_context(|| format!("make a directory in {}", args.dir.display()))?;
    let own_path = own.path().canonicalize()?;
    anyhow::ensure!(
        !own_path.to_string_lossy().contains(char::is_whitespace),
        "the MPI program cannot use {}: give --dir a directory without spaces",
        own_path.display()
    );
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let servers = args.servers.unwrap_or(processors.clamp(1, 4) as u32);
    let (running, cluster) = if let Some(cluster) = &context.cluster {
        (None, cluster.clone())
    } else {
        let mut up = trireme::local::Up::new(own_path.join("cluster"));
        up.publish = false;
        up.servers = Some(servers);
        let running = up.start()?;
        let cluster = running.dir().to_string_lossy().into_owned();
        (Some(running), cluster)
    };
    let pids = running.as_ref().map_or_else(Vec::new, |running| {
        let servers = running.servers().iter();
        servers.map(trireme::local::Process::pid).collect()
    });
    eprintln!("compiling and starting the MPI programs ...");
    let mut contestants = contestants(args, &own_path, &cluster, pids)?;
    let rounds = if args.quick { QUICK.1 } else { args.rounds };
    println!(
        "{} ranks, {servers} servers, {rounds} runs each in turn (medians), page cache warm, every step verified",
        args.ranks
    );
    println!("{}", report::header());
    let mut cells = Vec::new();
    for &class in &args.classes {
        let (grid, all) = class.size();
        let steps = if args.quick { QUICK.0.min(all) } else { all };
        let mut group: Vec<Cell> = contestants
            .iter()
            .map(|one| Cell::new(class, one.method, grid, steps, steps == all, args.ranks))
            .collect();
        // The first round warms everything and does not count.
        for round in 0..=rounds {
            for (cell, one) in group.iter_mut().zip(&mut contestants) {
                tell(&format!(
                    "class {class:?}: {} ({round} of {rounds})",
                    one.method
                ));
                let run = one.run(grid, steps, round)?;
                if round == 0 {
                    cell.verified &= run.verified;
                } else {
                    cell.add(&run)?;
                }
            }
        }
        tell("");
        report::compare(&mut group);
        for cell in &group {
            println!("{}", report::line(cell));
        }
        println!();
        cells.extend(group);
    }
    let peers: Vec<String> = contestants
        .iter()
        .map(|one| format!("{}: {}", one.method, one.version))
        .collect();
    let targets = vec![report::judge(&cells)];
    report::print(&targets, &peers);
    if let Some(path) = &args.json {
        let json = report::json(&cells, &targets, &peers, servers);
        std::fs::write(path, format!("{json:#}\n"))
            .with_context(|| format!("write {}", path.display()))?;
    }
    let wrong = cells.iter().filter(|cell| !cell.verified).count();
    anyhow::ensure!(
        wrong == 0,
        "{wrong} cells had bytes that were not where they belong"
    );
    Ok(())
}

/// Trireme first, then its peers.
fn contestants(
    args: &Args,
    dir: &Path,
    cluster: &str,
    servers: Vec<u32>,
) -> anyhow::Result<Vec<Contestant>> {
    const SOURCES: [(&str, &str); 2] = [
        ("btio.c", include_str!("../../../mpi/btio.c")),
        ("bt.h", include_str!("../../../mpi/bt.h")),
    ];
    let start = |method: &'static str, mpi, cluster: Option<&str>, servers| {
        let program = Program::compile(mpi, dir, &SOURCES)?;
        let path = match cluster {
            Some(_) => format!("trireme:/bench-btio-{}", std::process::id()),
            None => dir.join(method).to_string_lossy().into_owned(),
        };
        anyhow::Ok(Contestant {
            method,
            path,
            squad: program.start(&dir.join(format!("{method}-pipes")), args.ranks, cluster)?,
            servers,
            version: program.version,
        })
    };
    let mut all = vec![start(report::OURS, Mpi::Mpich, Some(cluster), servers)?];
    for peer in &args.against {
        all.push(match peer {
            Peer::Romio => start("romio", Mpi::Mpich, None, Vec::new())?,
            Peer::Ompio => start("ompio", Mpi::OpenMpi, None, Vec::new())?,
        });
    }
    Ok(all)
}

impl Contestant {
    fn run(&mut self, grid: u64, steps: u64, seed: u32) -> anyhow::Result<Run> {
        let job = format!("job {} {grid} {steps} {}", self.path, seed + 1);
        self.squad
            .run(&job, &self.servers)
            .with_context(|| format!("{} on {grid}^3 cells", self.method))
    }
}

/// Progress for whoever watches.
fn tell(text: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{text}");
        let _ = out.flush();
    }
}

/// Bytes of all steps.
fn bytes(grid: u64, steps: u64) -> u64 {
    grid.pow(3) * 40 * steps
}

/// The same for people.
fn volume(grid: u64, steps: u64) -> String {
    output::bytes(bytes(grid, steps))
}
