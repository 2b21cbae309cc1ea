//! `trireme mpi-run`: a real MPI program, started by each MPI's launcher.

mod mount_support;
mod support;

use std::path::Path;
use std::process::Command;
use support::{skip, world};

/// Whether the library to preload is beside the binary.
fn is_built(test: &str) -> bool {
    let dir = Path::new(env!("CARGO_BIN_EXE_trireme")).parent().unwrap();
    let name = "libtrireme_mpi.so";
    let built = dir.join(name).exists() || dir.join("deps").join(name).exists();
    if !built {
        let why = "libtrireme_mpi.so is not built: cargo build -p trireme-mpiio";
        skip(test, why);
    }
    built
}

/// What a program printed that ended well and said so.
fn fine(mpi: &str, output: &std::process::Output) -> String {
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && said.contains("all fine"),
        "{mpi}: {said}"
    );
    said
}

#[test]
fn a_program_as_it_is_works_on_the_cluster() {
    let binary = Path::new(env!("CARGO_BIN_EXE_trireme"));
    if !is_built("mpi-run") {
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
        let said = fine(mpi, &output);
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

/// PnetCDF looks at an existing file with `open` before it asks MPI. With the cluster mounted on the
/// prefix both find the same file under the same name.
#[test]
fn pnetcdf_opens_a_file_again_below_a_mounted_prefix() {
    let test = "pnetcdf_opens_a_file_again_below_a_mounted_prefix";
    if !Path::new("/usr/include/pnetcdf.h").exists() {
        return skip(test, "libpnetcdf-dev is not installed");
    }
    if !is_built(test) || !mount_support::have(test, &["mpicc.openmpi"]) {
        return;
    }
    let Some(mut sea) = mount_support::sea(test, 2) else {
        return;
    };
    let place = sea.mount(&[]);
    let program = sea.dir("program").join("pnetcdf");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpiio/tests/programs/pnetcdf.c");
    let compiled = Command::new("mpicc.openmpi")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .arg("-lpnetcdf")
        .status()
        .unwrap();
    assert!(compiled.success());
    let output = Command::new("timeout")
        .args(["-k", "5", "120", mount_support::binary(), "--cluster"])
        .arg(sea.local.dir().join("cluster.json"))
        .args(["mpi-run", "--report", "--prefix"])
        .arg(&place)
        .args(["mpiexec.openmpi", "--allow-run-as-root", "--oversubscribe"])
        .args(["--mca", "mpi_yield_when_idle", "1", "-n", "2"])
        .arg(&program)
        .arg(place.join("file.nc"))
        .arg("again")
        .output()
        .unwrap();
    let said = fine("openmpi", &output);
    // It went through the library, not through the mount.
    assert!(said.contains("collective 0, write"), "{said}");
    let there = sea.client().open("/file.nc").unwrap().size().unwrap();
    assert_eq!(
        std::fs::metadata(place.join("file.nc")).unwrap().len(),
        there
    );
}
