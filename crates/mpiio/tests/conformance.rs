//! Each group of routines, by programs that check themselves, under each MPI.

mod support;

use support::{MPIS, World, fine, said};

#[test]
fn files_are_opened_sized_and_deleted_and_errors_have_their_classes() {
    let world = World::new();
    world.conform("manage.c", 2, &[]);
    // What was not ours went to MPI.
    for mpi in MPIS {
        let local = world.dir.path().join(format!("manage.c.{mpi}.local"));
        if world.dir.path().join(format!("manage.c.{mpi}")).exists() {
            assert_eq!(std::fs::read(local).unwrap(), [0, 0, 0, 0, 1, 0, 0, 0]);
        }
    }
    // Shared pointers leave nothing behind.
    let left = world.client().namespace().read_dir("/").unwrap();
    let names: Vec<_> = left
        .iter()
        .map(|entry| String::from_utf8_lossy(&entry.name).into_owned())
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn bytes_move_by_every_routine() {
    World::new().conform("transfer.c", 3, &[]);
}

#[test]
fn every_method_moves_the_same_bytes() {
    let world = World::new();
    for method in ["independent", "two-phase"] {
        world.conform("views.c", 2, &[("TRIREME_METHOD", method)]);
    }
}

#[test]
fn a_collective_waits_for_who_comes_late() {
    let world = World::new();
    for method in ["disk-directed", "two-phase"] {
        let environment = [("TRIREME_TIMEOUT", "2"), ("TRIREME_METHOD", method)];
        world.conform("late.c", 3, &environment);
    }
    // Only the program's own thread may call MPI.
    let environment = [("TRIREME_TIMEOUT", "2"), ("LATE_ALONE", "1")];
    world.conform("late.c", 3, &environment);
}

#[test]
fn threads_move_bytes_at_the_same_time() {
    World::new().conform("threads.c", 3, &[]);
}

#[test]
fn views_and_buffers_of_any_type() {
    World::new().conform("views.c", 4, &[("TRIREME_REPORT", "1")]);
}

#[test]
fn numbers_in_the_representation_that_all_machines_share() {
    World::new().conform("external.c", 3, &[]);
}

#[test]
fn space_that_was_reserved_is_there() {
    let world = World::new();
    world.conform("reserve.c", 2, &[]);
    let ran = |mpi: &&str| world.dir.path().join(format!("reserve.c.{mpi}")).exists();
    let runs = MPIS.iter().copied().filter(ran).count() as u64;
    let stored = allocated(&world.dir.path().join("cluster"));
    assert!(stored >= runs * (8 << 20), "{runs} runs, {stored} bytes");
}

/// Bytes that the files below a directory take.
fn allocated(dir: &std::path::Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
    let bytes = entries.map(|entry| {
        let data = entry.metadata().unwrap();
        if data.is_dir() {
            allocated(&entry.path())
        } else {
            data.blocks() * 512
        }
    });
    bytes.sum()
}

#[test]
fn fortran_by_header_module_and_the_new_module() {
    let world = World::new();
    for name in ["header.f90", "module.f90", "f08.f90"] {
        world.conform(name, 2, &[]);
    }
}

#[test]
fn reports_are_printed_at_close() {
    let world = World::new();
    for mpi in MPIS {
        let Some(program) = world.compile(mpi, "transfer.c", &[]) else {
            continue;
        };
        let environment = [("TRIREME_REPORT", "1"), ("TRIREME_METHOD", "two-phase")];
        let output = world.run_with(mpi, 2, &environment, &program, &["trireme:/reported"]);
        fine(mpi, "transfer.c", &output);
        let said = said(&output);
        assert!(
            said.contains("trireme: /reported: collective 0, write, two-phase"),
            "{said}"
        );
    }
}

#[test]
fn a_prefix_in_the_environment_makes_names_ours() {
    let world = World::new();
    for mpi in MPIS {
        let Some(program) = world.compile(mpi, "transfer.c", &[]) else {
            continue;
        };
        let name = format!("/nowhere/below/{mpi}");
        let output = world.run_with(
            mpi,
            2,
            &[("TRIREME_PREFIX", "/nowhere/below")],
            &program,
            &[&name],
        );
        fine(mpi, "transfer.c", &output);
        assert_eq!(world.bytes(&format!("/{mpi}")).len(), 2 * 1000 * 4);
    }
}

#[test]
fn without_a_cluster_opening_is_an_error_and_not_a_hang() {
    let world = World::new();
    for mpi in MPIS {
        let Some(program) = world.compile(mpi, "unreachable.c", &[]) else {
            continue;
        };
        let address = "unix:/nowhere/at/all";
        let environment = [("TRIREME_CLUSTER", address), ("TRIREME_TIMEOUT", "2")];
        let output = world.run_with(mpi, 2, &environment, &program, &["trireme:/x"]);
        fine(mpi, "unreachable.c", &output);
    }
}
