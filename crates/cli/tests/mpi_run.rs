//! `trireme mpi-run`: a real MPI program, started by each MPI's launcher.

mod support;

use std::path::Path;
use std::process::Command;
use support::{skip, world};

#[test]
fn a_program_as_it_is_works_on_the_cluster() {
    let binary = Path::new(env!("CARGO_BIN_EXE_trireme"));
    let dir = binary.parent().unwrap();
    let name = "libtrireme_mpi.so";
    if !dir.join(name).exists() && !dir.join("deps").join(name).exists() {
        skip(
            "mpi-run",
            "libtrireme_mpi.so is not built: cargo build -p trireme-mpiio",
        );
        return;
    }
    let world = world(2);
    let cluster = world.local.dir().join("cluster.json");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpiio/tests/programs/transfer.c");
    for mpi in ["mpich", "openmpi"] {
        let program = world.local.dir().join(format!("program.{mpi}"));
        let compiled = Command::new(format!("mpicc.{mpi}"))
            .arg("-o")
            .arg(&program)
            .arg(&source)
            .status();
        let Ok(compiled) = compiled else {
            skip("mpi-run", &format!("mpicc.{mpi} is not installed"));
            continue;
        };
        assert!(compiled.success());
        let mut command = Command::new("timeout");
        command
            .args(["-k", "5", "120"])
            .arg(binary)
            .arg("--cluster")
            .arg(&cluster)
            .args(["mpi-run", "--report", "--method", "two-phase"])
            .arg(format!("mpiexec.{mpi}"));
        if mpi == "openmpi" {
            command
                .args(["--allow-run-as-root", "--oversubscribe"])
                .args(["--mca", "mpi_yield_when_idle", "1"]);
        }
        let output = command
            .args(["-n", "2"])
            .arg(&program)
            .arg(format!("trireme:/{mpi}"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("all fine"),
            "{mpi}: {said}"
        );
        assert!(
            said.contains("collective 0, write, two-phase"),
            "{mpi}: {said}"
        );
        assert_eq!(
            world
                .client()
                .open(format!("/{mpi}"))
                .unwrap()
                .size()
                .unwrap(),
            8000
        );
    }
}
