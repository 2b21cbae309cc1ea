//! The parameters that every experiment on the simulated multiprocessor shares.

use crate::error::Error;
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use trireme_sim::disk::Drive;
use trireme_sim::fs::{Method, Outcome, Phase, Scenario};
use trireme_sim::replicate::replicate;
use trireme_sim::statistics::Tally;

/// Drives by name.
pub const DRIVES: &[&str] = &["hp97560", "nearline", "nvme"];

/// Machine, disk and timing; the defaults are the papers'.
pub const PARAMETERS: &[Parameter] = &[
    Parameter::integer("cps", 16, 1, 1024, "compute processors"),
    Parameter::integer("iops", 16, 1, 1024, "I/O processors, each with one bus"),
    Parameter::integer(
        "disks",
        16,
        1,
        4096,
        "disks, dealt to the I/O processors in turn",
    ),
    Parameter::choice("drive", "hp97560", DRIVES, "the kind of disk"),
    Parameter::integer("file_mb", 10, 1, 4000, "size of the file in MB"),
    Parameter::number(
        "jitter",
        0.5,
        0.0,
        1.0,
        "variation of a compute processor's request cost",
    ),
    Parameter::number(
        "start_spread_us",
        50.0,
        0.0,
        1e6,
        "compute processors begin within this",
    ),
    Parameter::flag(
        "read_ahead",
        true,
        "whether disks read ahead (rotating drives)",
    ),
    Parameter::flag(
        "immediate_report",
        true,
        "whether disks report writes from their buffer",
    ),
    Parameter::flag(
        "settle",
        true,
        "whether traditional caching waits for the media at the end",
    ),
    Parameter::choice(
        "phase",
        "common",
        &["common", "own"],
        "rotational phases of the disks",
    ),
    Parameter::number(
        "cpu_speed",
        1.0,
        0.01,
        10000.0,
        "processor speed relative to 50 MHz",
    ),
];

/// The scenario that these settings describe; method, pattern and layout are the experiment's.
pub fn scenario(settings: &Settings) -> Result<Scenario, Error> {
    let mut scenario = Scenario::default();
    let machine = &mut scenario.machine;
    machine.cps = settings.integer("cps") as usize;
    machine.iops = settings.integer("iops") as usize;
    machine.disks = settings.integer("disks") as usize;
    if machine.disks < machine.iops {
        let allowed = format!("from iops = {} on", machine.iops);
        return Err(Error::value(
            "disks",
            machine.disks,
            "fewer disks than iops",
            allowed,
        ));
    }
    machine.drive = Drive::named(&settings.choice("drive")).expect("one of the choices");
    if let Drive::Rotating(drive) = &mut machine.drive {
        drive.read_ahead &= settings.flag("read_ahead");
        drive.immediate_report &= settings.flag("immediate_report");
    }
    scenario.cache_buffers = 2 * machine.cps;
    scenario.file_bytes = settings.integer("file_mb") << 20;
    scenario.jitter = settings.number("jitter");
    scenario.start_spread_us = settings.number("start_spread_us");
    // Without jitter, all compute processors also begin together.
    if scenario.jitter == 0.0 {
        scenario.start_spread_us = 0.0;
    }
    scenario.settle = settings.flag("settle");
    scenario.phase = if settings.choice("phase") == "own" {
        Phase::Own
    } else {
        Phase::Common
    };
    scenario.cpu_speed = settings.number("cpu_speed");
    Ok(scenario)
}

/// How many replications a scenario gets: as many as were asked for, else five, or three where
/// millions of tiny pieces average out within one run.
pub fn seeds(settings: &Settings, scenario: &Scenario) -> u32 {
    let steady = scenario.method != Method::Traditional;
    let fine = scenario.record < 64 && scenario.pattern.ends_with('c');
    let usual = if fine && steady { 3 } else { 5 };
    let usual = if settings.quick { 2 } else { usual };
    settings.seeds.unwrap_or(usual)
}

/// Runs every scenario with its replications on all threads, and folds the outcomes of each.
pub fn sweep(
    scenarios: &[Scenario],
    settings: &Settings,
    progress: &Progress,
    measure: impl Fn(&Outcome) -> f64 + Sync,
) -> Result<Vec<Tally>, Error> {
    let measured = sweep_with(scenarios, settings, progress, measure)?;
    Ok(measured
        .into_iter()
        .map(|values| values.into_iter().collect())
        .collect())
}

/// Like [`sweep`], but keeps what `measure` says of each replication.
pub fn sweep_with<T: Send>(
    scenarios: &[Scenario],
    settings: &Settings,
    progress: &Progress,
    measure: impl Fn(&Outcome) -> T + Sync,
) -> Result<Vec<Vec<T>>, Error> {
    let refuse = |error: trireme_sim::fs::ScenarioError| Error::Model(error.to_string());
    for scenario in scenarios {
        scenario.check().map_err(refuse)?;
    }
    let mut runs: Vec<(usize, u64)> = vec![];
    for (index, scenario) in scenarios.iter().enumerate() {
        runs.extend((0..u64::from(seeds(settings, scenario))).map(|seed| (index, seed)));
    }
    // The long runs first: the threads then finish together, and the time left is honest.
    runs.sort_by_key(|(index, _)| std::cmp::Reverse(weight(&scenarios[*index])));
    progress.expect(
        runs.iter()
            .map(|(index, _)| weight(&scenarios[*index]))
            .sum(),
    );
    let results = replicate(settings.jobs, &runs, |(index, seed)| {
        let scenario = Scenario {
            seed: *seed,
            ..scenarios[*index].clone()
        };
        let result = scenario.run().map(|outcome| measure(&outcome));
        progress.done(weight(&scenario));
        result
    });
    let mut measured: Vec<Vec<(u64, T)>> = scenarios.iter().map(|_| vec![]).collect();
    for ((index, seed), result) in runs.iter().zip(results) {
        measured[*index].push((*seed, result.map_err(refuse)?));
    }
    Ok(measured
        .into_iter()
        .map(|mut values| {
            values.sort_by_key(|(seed, _)| *seed);
            values.into_iter().map(|(_, value)| value).collect()
        })
        .collect())
}

/// Units of work of one run, roughly its number of requests or pieces.
fn weight(scenario: &Scenario) -> u64 {
    let grain = if scenario.pattern.ends_with('c') {
        scenario.record
    } else {
        8192
    };
    scenario.file_bytes / grain.min(scenario.block_bytes).max(1) / 64 + 1
}
