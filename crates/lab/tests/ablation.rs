//! What each part of the model is worth: without it, the published numbers do not come out.

use trireme_sim::disk::Drive;
use trireme_sim::fs::{Layout, Method, Scenario};

use Layout::{Contiguous, RandomBlocks};
use Method::{Directed, DirectedSorted, Traditional};

fn throughput(
    change: impl Fn(&mut Scenario),
    method: Method,
    pattern: &str,
    layout: Layout,
) -> f64 {
    let mut base = Scenario {
        method,
        pattern: pattern.into(),
        layout,
        ..Scenario::default()
    };
    change(&mut base);
    let runs = (0..5).map(|seed| {
        Scenario {
            seed,
            ..base.clone()
        }
        .run()
        .unwrap()
        .throughput()
    });
    runs.sum::<f64>() / 5.0
}

#[track_caller]
fn near(simulated: f64, expected: f64, tolerance: f64) {
    let error = simulated / expected - 1.0;
    assert!(
        error.abs() <= tolerance,
        "{simulated:.2} instead of {expected} ({:+.1} %)",
        error * 100.0
    );
}

fn nothing(_: &mut Scenario) {}

fn no_read_ahead(scenario: &mut Scenario) {
    let Drive::Rotating(drive) = &mut scenario.machine.drive else {
        panic!("a rotating drive")
    };
    drive.read_ahead = false;
}

fn no_immediate_report(scenario: &mut Scenario) {
    let Drive::Rotating(drive) = &mut scenario.machine.drive else {
        panic!("a rotating drive")
    };
    drive.immediate_report = false;
}

fn no_jitter(scenario: &mut Scenario) {
    scenario.jitter = 0.0;
    scenario.start_spread_us = 0.0;
}

#[test]
fn the_full_model() {
    near(throughput(nothing, Directed, "rc", Contiguous), 32.7, 0.03);
    near(throughput(nothing, Directed, "wc", Contiguous), 34.9, 0.03);
    near(
        throughput(nothing, Directed, "rc", RandomBlocks),
        4.41,
        0.03,
    );
    near(
        throughput(nothing, DirectedSorted, "rc", RandomBlocks),
        6.31,
        0.03,
    );
    near(
        throughput(nothing, Directed, "wc", RandomBlocks),
        5.03,
        0.03,
    );
    near(
        throughput(nothing, DirectedSorted, "wc", RandomBlocks),
        7.50,
        0.03,
    );
}

#[test]
fn without_read_ahead_reading_loses_a_rotation_per_block() {
    near(
        throughput(no_read_ahead, Directed, "rc", Contiguous),
        6.7,
        0.03,
    );
    near(
        throughput(no_read_ahead, Directed, "wc", Contiguous),
        34.9,
        0.03,
    );
    // Random blocks never profited from it.
    near(
        throughput(no_read_ahead, Directed, "rc", RandomBlocks),
        4.41,
        0.03,
    );
    near(
        throughput(no_read_ahead, DirectedSorted, "rc", RandomBlocks),
        6.31,
        0.03,
    );
}

#[test]
fn without_immediate_reporting_writing_loses_a_rotation_per_block() {
    near(
        throughput(no_immediate_report, Directed, "rc", Contiguous),
        32.7,
        0.03,
    );
    near(
        throughput(no_immediate_report, Directed, "wc", Contiguous),
        6.7,
        0.03,
    );
    near(
        throughput(no_immediate_report, Traditional, "wb", Contiguous),
        7.8,
        0.10,
    );
    near(
        throughput(no_immediate_report, Directed, "wc", RandomBlocks),
        4.41,
        0.03,
    );
    near(
        throughput(no_immediate_report, DirectedSorted, "wc", RandomBlocks),
        6.31,
        0.03,
    );
}

#[test]
fn without_jitter_all_processors_march_in_step() {
    // Requests then reach each disk in sorted order, three times as fast as published.
    near(
        throughput(no_jitter, Traditional, "rcb", Contiguous),
        32.6,
        0.03,
    );
    near(
        throughput(no_jitter, Directed, "rc", Contiguous),
        32.7,
        0.03,
    );
    assert!(throughput(nothing, Traditional, "rcb", Contiguous) < 13.0);
}

#[test]
fn without_the_final_flush_traditional_writes_come_out_fast() {
    let no_flush = |scenario: &mut Scenario| scenario.settle = false;
    near(
        throughput(no_flush, Traditional, "wc", Contiguous),
        34.9,
        0.03,
    );
    near(
        throughput(nothing, Traditional, "wc", Contiguous),
        32.8,
        0.03,
    );
}

#[test]
fn a_run_is_pinned_to_the_picosecond() {
    // Guards determinism across machines, optimisation levels and changes of the kernel.
    let run = |method, pattern: &str| {
        let scenario = Scenario {
            method,
            pattern: pattern.into(),
            seed: 3,
            ..Scenario::default()
        };
        scenario.run().unwrap().elapsed.0
    };
    let pinned = [run(Traditional, "rcb"), run(DirectedSorted, "wcc")];
    assert_eq!(pinned, [1_143_581_543_055, 284_833_040_775]);
}

/// The two values of the ablation that depend on the order in which requests reach the disks.
#[test]
fn convoys_without_read_ahead_and_without_jitter() {
    let rcb = throughput(no_read_ahead, Traditional, "rcb", Contiguous);
    let wb = throughput(no_jitter, Traditional, "wb", Contiguous);
    println!("TC rcb without read-ahead {rcb:.2}, TC wb without jitter {wb:.2}");
    near(rcb, 7.8, 0.10);
    near(wb, 6.9, 0.10);
}
