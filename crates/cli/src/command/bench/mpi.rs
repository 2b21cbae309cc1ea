//! Our MPI programs as squads: compiled by an MPI's mpicc when a benchmark starts, started once by its
//! mpiexec, on local files or, through trireme's preloaded library, on a cluster.

use anyhow::Context as _;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::squad::{Member, Squad};

/// What all programs include.
const HEADER: (&str, &str) = ("squad.h", include_str!("../../../mpi/squad.h"));

/// The MPIs of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mpi {
    Mpich,
    OpenMpi,
}

impl Mpi {
    fn name(self) -> &'static str {
        match self {
            Mpi::Mpich => "mpich",
            Mpi::OpenMpi => "openmpi",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Mpi::Mpich => {
                "install MPICH and its headers (Debian: apt-get install mpich libmpich-dev)"
            }
            Mpi::OpenMpi => {
                "install Open MPI and its headers (Debian: apt-get install openmpi-bin libopenmpi-dev)"
            }
        }
    }

    /// Its program of this name: where several MPIs are installed, Debian calls it `mpicc.mpich`.
    fn program(self, name: &str) -> String {
        let own = format!("{name}.{}", self.name());
        let found = std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&own).exists()));
        if found { own } else { name.to_owned() }
    }

    /// What it calls itself.
    fn version(self) -> String {
        let ask = |program: &str, argument: &[&str]| {
            let output = Command::new(program).args(argument).output();
            let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
            text.unwrap_or_default()
        };
        match self {
            Mpi::Mpich => {
                let text = ask("mpichversion", &[]);
                let word = |label: &str| {
                    let line = text.lines().find_map(|line| line.strip_prefix(label));
                    line.unwrap_or("?").trim().to_owned()
                };
                let (version, device) = (word("MPICH Version:"), word("MPICH Device:"));
                format!("MPICH {version} ({device})")
            }
            Mpi::OpenMpi => {
                let text = ask("ompi_info", &["--version"]);
                text.lines().next().unwrap_or("Open MPI").trim().to_owned()
            }
        }
    }

    /// How it starts processes, so that one that waits gives its processor away.
    fn launch(self, command: &mut Command) {
        command.arg(self.program("mpiexec"));
        if self == Mpi::OpenMpi {
            command
                .args(["--oversubscribe", "--bind-to", "none"])
                .args(["--mca", "mpi_yield_when_idle", "1"])
                .args(["--mca", "io", "ompio"]);
            if rustix::process::geteuid().is_root() {
                command.arg("--allow-run-as-root");
            }
        }
    }
}

/// A compiled program.
#[derive(Debug)]
pub struct Program {
    mpi: Mpi,
    path: PathBuf,
    /// The MPI library's name.
    pub version: String,
}

impl Program {
    /// Compiles a program, the first of `sources`, in `dir`.
    pub fn compile(mpi: Mpi, dir: &Path, sources: &[(&str, &str)]) -> anyhow::Result<Program> {
        for (name, text) in sources.iter().chain([&HEADER]) {
            std::fs::write(dir.join(name), text)?;
        }
        let source = dir.join(sources[0].0);
        let path = source.with_extension(mpi.name());
        let output = Command::new(mpi.program("mpicc"))
            .args(["-O2", "-rdynamic", "-o"])
            .arg(&path)
            .arg(&source)
            .arg("-ldl")
            .output()
            .with_context(|| format!("run mpicc: {}", mpi.remedy()))?;
        anyhow::ensure!(
            output.status.success(),
            "mpicc failed: {}\n{}",
            String::from_utf8_lossy(&output.stderr).trim(),
            mpi.remedy()
        );
        let version = mpi.version();
        Ok(Program { mpi, path, version })
    }

    /// Starts it; `pipes`, a directory to be made, holds the conversation. With a cluster, its files are
    /// trireme's as `trireme mpi-run` makes them so.
    pub fn start(&self, pipes: &Path, ranks: u32, cluster: Option<&str>) -> anyhow::Result<Squad> {
        std::fs::create_dir(pipes)?;
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
        let mut command = match cluster {
            Some(cluster) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["--cluster", cluster, "mpi-run", "--method", "disk-directed"]);
                command
            }
            None => Command::new("env"),
        };
        self.mpi.launch(&mut command);
        let child = command
            .args(["-n", &ranks.to_string()])
            .arg(&self.path)
            .arg(pipes)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("start mpiexec: {}", self.mpi.remedy()))?;
        Ok(Squad::new("MPI rank", vec![child], members))
    }
}
