//! What stands on MPI-IO: mpi4py, parallel HDF5, PnetCDF, a program shaped like BT-IO. What a library
//! writes here is, byte for byte, what it writes to a local file.

mod support;

use std::path::Path;
use std::process::Command;
use support::{MPIS, World, fine, skip};

/// Debian's Python is built for one of the MPIs.
fn python(module: &str) -> Option<&'static str> {
    let code = "import mpi4py.MPI as m; print(m.get_vendor()[0])";
    let code = format!("import {module}; {code}");
    let output = Command::new("/usr/bin/python3")
        .args(["-c", &code])
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let said = said.unwrap_or_default();
    if said.contains("Open MPI") {
        Some("openmpi")
    } else if said.contains("MPICH") {
        Some("mpich")
    } else {
        skip(module, "not installed for /usr/bin/python3");
        None
    }
}

fn script(name: &str) -> String {
    format!("{}/tests/programs/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn mpi4py() {
    let Some(mpi) = python("mpi4py") else { return };
    let world = World::new();
    let python = Path::new("/usr/bin/python3");
    let output = world.run(mpi, 2, python, &[&script("arrays.py"), "trireme:/arrays"]);
    fine(mpi, "arrays.py", &output);
}

#[test]
fn parallel_hdf5_writes_the_same_file_as_elsewhere() {
    // Debian's h5py has a serial and a parallel build behind one name.
    let Some(mpi) = python("h5py._debian_h5py_mpi") else {
        return;
    };
    let world = World::new();
    let python = Path::new("/usr/bin/python3");
    let local = world.dir.path().join("slabs.h5");
    let local = local.to_str().unwrap();
    for file in ["trireme:/slabs.h5", local] {
        let output = world.run(mpi, 2, python, &[&script("slabs.py"), file]);
        fine(mpi, "slabs.py", &output);
    }
    assert!(world.bytes("/slabs.h5") == std::fs::read(local).unwrap());
}

/// Where Debian has the parallel HDF5 for an MPI: options to compile with.
fn hdf5(mpi: &str) -> Option<[String; 3]> {
    let include = format!("/usr/include/hdf5/{mpi}");
    let library = std::fs::read_dir("/usr/lib")
        .ok()?
        .flatten()
        .find_map(|place| {
            let folder = place.path().join("hdf5").join(mpi);
            folder.join("libhdf5.so").exists().then_some(folder)
        });
    let there = Path::new(&include).exists();
    let library = library.filter(|_| there)?;
    Some([
        format!("-I{include}"),
        format!("-L{}", library.display()),
        "-lhdf5".into(),
    ])
}

#[test]
fn hdf5_in_c_writes_the_same_file_as_elsewhere() {
    let world = World::new();
    for mpi in MPIS {
        let Some(options) = hdf5(mpi) else {
            skip("hdf5", &format!("libhdf5-{mpi}-dev is not installed"));
            continue;
        };
        let options = options.each_ref().map(String::as_str);
        let Some(program) = world.compile(mpi, "hyperslabs.c", &options) else {
            continue;
        };
        let local = world.dir.path().join(format!("{mpi}.h5"));
        let local = local.to_str().unwrap();
        for file in [&format!("trireme:/{mpi}.h5"), local] {
            let output = world.run(mpi, 3, &program, &[file]);
            fine(mpi, &format!("hyperslabs.c on {file}"), &output);
        }
        assert!(world.bytes(&format!("/{mpi}.h5")) == std::fs::read(local).unwrap());
    }
}

#[test]
fn pnetcdf_writes_the_same_file_as_elsewhere() {
    if !Path::new("/usr/include/pnetcdf.h").exists() {
        skip("pnetcdf", "libpnetcdf-dev is not installed");
        return;
    }
    // Debian builds it for its default MPI.
    let world = World::new();
    let mpi = "openmpi";
    let Some(program) = world.compile(mpi, "pnetcdf.c", &["-lpnetcdf"]) else {
        return;
    };
    let local = world.dir.path().join("local.nc");
    let local = local.to_str().unwrap();
    for file in ["trireme:/file.nc", local] {
        fine(mpi, "pnetcdf.c", &world.run(mpi, 2, &program, &[file]));
    }
    assert!(world.bytes("/file.nc") == std::fs::read(local).unwrap());
}

#[test]
fn the_shape_of_bt_io() {
    let world = World::new();
    for mpi in MPIS {
        let Some(program) = world.compile(mpi, "btio.c", &[]) else {
            continue;
        };
        // Classes S, W and A of the benchmark; fewer steps, as each does the same.
        for (class, grid, steps) in [("S", "12", "6"), ("W", "24", "3"), ("A", "64", "2")] {
            let file = format!("trireme:/bt.{class}.{mpi}");
            let output = world.run(mpi, 4, &program, &[&file, grid, steps]);
            fine(mpi, &format!("btio.c class {class}"), &output);
        }
        let local = world.dir.path().join(format!("bt.{mpi}"));
        let local = local.to_str().unwrap();
        let output = world.run(mpi, 4, &program, &[local, "24", "3"]);
        fine(mpi, "btio.c on a local file", &output);
        assert!(world.bytes(&format!("/bt.W.{mpi}")) == std::fs::read(local).unwrap());
    }
}
