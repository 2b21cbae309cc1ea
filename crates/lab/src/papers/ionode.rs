//! "Exploring the use of I/O Nodes for Computation in a MIMD Multiprocessor" (Kotz and Cai,
//! PCS-TR94-232): how much of an I/O processor is left for a computation while it serves I/O.

use super::ddio::published::patterns;
use crate::cell::{Cell, Class};
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::machine;
use crate::parameter::Settings;
use crate::progress::Progress;
use crate::table::{Table, figure};
use trireme_sim::fs::{Method, Scenario};
use trireme_sim::time::Time;

/// The paper's title as reports show it.
pub const PAPER: &str =
    "Exploring the use of I/O Nodes for Computation (Kotz and Cai, PCS-TR94-232, 1994)";

/// Table 2.
pub const TABLE_2: Experiment = Experiment {
    name: "ionode-table2",
    about: "processor share left by the four representative patterns, and their throughput",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: table_2,
};

/// Table 3.
pub const TABLE_3: Experiment = Experiment {
    name: "ionode-table3",
    about: "processor share usable with and without a barrier every 5 ms",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: table_3,
};

/// Figures 2 and 3.
pub const FIGURES: Experiment = Experiment {
    name: "ionode-fig2-3",
    about: "throughput against processor share for all 36 patterns, without and with barriers",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: figures,
};

/// Table 4.
pub const TABLE_4: Experiment = Experiment {
    name: "ionode-table4",
    about: "efficiency of the measured workstation cluster: the paper's arithmetic",
    paper: PAPER,
    parameters: &[],
    run: |_, _| Ok(table_4()),
};

/// The context switch that each interruption costs the computation.
const SWITCH: Time = Time::us(50);
/// The work between two barriers.
const INTERVAL: Time = Time::ms(5);
/// Peak rate of 16 disks, MB/s.
const PEAK: f64 = 37.5;

/// One representative case with what the paper printed: share without and with barriers, MB/s,
/// and the tolerances in points without and with barriers.
struct Printed {
    name: &'static str,
    pattern: &'static str,
    record: u64,
    method: Method,
    free: f64,
    barriers: f64,
    throughput: f64,
    points: (f64, f64),
}

#[rustfmt::skip]
const PRINTED: [Printed; 8] = [
    Printed { name: "TC easy read", pattern: "rc", record: 8192, method: Method::Traditional, free: 95.0, barriers: 92.0, throughput: 32.2, points: (3.0, 4.0) },
    Printed { name: "TC easy write", pattern: "wc", record: 8192, method: Method::Traditional, free: 90.0, barriers: 87.0, throughput: 32.4, points: (3.0, 4.0) },
    Printed { name: "TC hard read", pattern: "rbc", record: 8, method: Method::Traditional, free: 60.0, barriers: 11.0, throughput: 2.2, points: (8.0, 8.0) },
    Printed { name: "TC hard write", pattern: "wbc", record: 8, method: Method::Traditional, free: 87.0, barriers: 7.1, throughput: 0.7, points: (20.0, 20.0) },
    Printed { name: "DD easy read", pattern: "rc", record: 8192, method: Method::Directed, free: 95.0, barriers: 93.0, throughput: 33.5, points: (3.0, 4.0) },
    Printed { name: "DD easy write", pattern: "wc", record: 8192, method: Method::Directed, free: 95.0, barriers: 93.0, throughput: 32.2, points: (3.0, 4.0) },
    Printed { name: "DD hard read", pattern: "rbc", record: 8, method: Method::Directed, free: 3.4, barriers: 2.4, throughput: 16.2, points: (6.0, 6.0) },
    Printed { name: "DD hard write", pattern: "wbc", record: 8, method: Method::Directed, free: 5.1, barriers: 3.4, throughput: 14.2, points: (6.0, 6.0) },
];

/// What one case gave, averaged over replications: shares in percent, MB/s.
#[derive(Clone, Copy)]
struct Shares {
    free: f64,
    barriers: f64,
    throughput: f64,
}

