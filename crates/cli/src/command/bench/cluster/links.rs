//! Every pattern with every method over shaped links: which methods fill them.
//!
//! The bound is the busiest link: no pattern can be faster than its largest share, of a server or of a
//! client, divided by a link's rate. (`rn` has one client that gets everything, `ra` gives every client
//! everything.)

use serde::Serialize;
use trireme::Partition;
use trireme_partition::{READ_PATTERNS, WRITE_PATTERNS};

use super::report::Results;
use super::{Lab, tell};
use crate::command::bench::patterns::METHODS;
use crate::command::bench::target::Target;
use crate::command::bench::worker::{ALONE, Job, Layout};

/// What disk-directed must reach of the bound.
const OF_LINKS: f64 = 0.9;

/// One method on one pattern.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub pattern: String,
    pub record: u64,
    pub op: &'static str,
    pub method: &'static str,
    /// Median over the runs.
    pub seconds: f64,
    pub mb_per_s: f64,
    /// The busiest link's least time over the time taken.
    pub of_links: f64,
    pub verified: bool,
}

pub fn run(lab: &Lab<'_>, results: &mut Results) -> anyhow::Result<()> {
    let (args, nodes) = (lab.args, lab.args.links_nodes);
    let mut squad = lab.squad(nodes)?;
    let mut seed = 1;
    let job = |pattern: &str, record: u64, method: &str, seed: u64| Job {
        path: "/links".to_owned(),
        write: pattern.starts_with('w'),
        method: method.to_owned(),
        pattern: pattern.to_owned(),
        record,
        bytes: args.links_size,
        seed,
        verify: true,
        layout: Some(Layout {
            unit: args.unit,
            servers: nodes,
        }),
        order: None,
    };
    let filled = squad.run(&job("wb", 8, ALONE, seed).line(), &[])?;
    anyhow::ensure!(filled.verified, "the file could not be filled");
    let all = args.patterns.iter().any(|name| name == "all");
    // Reads first: they find what the filling left.
    let known = READ_PATTERNS.into_iter().chain(WRITE_PATTERNS);
    let patterns: Vec<&str> = known
        .filter(|name| all || args.patterns.iter().any(|wanted| wanted == name))
        .collect();
    let cells: Vec<(&str, u64)> = patterns
        .iter()
        .flat_map(|pattern| args.records.iter().map(move |record| (*pattern, *record)))
        .collect();
    // All cells in every round, and not all rounds of a cell in a row: a machine that is busy with
    // something else for some seconds then spoils one round of a few cells, which medians forgive.
    let mut taken = vec![vec![(Vec::new(), true); METHODS.len()]; cells.len()];
    let rounds = args.rounds().min(3);
    for round in 1..=rounds {
        for ((pattern, record), taken) in cells.iter().zip(&mut taken) {
            for (method, (times, verified)) in METHODS.iter().zip(taken) {
                tell(&format!(
                    "round {round} of {rounds}: {pattern} {record} B, {method}"
                ));
                if pattern.starts_with('w') {
                    seed += 2;
                }
                let run = squad.run(&job(pattern, *record, method, seed).line(), &[])?;
                times.push(run.seconds);
                *verified &= run.verified;
            }
        }
    }
    tell("");
    println!("\nEvery pattern over the links: share of the busiest link's rate (MB/s)");
    for ((pattern, record), taken) in cells.into_iter().zip(taken) {
        let least = least_seconds(lab, pattern, record)?;
        let mut line = format!("{pattern:<5}{record:>6} B ");
        for (&method, (mut times, verified)) in METHODS.iter().zip(taken) {
            times.sort_by(f64::total_cmp);
            let seconds = times[times.len() / 2];
            let copies = if pattern == "ra" { nodes } else { 1 };
            let cell = Cell {
                pattern: pattern.to_owned(),
                record,
                op: if pattern.starts_with('w') {
                    "write"
                } else {
                    "read"
                },
                method,
                seconds,
                mb_per_s: (args.links_size * u64::from(copies)) as f64 / 1e6 / seconds,
                of_links: least / seconds,
                verified,
            };
            let share = 100.0 * cell.of_links;
            line += &format!("  {method} {share:>3.0} % ({:.0})", cell.mb_per_s);
            results.wrong += usize::from(!verified);
            results.links.push(cell);
        }
        println!("{line}");
    }
    judge(results);
    Ok(())
}

/// The time that the busiest link takes.
fn least_seconds(lab: &Lab<'_>, pattern: &str, record: u64) -> anyhow::Result<f64> {
    let (args, nodes) = (lab.args, lab.args.links_nodes);
    let partition = Partition::named(pattern, record, args.links_size, nodes)?;
    let (mut all, mut most) = (0, 0);
    for rank in 0..nodes {
        let bytes = partition.part(rank)?.size();
        all += bytes;
        most = most.max(bytes);
    }
    let busiest = most.max(all / u64::from(nodes));
    Ok(busiest as f64 / 1e6 / f64::from(args.link))
}

fn judge(results: &mut Results) {
    let of = |method: &str| -> Vec<Cell> {
        let mut cells: Vec<Cell> = results
            .links
            .iter()
            .filter(|cell| cell.method == method)
            .cloned()
            .collect();
        cells.sort_by(|a, b| a.of_links.total_cmp(&b.of_links));
        cells
    };
    let text = |cell: &Cell| {
        let share = 100.0 * cell.of_links;
        format!("{} {} B {share:.0} %", cell.pattern, cell.record)
    };
    let directed = of("disk-directed");
    let two_phase = of("two-phase");
    let measured = directed.first().map(&text);
    let misses: Vec<String> = directed
        .iter()
        .filter(|cell| cell.of_links < OF_LINKS)
        .map(&text)
        .collect();
    results.targets.push(Target {
        what: "5. disk-directed reaches at least 90 % of the links for every pattern".to_owned(),
        measured: measured.map_or("needs disk-directed".to_owned(), |least| {
            format!("least: {least}")
        }),
        pass: (!directed.is_empty()).then_some(misses.is_empty()),
        misses,
    });
    // Where data changes hands between clients, their links carry it twice.
    let shown = match (two_phase.first(), two_phase.last()) {
        (Some(least), Some(most)) => format!("{} to {}", text(least), text(most)),
        _ => "needs two-phase".to_owned(),
    };
    let slower: Vec<bool> = two_phase
        .iter()
        .filter(|cell| !matches!(&cell.pattern[1..], "a" | "n" | "b"))
        .map(|cell| cell.of_links < OF_LINKS)
        .collect();
    results.targets.push(Target {
        what:
            "5. two-phase moves the data twice and shows it (below 90 % where data changes hands)"
                .to_owned(),
        measured: shown,
        pass: (!slower.is_empty()).then(|| slower.iter().all(|slower| *slower)),
        misses: Vec::new(),
    });
}
