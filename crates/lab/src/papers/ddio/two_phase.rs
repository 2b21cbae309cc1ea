//! Two-phase I/O, which the paper argues about (section 7.1) but did not simulate: our addition.

use super::PAPER;
use super::published::patterns;
use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::machine;
use crate::parameter::Settings;
use crate::progress::Progress;
use trireme_policy::plan::Conforming;
use trireme_sim::fs::{Layout, Method, Scenario};

/// Two-phase against the other two.
pub const TWO_PHASE: Experiment = Experiment {
    name: "ddio-two-phase",
    about: "two-phase I/O (ours) beside traditional caching and disk-directed I/O, all patterns",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run,
};

const METHODS: [(&str, Method); 4] = [
    ("TC", Method::Traditional),
    ("2P cyclic", Method::TwoPhase(Conforming::Cyclic)),
    ("2P block", Method::TwoPhase(Conforming::Block)),
    ("DDs", Method::DirectedSorted),
];

fn run(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut report = Report {
        claims: vec![
            "disk-directed I/O has all benefits of two-phase I/O and more: no conforming \
             distribution to choose, presorting, no permutation phase, no extra memory (argued, \
             not simulated)"
                .into(),
        ],
        notes: vec![
            "Our addition: the paper prints no number for two-phase I/O. The conforming \
             distribution is by blocks round the processors (cyclic) or in one range each (block); \
             the permutation packs, sends one message per pair and unpacks, at the same address \
             and copy costs as everything else."
                .into(),
        ],
        changed: settings.changed(),
        ..Report::default()
    };
    for (title, layout) in [
        ("contiguous", Layout::Contiguous),
        ("random-blocks", Layout::RandomBlocks),
    ] {
        let cases: Vec<(&str, u64)> = patterns()
            .filter(|pattern| *pattern != "ra")
            .flat_map(|pattern| [(pattern, 8), (pattern, 8192)])
            .filter(|(pattern, record)| {
                *record == 8192 || pattern.len() > 2 || pattern.ends_with('c')
            })
            .collect();
        let scenarios: Vec<Scenario> = cases
            .iter()
            .flat_map(|(pattern, record)| {
                METHODS.map(|(_, method)| Scenario {
                    method,
                    layout,
                    pattern: (*pattern).into(),
                    record: *record,
                    ..base.clone()
                })
            })
            .collect();
        let mut quick = settings.clone();
        quick.seeds = settings.seeds.or(Some(2));
        let tallies = machine::sweep(
            &scenarios,
            &quick,
            progress,
            trireme_sim::fs::Outcome::throughput,
        )?;
        let value = |case: usize, method: usize| tallies[case * METHODS.len() + method].mean();
        let (mut two, mut directed) = (f64::INFINITY, f64::INFINITY);
        for (case, (pattern, record)) in cases.iter().enumerate() {
            let name = format!("{pattern} {record} B {title}");
            for (method, (label, _)) in METHODS.iter().enumerate() {
                report
                    .cells
                    .push(Cell::ours(format!("{label} {name}"), value(case, method)));
            }
            directed = directed.min(value(case, 3) / value(case, 1).max(value(case, 2)));
            if *record == 8 && pattern.ends_with('c') {
                two = two.min(value(case, 1) / value(case, 0));
            }
        }
        let claim = format!("DDs is never slower than two-phase, {title}: smallest ratio");
        report
            .cells
            .push(Cell::claim(claim, directed, directed > 0.97));
        let claim =
            format!("two-phase beats TC on 8-byte cyclic patterns, {title}: smallest ratio");
        report.cells.push(Cell::claim(claim, two, two > 1.0));
        for record in [8, 8192] {
            let shown: Vec<usize> = (0..cases.len())
                .filter(|case| cases[*case].1 == record)
                .collect();
            let groups = shown
                .iter()
                .map(|case| cases[*case].0.to_string())
                .collect();
            let series = METHODS.iter().enumerate().map(|(method, (label, _))| {
                let values = shown
                    .iter()
                    .map(|case| Some(value(*case, method)))
                    .collect();
                (label.to_string(), values)
            });
            let title = format!("Two-phase beside the others: {record}-byte records, {title}");
            report
                .charts
                .push(Chart::bars(&title, "MB/s", groups, series.collect()).ours());
        }
    }
    Ok(report)
}
