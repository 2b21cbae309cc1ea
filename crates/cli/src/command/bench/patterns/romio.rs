//! The patterns by MPI-IO: our MPI program on local files, which is the peer, and on the cluster through
//! trireme's own library.
//!
//! What is done so that the peer loses nothing by its settings stands in [`ABOUT`] and in the program.

use std::path::Path;
use trireme_partition::{ArraySpec, Dist};

use super::super::mpi::{Mpi, Program};
use super::super::squad::{Run, Squad};
use super::super::worker::Job;

/// The peer's methods, as cells name them.
pub const METHODS: [&str; 3] = ["romio-collective", "romio-sieving", "romio-independent"];

/// The method of programs that use trireme through MPI-IO.
pub const VIA: &str = "via-mpi";

/// How the peer is kept fair.
const ABOUT: &str = "ROMIO writes the local file system with no server in between. A waiting rank \
    gives its processor away (as packaged, MPICH spins, and with more ranks than processors that is \
    four times slower), every rank may aggregate (cb_nodes = ranks; the default is one), and \
    the collective buffer is 1 MiB (of 128 KiB to 16 MiB, the default, the fastest here). \
    Opening the file, building the view and allocating are outside the clock. Between its turns its \
    ranks sleep. Its buffers begin on a page, as ours do, which makes its independent reads twice as \
    fast; our library moves buffers that come back to large pages. \
    PATTERNS_LARGE_PAGES=1 in the environment gives them to the peer also.";

const SOURCE: (&str, &str) = ("patterns.c", include_str!("../../../../mpi/patterns.c"));

/// The MPI program, started once.
pub struct Patterns {
    squad: Squad,
    ranks: u32,
    version: String,
}

impl Patterns {
    /// On local files, or on a cluster.
    pub fn start(dir: &Path, ranks: u32, cluster: Option<&str>) -> anyhow::Result<Patterns> {
        let program = Program::compile(Mpi::Mpich, dir, &[SOURCE])?;
        let pipes = dir.join(cluster.map_or("romio-pipes", |_| "via-pipes"));
        Ok(Patterns {
            squad: program.start(&pipes, ranks, cluster)?,
            ranks,
            version: program.version,
        })
    }

    /// One run; `mode` is collective, sieving or independent.
    pub fn run(&mut self, mode: &str, job: &Job, servers: &[u32]) -> anyhow::Result<Run> {
        self.squad.run(&line(mode, job, self.ranks)?, servers)
    }

    /// What it is, and how it is kept fair.
    pub fn about(&self) -> String {
        format!("{}: {ABOUT}", self.version)
    }
}

/// A job as the program reads it.
fn line(mode: &str, job: &Job, ranks: u32) -> anyhow::Result<String> {
    let Job {
        path,
        bytes,
        record,
        seed,
        ..
    } = job;
    anyhow::ensure!(
        !path.contains(char::is_whitespace),
        "the MPI-IO program cannot use {path}: give --dir a directory without spaces"
    );
    let op = if job.write { 'w' } else { 'r' };
    let mut line = format!("job {path} {op} {mode} {bytes} {record} {seed}");
    match &ArraySpec::named(&job.pattern, *record, *bytes, ranks)? {
        None => line += " 0",
        Some(spec) => line += &dimensions(spec),
    }
    Ok(line)
}

fn dimensions(spec: &ArraySpec) -> String {
    let mut text = format!(" {}", spec.shape.len());
    for ((length, distribution), grid) in spec.shape.iter().zip(&spec.distribution).zip(&spec.grid)
    {
        let letter = match distribution {
            Dist::None => 'n',
            Dist::Block | Dist::BlockOf(_) => 'b',
            Dist::Cyclic(_) => 'c',
        };
        text += &format!(" {length} {letter} {grid}");
    }
    text
}
