//! Real MPI programs on an embedded cluster: compiled here, run by each MPI's mpiexec with the library
//! preloaded.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

use trireme::Cluster;
use trireme::embedded::Embedded;

/// The MPIs of Debian.
pub const MPIS: [&str; 2] = ["mpich", "openmpi"];

/// Seconds after which a run counts as hung.
const PATIENCE: &str = "120";

/// One run at a time: waiting ranks spin, and there may be few processors.
static TURN: Mutex<()> = Mutex::new(());

/// A cluster, a directory, and the right to run.
pub struct World {
    pub dir: tempfile::TempDir,
    pub embedded: Embedded,
    address: PathBuf,
    _turn: MutexGuard<'static, ()>,
}

impl World {
    pub fn new() -> World {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().unwrap();
        let embedded = Embedded::start_both(&dir.path().join("cluster"), 3).unwrap();
        let address = dir.path().join("address.json");
        let text = serde_json::to_string(&embedded.descriptor()).unwrap();
        std::fs::write(&address, text).unwrap();
        World {
            dir,
            embedded,
            address,
            _turn: turn,
        }
    }

    pub fn client(&self) -> Cluster {
        self.embedded.connect().unwrap()
    }

    /// All bytes of a file on the cluster.
    pub fn bytes(&self, path: &str) -> Vec<u8> {
        let file = self.client().open(path).unwrap();
        let mut bytes = vec![0; file.size().unwrap() as usize];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    /// Compiles `tests/programs/NAME` with an MPI's compiler; `None`, and said, where there is none.
    pub fn compile(&self, mpi: &str, name: &str, libraries: &[&str]) -> Option<PathBuf> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/programs")
            .join(name);
        let compiler = if source.extension().is_some_and(|end| end == "f90") {
            "mpif90"
        } else {
            "mpicc"
        };
        let compiler = format!("{compiler}.{mpi}");
        let program = self.dir.path().join(format!("{name}.{mpi}"));
        let modules = self.dir.path().join(format!("modules.{mpi}"));
        std::fs::create_dir_all(&modules).unwrap();
        let output = Command::new(&compiler)
            .current_dir(&modules)
            .args(["-O1", "-o"])
            .arg(&program)
            .arg(&source)
            .args(libraries)
            .output();
        let Ok(output) = output else {
            skip(name, &format!("{compiler} is not installed"));
            return None;
        };
        assert!(
            output.status.success(),
            "{compiler} {name}: {}",
            said(&output)
        );
        Some(program)
    }

    /// Runs a program on `ranks` processes with the library preloaded.
    pub fn run(&self, mpi: &str, ranks: u32, program: &Path, arguments: &[&str]) -> Output {
        self.run_with(mpi, ranks, &[], program, arguments)
    }

    /// The same with more in the environment.
    pub fn run_with(
        &self,
        mpi: &str,
        ranks: u32,
        environment: &[(&str, &str)],
        program: &Path,
        arguments: &[&str],
    ) -> Output {
        self.command(mpi, ranks, environment, program, arguments)
            .output()
            .unwrap()
    }

    /// The command that a run is.
    pub fn command(
        &self,
        mpi: &str,
        ranks: u32,
        environment: &[(&str, &str)],
        program: &Path,
        arguments: &[&str],
    ) -> Command {
        self.command_by(mpi, ranks, &[], environment, program, arguments)
    }

    /// The same with more options for the launcher.
    pub fn command_by(
        &self,
        mpi: &str,
        ranks: u32,
        options: &[&str],
        environment: &[(&str, &str)],
        program: &Path,
        arguments: &[&str],
    ) -> Command {
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", PATIENCE])
            .arg(format!("mpiexec.{mpi}"));
        if mpi == "openmpi" {
            command
                .args(["--allow-run-as-root", "--oversubscribe"])
                .args(["--mca", "mpi_yield_when_idle", "1"]);
        }
        command
            .args(options)
            .args(["-n", &ranks.to_string()])
            .arg("env")
            .arg(format!("LD_PRELOAD={}", library().display()))
            .arg(program)
            .args(arguments)
            .current_dir(self.dir.path())
            .env("TRIREME_CLUSTER", &self.address)
            .envs(environment.iter().copied());
        command
    }

    /// Compiles and runs a program under every MPI there is; it says itself that all is fine.
    pub fn conform(&self, name: &str, ranks: u32, environment: &[(&str, &str)]) {
        for mpi in MPIS {
            let Some(program) = self.compile(mpi, name, &[]) else {
                continue;
            };
            let file = format!("trireme:/{name}.{mpi}");
            let local = self.dir.path().join(format!("{name}.{mpi}.local"));
            let output = self.run_with(
                mpi,
                ranks,
                environment,
                &program,
                &[&file, local.to_str().unwrap()],
            );
            fine(mpi, name, &output);
        }
    }
}

/// The program ended well and said so.
pub fn fine(mpi: &str, name: &str, output: &Output) {
    assert!(
        output.status.success() && said(output).contains("all fine"),
        "{name} under {mpi}: {}\n{}",
        output.status,
        said(output)
    );
}

/// What a program printed.
pub fn said(output: &Output) -> String {
    let out = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    format!("{out}{error}")
}

/// The library under test, which cargo puts beside the test's own dependencies.
pub fn library() -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let library = exe.parent().unwrap().join("libtrireme_mpi.so");
    assert!(library.exists(), "{} is not built", library.display());
    library
}

/// Says that a test could not run here, and why.
pub fn skip(test: &str, why: &str) {
    println!("skipped: {why}");
    if let Some(path) = std::env::var_os("TRIREME_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new().append(true).open(path)
    {
        use std::io::Write;
        let _ = writeln!(file, "{test}: {why}");
    }
}
