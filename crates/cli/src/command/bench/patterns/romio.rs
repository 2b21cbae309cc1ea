//! The peer: our MPI-IO program, compiled with mpicc and run by mpiexec on local files.
//!
//! What is done so that it loses nothing by its settings stands in [`ABOUT`] and in the program.

use anyhow::Context as _;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trireme_partition::{ArraySpec, Dist};

use super::super::squad::{Member, Run, Squad};
use super::super::worker::Job;

/// The peer's methods, as cells name them.
pub const METHODS: [&str; 3] = ["romio-collective", "romio-sieving", "romio-independent"];

/// How the peer is kept fair.
const ABOUT: &str = "ROMIO writes the local file system with no server in between. A waiting rank \
    gives its processor away (as packaged, MPICH spins, and with more ranks than processors that is \
    four times slower), every rank may aggregate (cb_nodes = ranks; the default is one), and \
    the collective buffer is 1 MiB (of 128 KiB to 16 MiB, the default, the fastest here). \
    Opening the file, building the view and allocating are outside the clock. Between its turns its \
    ranks sleep. Its buffers come from malloc, as a program's do; ours too, but our library moves those \
    that come back to large pages. PATTERNS_LARGE_PAGES=1 in the environment gives them to the peer also.";

const SOURCE: &str = include_str!("../../../../romio/patterns.c");

/// The MPI program, started once.
pub struct Romio {
    squad: Squad,
    ranks: u32,
    version: String,
}

impl Romio {
    pub fn start(dir: &Path, ranks: u32) -> anyhow::Result<Romio> {
        let (program, version) = compile(dir)?;
        let pipes = dir.join("romio-pipes");
        std::fs::create_dir(&pipes)?;
        let pipe = |name: &str, rank: u32| -> anyhow::Result<PathBuf> {
            let path = pipes.join(format!("{name}.{rank}"));
            let mode = Mode::RUSR | Mode::WUSR;
            rustix::fs::mknodat(CWD, &path, FileType::Fifo, mode, 0)?;
            Ok(path)
        };
        let mut members = Vec::new();
        for rank in 0..ranks {
            let (jobs, answers) = (pipe("job", rank)?, pipe("answer", rank)?);
            // Both without waiting for the other side: it may never come.
            let open = |path, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
            let to = open(jobs, OFlags::RDWR)?;
            let from = open(answers, OFlags::RDONLY | OFlags::NONBLOCK)?;
            members.push(Member::new(to.into(), from.into()));
        }
        let child = Command::new(mpich("mpiexec"))
            .args(["-n", &ranks.to_string()])
            .arg(&program)
            .arg(&pipes)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("start mpiexec: install MPICH (Debian: apt-get install mpich)")?;
        Ok(Romio {
            squad: Squad::new("MPI rank", vec![child], members),
            ranks,
            version,
        })
    }

    /// One run; `mode` is collective, sieving or independent.
    pub fn run(&mut self, mode: &str, job: &Job) -> anyhow::Result<Run> {
        self.squad.run(&line(mode, job, self.ranks)?, &[])
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

/// MPICH's program of this name: where several MPIs are installed, Debian calls it `mpicc.mpich`.
fn mpich(name: &str) -> String {
    let own = format!("{name}.mpich");
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&own).exists()));
    if found { own } else { name.to_owned() }
}

/// Compiles the program; gives its path and the MPI library's name.
fn compile(dir: &Path) -> anyhow::Result<(PathBuf, String)> {
    const REMEDY: &str =
        "install MPICH and its headers (Debian: apt-get install mpich libmpich-dev)";
    let (source, program) = (dir.join("patterns.c"), dir.join("romio-patterns"));
    std::fs::write(&source, SOURCE)?;
    let output = Command::new(mpich("mpicc"))
        .args(["-O2", "-rdynamic", "-o"])
        .arg(&program)
        .arg(&source)
        .arg("-ldl")
        .output()
        .with_context(|| format!("run mpicc: {REMEDY}"))?;
    anyhow::ensure!(
        output.status.success(),
        "mpicc failed: {}\n{REMEDY}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let version = Command::new("mpichversion").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = version.unwrap_or_default();
    let word = |label: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(label));
        line.unwrap_or("?").trim().to_owned()
    };
    Ok((
        program,
        format!(
            "MPICH {} ({})",
            word("MPICH Version:"),
            word("MPICH Device:")
        ),
    ))
}
