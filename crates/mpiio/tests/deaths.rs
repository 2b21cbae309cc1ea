//! What dies is an error for those concerned, soon, and nothing to those who come after.

mod support;

use std::time::{Duration, Instant};
use support::{MPIS, World, fine, said};

#[test]
fn a_dead_server_is_an_mpi_error_for_every_process() {
    for mpi in MPIS {
        let mut world = World::new();
        let Some(program) = world.compile(mpi, "dead_server.c", &[]) else {
            continue;
        };
        let (ready, go) = (world.dir.path().join("ready"), world.dir.path().join("go"));
        let arguments = ["trireme:/f", ready.to_str().unwrap(), go.to_str().unwrap()];
        let mut command = world.command(mpi, 2, &[("TRIREME_TIMEOUT", "3")], &program, &arguments);
        let running = std::thread::spawn(move || command.output().unwrap());
        let patience = Instant::now() + Duration::from_secs(100);
        while !ready.exists() && !running.is_finished() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(10));
        }
        world.embedded.stop_server(1).unwrap();
        std::fs::write(&go, "").unwrap();
        fine(mpi, "dead_server.c", &running.join().unwrap());
    }
}

#[test]
fn a_dead_process_ends_the_run_and_leaves_the_cluster_as_it_was() {
    for mpi in MPIS {
        let world = World::new();
        let Some(program) = world.compile(mpi, "dead_rank.c", &[]) else {
            continue;
        };
        let output = world.run(mpi, 3, &program, &["trireme:/f"]);
        // 124 is what `timeout` says of a run that hung.
        assert!(!output.status.success(), "{}", said(&output));
        assert_ne!(output.status.code(), Some(124), "{}", said(&output));
        let program = world.compile(mpi, "transfer.c", &[]).unwrap();
        fine(
            mpi,
            "transfer.c",
            &world.run(mpi, 2, &program, &["trireme:/after"]),
        );
    }
}

#[test]
fn a_dead_process_is_an_mpi_error_for_those_who_survive_it() {
    survive("survivors.c", &[]);
}

#[test]
fn a_process_that_dies_late_is_waited_for_until_then() {
    survive("late_dead.c", &[("TRIREME_TIMEOUT", "2")]);
}

/// Of three processes the middle one is lost.
fn survive(program: &str, environment: &[(&str, &str)]) {
    // MPICH's launcher does not reliably let the others live.
    let cases: [(&str, &[&str], &str); 3] = [
        ("openmpi", &["--enable-recovery"], "dies"),
        ("openmpi", &[], "cut-off"),
        ("mpich", &[], "cut-off"),
    ];
    for (mpi, options, how) in cases {
        let world = World::new();
        let Some(program) = world.compile(mpi, program, &[]) else {
            continue;
        };
        let end = world.dir.path().join("end");
        let arguments = ["trireme:/f", end.to_str().unwrap(), how];
        let output = world
            .command_by(mpi, 3, options, environment, &program, &arguments)
            .output()
            .unwrap();
        let said = said(&output);
        for rank in [0, 2] {
            assert!(
                said.contains(&format!("rank {rank} survived")),
                "{mpi}, {how}: {said}"
            );
        }
        assert_ne!(output.status.code(), Some(124), "{mpi}, {how}: {said}");
    }
}