fn measure(
    cases: &[(Method, &str, u64)],
    settings: &Settings,
    progress: &Progress,
) -> Result<Vec<Shares>, Error> {
    let base = machine::scenario(settings)?;
    let scenarios: Vec<Scenario> = cases
        .iter()
        .map(|(method, pattern, record)| Scenario {
            method: *method,
            pattern: (*pattern).into(),
            record: *record,
            watch_idle: Some(SWITCH),
            ..base.clone()
        })
        .collect();
    let runs = machine::sweep_with(&scenarios, settings, progress, |outcome| {
        let available = outcome.availability(SWITCH, INTERVAL);
        (
            available.free,
            available.with_barriers,
            outcome.throughput(),
        )
    })?;
    Ok(runs
        .into_iter()
        .map(|values| {
            let n = values.len() as f64;
            let mean = |of: fn(&(f64, f64, f64)) -> f64| values.iter().map(of).sum::<f64>() / n;
            Shares {
                free: 100.0 * mean(|v| v.0),
                barriers: 100.0 * mean(|v| v.1),
                throughput: mean(|v| v.2),
            }
        })
        .collect())
}

fn representative(settings: &Settings, progress: &Progress) -> Result<Vec<Shares>, Error> {
    let cases: Vec<_> = PRINTED
        .iter()
        .map(|case| (case.method, case.pattern, case.record))
        .collect();
    measure(&cases, settings, progress)
}

const NOTES: [&str; 2] = [
    "The processor costs are those of the disk-directed I/O tables; issuing a disk request was \
     fitted on the 95 % and copying on the 90 % of the easy cases.",
    "TC hard write is the known gap: 87 % available at 0.7 MB/s implies about 20 us per request \
     and two busy I/O processors, that is, cheaper requests and tighter convoys than ours.",
];

fn table_2(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let shares = representative(settings, progress)?;
    let mut cells = vec![];
    for (case, ours) in PRINTED.iter().zip(&shares) {
        let fitted = ["DD easy read", "TC easy write"].contains(&case.name);
        let class = if case.points.0 > 3.0 {
            Class::L
        } else {
            Class::M
        };
        let name = format!("{} CPU %", case.name);
        cells.push(
            Cell::points(name, case.free, ours.free, class, case.points.0).calibrated(fitted),
        );
    }
    for (case, ours) in PRINTED.iter().zip(&shares) {
        let loose = case.name == "TC hard write";
        let class = if loose { Class::L } else { Class::M };
        let name = format!("{} MB/s", case.name);
        cells.push(Cell::new(name, case.throughput, ours.throughput, class));
    }
    Ok(Report {
        claims: vec![
            "easy patterns leave 90 to 95 % of the processor and move 86 to 89 % of the disks' peak"
                .into(),
            "disk-directed I/O's worst case leaves 3.4 %".into(),
        ],
        cells,
        notes: NOTES.map(String::from).into(),
        changed: settings.changed(),
        ..Report::default()
    })
}

fn table_3(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let shares = representative(settings, progress)?;
    let mut cells = vec![];
    for (case, ours) in PRINTED.iter().zip(&shares) {
        let class = if case.points.0 > 3.0 {
            Class::L
        } else {
            Class::M
        };
        let fitted = ["DD easy read", "TC easy write"].contains(&case.name);
        let name = format!("{} no barriers %", case.name);
        cells.push(
            Cell::points(name, case.free, ours.free, class, case.points.0).calibrated(fitted),
        );
        let name = format!("{} barriers %", case.name);
        cells.push(Cell::points(
            name,
            case.barriers,
            ours.barriers,
            class,
            case.points.1,
        ));
    }
    let within = cells
        .iter()
        .filter(|cell| cell.error.is_some_and(|e| e.abs() <= 0.05))
        .count();
    cells.push(Cell::claim(
        "CPU-share cells within 5 points, of 16",
        within as f64,
        within >= 15,
    ));
    for case in [2, 3] {
        let factor = shares[case].free / shares[case].barriers;
        let name = format!(
            "{} collapses under barriers by this factor",
            PRINTED[case].name
        );
        cells.push(Cell::claim(name, factor, factor > 4.0));
    }
    Ok(Report {
        claims: vec![
            "barriers hardly matter for easy patterns, and collapse TC's hard ones by 5 to 12 times"
                .into(),
        ],
        cells,
        notes: NOTES.map(String::from).into(),
        changed: settings.changed(),
        ..Report::default()
    })
}

