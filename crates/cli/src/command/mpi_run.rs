//! `trireme mpi-run`: starts an MPI program with the library preloaded that puts its files here.

use crate::context::Context;
use anyhow::Context as _;
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the library; one serves every MPI.
const LIBRARY: &str = "libtrireme_mpi.so";

const EXAMPLES: &str = "\
Try:
  trireme mpi-run mpiexec -n 64 ./a.out                 files that it names trireme:/path are on trireme
  trireme mpi-run --prefix /scratch mpiexec -n 4 ./a.out  and all those below /scratch: /scratch/x is /x
  trireme mpi-run --method two-phase --report mpiexec -n 4 ./a.out    another method, and what it did

The same by hand, for launchers of other kinds: LD_PRELOAD=/where/it/is/libtrireme_mpi.so in the
environment of the program. docs/mpi.md tells what works, and what does not.";

/// Run an unmodified MPI program: its files named trireme:/path live on the cluster
///
/// Nothing is recompiled: a library is preloaded that takes over MPI_File_* for those files, under
/// MPICH and Open MPI, from C, C++, Fortran and Python, and through HDF5 and PnetCDF. Collective calls
/// become disk-directed collectives. Every other file stays MPI's.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Files below this directory are on the cluster too, whether or not the directory exists
    #[arg(long, env = "TRIREME_PREFIX", value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// How collectives are carried out: disk-directed (default), two-phase or independent
    #[arg(long, env = "TRIREME_METHOD")]
    method: Option<trireme::Method>,
    /// Print what each collective did when its file is closed
    #[arg(long)]
    report: bool,
    /// The library; default: the one beside this program
    #[arg(long, env = "TRIREME_MPI_LIBRARY", value_name = "FILE")]
    library: Option<PathBuf>,
    /// The launcher or the program, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    command: Vec<OsString>,
}

/// Becomes the command.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let library = match &args.library {
        Some(path) => path.clone(),
        None => beside_us()?,
    };
    let library = library
        .canonicalize()
        .with_context(|| format!("the library {}", library.display()))?;
    // Said here once rather than by every process.
    context.descriptor()?;
    let mut preload = library.into_os_string();
    if let Some(more) = std::env::var_os("LD_PRELOAD").filter(|more| !more.is_empty()) {
        preload.push(":");
        preload.push(more);
    }
    let mut environment: Vec<(&str, OsString)> = vec![("LD_PRELOAD", preload)];
    if let Some(name) = &context.cluster {
        let path = Path::new(name).canonicalize();
        environment.push((
            "TRIREME_CLUSTER",
            path.map_or_else(|_| name.into(), Into::into),
        ));
    }
    if let Some(prefix) = &args.prefix {
        environment.push(("TRIREME_PREFIX", prefix.into()));
    }
    if let Some(method) = args.method {
        environment.push(("TRIREME_METHOD", method.to_string().into()));
    }
    if args.report {
        environment.push(("TRIREME_REPORT", "1".into()));
    }
    environment.push(("TRIREME_TIMEOUT", context.timeout.to_string().into()));
    let mut command = with_environment(&args.command, &environment);
    let error = command.exec();
    Err(error).with_context(|| format!("start {}", args.command[0].display()))
}

/// The command with the environment for the processes it starts: launchers are told to hand it to
/// processes on other hosts as well.
fn with_environment(words: &[OsString], environment: &[(&str, OsString)]) -> Command {
    let mut command = Command::new(&words[0]);
    match launcher(&words[0]) {
        Launcher::Hydra => {
            for (name, value) in environment {
                command.arg("-genv").arg(name).arg(value);
            }
        }
        Launcher::OpenMpi => {
            for (name, value) in environment {
                let mut pair = OsString::from(format!("{name}="));
                pair.push(value);
                command.arg("-x").arg(pair);
            }
        }
        Launcher::Other => {
            command.envs(environment.iter().map(|(name, value)| (name, value)));
        }
    }
    command.args(&words[1..]);
    command
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    /// MPICH's.
    Hydra,
    OpenMpi,
    /// A batch system's, or the program itself: it inherits the environment.
    Other,
}

fn launcher(program: &OsStr) -> Launcher {
    let name = Path::new(program).file_name().unwrap_or_default();
    let name = name.to_string_lossy();
    if !["mpiexec", "mpirun", "orterun", "prterun"]
        .iter()
        .any(|known| name.starts_with(known))
    {
        return Launcher::Other;
    }
    let Ok(output) = Command::new(program).arg("--version").output() else {
        return Launcher::Other;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("HYDRA") {
        Launcher::Hydra
    } else if ["Open MPI", "OpenRTE", "PRRTE"]
        .iter()
        .any(|name| said.contains(name))
    {
        Launcher::OpenMpi
    } else {
        Launcher::Other
    }
}

/// The library where a build or an installation leaves it; the newest, as a test leaves it elsewhere
/// than a build.
fn beside_us() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("where this program is")?;
    let dir = own.parent().context("where this program is")?;
    [".", "deps", "../lib"]
        .map(|place| dir.join(place).join(LIBRARY))
        .into_iter()
        .filter_map(|place| Some((place.metadata().ok()?.modified().ok()?, place)))
        .max()
        .map(|(_, place)| place)
        .with_context(|| {
            format!(
                "{LIBRARY} is not beside {}: build it (cargo build -p trireme-mpiio, with the same \
                 profile), or name it with --library",
                own.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_by_itself_gets_the_environment() {
        let words = ["true".into(), "-n".into()];
        let command = with_environment(&words, &[("LD_PRELOAD", "/x.so".into())]);
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["-n"]);
        let set: Vec<_> = command.get_envs().collect();
        assert_eq!(set, [(OsStr::new("LD_PRELOAD"), Some(OsStr::new("/x.so")))]);
    }
}
