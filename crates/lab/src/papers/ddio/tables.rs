//! Tables 3 and 4: throughput of all patterns, methods and record sizes, on both layouts.

use super::PAPER;
use super::published::{Printed, patterns, table_3, table_4};
use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::parameter::Settings;
use crate::progress::Progress;
use trireme_sim::fs::{Method, Scenario};
use trireme_sim::replicate::replicate;
use trireme_sim::statistics::Tally;

/// Table 3.
pub const TABLE_3: Experiment = Experiment {
    name: "ddio-table3",
    about: "throughput of all patterns on the random-blocks layout: TC, DD, DD with presort",
    paper: PAPER,
    parameters: &[],
    run: |settings, progress| run(&table_3(), settings, progress),
};

/// Table 4.
pub const TABLE_4: Experiment = Experiment {
    name: "ddio-table4",
    about: "throughput of all patterns on the contiguous layout: TC, DD",
    paper: PAPER,
    parameters: &[],
    run: |settings, progress| run(&table_4(), settings, progress),
};

fn run(printed: &[Printed], settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let simulated = simulate(printed, settings, progress)?;
    let cells = printed
        .iter()
        .zip(&simulated)
        .map(|(cell, tally)| {
            let (class, tolerance) = cell.class();
            Cell::within(cell.name(), cell.throughput, tally.mean(), class, tolerance)
                .calibrated(cell.calibrated())
        })
        .collect();
    Ok(Report {
        cells,
        ..Report::default()
    })
}

/// Replications of every cell; the mean throughput in MB/s with its spread.
pub fn simulate(
    printed: &[Printed],
    settings: &Settings,
    progress: &Progress,
) -> Result<Vec<Tally>, Error> {
    let seeds = settings.seeds.unwrap_or(5);
    let runs: Vec<(usize, u64)> = (0..printed.len())
        .flat_map(|i| (0..u64::from(seeds)).map(move |seed| (i, seed)))
        .collect();
    progress.expect(runs.len() as u64);
    let results = replicate(settings.jobs, &runs, |(i, seed)| {
        let cell = &printed[*i];
        let scenario = Scenario {
            method: cell.method,
            pattern: cell.pattern.into(),
            record: cell.record,
            layout: cell.layout,
            seed: *seed,
            ..Scenario::default()
        };
        let outcome = scenario.run().map(|outcome| outcome.throughput());
        progress.done(1);
        outcome
    });
    let mut tallies = vec![Tally::default(); printed.len()];
    for ((i, _), result) in runs.iter().zip(results) {
        tallies[*i].add(result.map_err(|error| Error::Model(error.to_string()))?);
    }
    Ok(tallies)
}