fn figures(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    // 18 patterns with two record sizes: those of the tables without `ra`.
    let mut cases = vec![];
    for method in [Method::Traditional, Method::Directed] {
        for pattern in patterns().filter(|pattern| *pattern != "ra") {
            for record in [8, 8192] {
                cases.push((method, pattern, record));
            }
        }
    }
    let shares = measure(&cases, settings, progress)?;
    let label = |method| {
        if method == Method::Traditional {
            "TC"
        } else {
            "DD"
        }
    };
    let mut table = Table::new(
        "all patterns",
        &[
            "pattern",
            "record",
            "method",
            "MB/s",
            "CPU %",
            "with barriers %",
        ],
    );
    let mut cells = vec![];
    for ((method, pattern, record), ours) in cases.iter().zip(&shares) {
        let method = label(*method);
        table.row([
            (*pattern).to_string(),
            record.to_string(),
            method.to_string(),
            figure(ours.throughput),
            figure(ours.free),
            figure(ours.barriers),
        ]);
        cells.push(Cell::ours(
            format!("{method} {pattern} {record} B CPU %"),
            ours.free,
        ));
        cells.push(Cell::ours(
            format!("{method} {pattern} {record} B barriers %"),
            ours.barriers,
        ));
    }
    cells.extend(figure_claims(&cases, &shares));
    let cloud = |of: fn(&Shares) -> f64| {
        [Method::Traditional, Method::Directed].map(|method| {
            let mine = cases
                .iter()
                .zip(&shares)
                .filter(|(case, _)| case.0 == method);
            (
                label(method).to_string(),
                mine.map(|(_, s)| (s.throughput, of(s))).collect(),
            )
        })
    };
    let (x, y) = (
        "throughput in MB/s",
        "processor share for the computation, %",
    );
    let charts = vec![
        Chart::scatter("Figure 2: no barriers", x, y, cloud(|s| s.free).into()).ours(),
        Chart::scatter(
            "Figure 3: a barrier every 5 ms",
            x,
            y,
            cloud(|s| s.barriers).into(),
        )
        .ours(),
    ];
    Ok(Report {
        claims: vec!["six hard disk-directed patterns sit apart; all others are at the top".into()],
        cells,
        tables: vec![table],
        charts,
        changed: settings.changed(),
        ..Report::default()
    })
}

fn figure_claims(cases: &[(Method, &str, u64)], shares: &[Shares]) -> Vec<Cell> {
    let directed: Vec<_> = cases
        .iter()
        .zip(shares)
        .filter(|(case, _)| case.0 == Method::Directed)
        .collect();
    let hard = |case: &(Method, &str, u64)| case.2 == 8 && case.1.ends_with('c');
    let worst_easy = directed
        .iter()
        .filter(|(c, _)| !hard(c))
        .map(|(_, s)| s.free)
        .fold(100.0, f64::min);
    let best_hard = directed
        .iter()
        .filter(|(c, _)| hard(c))
        .map(|(_, s)| s.free)
        .fold(0.0, f64::max);
    let worst_barrier = directed
        .iter()
        .filter(|(c, _)| !hard(c))
        .map(|(_, s)| s.barriers)
        .fold(100.0, f64::min);
    let slowest_easy = directed
        .iter()
        .filter(|(c, _)| !hard(c))
        .map(|(_, s)| s.throughput)
        .fold(100.0, f64::min);
    let hard_count = directed.iter().filter(|(_, s)| s.free < 40.0).count();
    vec![
        Cell::claim(
            "hard DD patterns that sit apart",
            hard_count as f64,
            hard_count == 6,
        )
        .beside(6.0),
        Cell::claim(
            "worst share of an easy DD pattern, %",
            worst_easy,
            worst_easy > 85.0,
        ),
        Cell::claim(
            "best share of a hard DD pattern, %",
            best_hard,
            best_hard < 40.0,
        ),
        Cell::claim(
            "worst easy DD share with barriers, %",
            worst_barrier,
            worst_barrier > 84.0,
        ),
        Cell::claim(
            "slowest easy DD pattern as a share of the disks' peak, %",
            100.0 * slowest_easy / PEAK,
            slowest_easy / PEAK > 0.84,
        ),
    ]
}

fn table_4() -> Report {
    let alone = 130.8;
    let cells = [
        ("sequential read", 219.9, 59.5),
        ("random read", 181.4, 72.1),
        ("sequential write", 135.1, 96.8),
        ("random write", 193.8, 67.5),
    ]
    .map(|(name, seconds, efficiency)| {
        let ours = 100.0 * alone / seconds;
        Cell::new(format!("{name} efficiency %"), efficiency, ours, Class::X)
    });
    Report {
        claims: vec!["a real cluster served NFS at 60 to 97 % efficiency".into()],
        cells: cells.into(),
        notes: vec![
            "A measurement of 1994: only its arithmetic (130.8 s over each time) can be checked."
                .into(),
        ],
        ..Report::default()
    }
}
