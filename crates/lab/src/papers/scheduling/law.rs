//! The decentralised schedules: lengths, the 2n - 1 law, and the write benchmark over b.

use trireme_policy::random::Random;
use trireme_policy::schedule::Schedule;
use trireme_policy::schedule::heuristic::Heuristic;
use trireme_policy::schedule::matching::{Request, Requests};
use trireme_sim::replicate::replicate;

use super::PAPER;
use super::writes::{length, throughput};
use crate::cell::{Cell, Class};
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use crate::table::{Table, figure};

/// `sched-law`.
pub const LAW: Experiment = Experiment {
    name: "sched-law",
    about: "schedule lengths of first, random and hash on n clients x n servers: 2n - 1 against n",
    paper: PAPER,
    parameters: &[Parameter::integer(
        "most",
        64,
        2,
        1024,
        "largest number of clients and servers",
    )],
    run: law,
};

/// `sched-write`.
pub const WRITE: Experiment = Experiment {
    name: "sched-write",
    about: "aggregate write throughput of first, random and hash over the schedule block b",
    paper: PAPER,
    parameters: &[
        Parameter::integer("clients", 8, 1, 1000, "number of clients"),
        Parameter::integer("servers", 8, 1, 1000, "number of servers"),
        Parameter::integer("megabytes", 32, 1, 1024, "MB that each client writes"),
    ],
    run: write,
};

/// `sched-heuristics`.
pub const HEURISTICS: Experiment = Experiment {
    name: "sched-heuristics",
    about: "lengths of the heuristics of the related work against the exact optimum",
    paper: PAPER,
    parameters: &[
        Parameter::integer("graphs", 400, 1, 100_000, "random graphs"),
        Parameter::integer(
            "nodes",
            16,
            2,
            256,
            "clients, servers, and requests per client",
        ),
    ],
    run: heuristics,
};

fn mean_length(n: u32, schedule: Schedule, seeds: u64) -> f64 {
    let seeds = if schedule == Schedule::Random {
        seeds
    } else {
        1
    };
    (0..seeds)
        .map(|seed| f64::from(length(n, schedule, seed)))
        .sum::<f64>()
        / seeds as f64
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all experiments have this signature"
)]
fn law(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let seeds = u64::from(settings.seeds.unwrap_or(200));
    let most = settings.integer("most") as u32;
    let sizes: Vec<u32> = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
        .into_iter()
        .filter(|&n| n <= most)
        .collect();
    progress.expect(sizes.len() as u64);
    let mut report = Report {
        changed: settings.changed(),
        ..Report::default()
    };
    let mut table = Table::new("schedule length, steps", &["n", "first", "random", "hash"]);
    let mut series = Schedule::ALL
        .map(|schedule| (schedule.to_string(), Vec::new()))
        .to_vec();
    let mut exact = true;
    for &n in &sizes {
        let lengths = Schedule::ALL.map(|schedule| mean_length(n, schedule, seeds));
        table.row([
            n.to_string(),
            figure(lengths[0]),
            figure(lengths[1]),
            figure(lengths[2]),
        ]);
        for (line, length) in series.iter_mut().zip(lengths) {
            line.1.push((f64::from(n), length / f64::from(n)));
        }
        exact &= lengths[0] == f64::from(2 * n - 1) && lengths[2] == f64::from(n);
        progress.done(1);
    }
    report.cells = vec![
        Cell::within(
            "Figure 1: first",
            3.0,
            f64::from(length(2, Schedule::First, 0)),
            Class::X,
            0.0,
        ),
        Cell::within(
            "Figure 1: hash",
            2.0,
            f64::from(length(2, Schedule::Hash, 0)),
            Class::X,
            0.0,
        ),
        Cell::claim(
            "first needs 2n - 1 steps and hash n, for every n shown",
            2.0,
            exact,
        ),
        Cell::claim(
            "random at n = 8, steps (first 15, hash 8)",
            mean_length(8, Schedule::Random, seeds),
            true,
        ),
        Cell::claim(
            "random at n = 16, steps (first 31, hash 16)",
            mean_length(16, Schedule::Random, seeds),
            true,
        ),
        Cell::new(
            "first / hash at n = 8 against the paper's 573 / 308 MB/s",
            573.0 / 308.0,
            mean_length(8, Schedule::First, 1) / mean_length(8, Schedule::Hash, 1),
            Class::T,
        ),
    ];
    report.cells.extend(btio());
    report.tables.push(table);
    let title = "schedule length over the optimum n";
    report.charts.push(
        Chart::lines(title, "n", "length / n", series)
            .log_x()
            .ours(),
    );
    report.claims = vec![
        "in the example of Figure 1 first gives a schedule of length 3, hash one of length 2"
            .into(),
    ];
    report.notes = vec![
        "The text's description of Figure 1's Schedule 1 (T1 and T2 together, then T3 and T4 clash) \
         is impossible with two nodes on each side; we read it as two clients that each write to two \
         servers, in order."
            .into(),
        "`FCFS gives Schedule 1` holds for strict FCFS (length 3) only; skipping conflicts gives 2."
            .into(),
        "BTIO: 42.2 MB per step of class B is a misprint of 42.45; a granularity of 3240 B belongs \
         to 4 processes, 9 processes have 2160 B."
            .into(),
        "A random order needs 13.8 and 28.7 steps at n = 8 and 16 with work-conserving FIFO servers \
         (an earlier prototype gave 14.3 and 30.2, about 2n - 1.7): nearer to first than to hash."
            .into(),
        "Not simulated: all read results, BTIO times and small-b behaviour depend on the host's \
         network stack; they are for measurements on the real system."
            .into(),
    ];
    Ok(report)
}

/// BTIO's sizes: n^3 points of 40 bytes, 40 steps.
fn btio() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (class, n, printed, step) in [
        ("A", 64u64, 419.43, 10.5),
        ("B", 102, 1697.93, 42.45),
        ("C", 162, 6802.44, 170.0),
    ] {
        let bytes = n * n * n * 40;
        let label = format!("BTIO class {class}: file MB");
        cells.push(Cell::new(
            label,
            printed,
            (bytes * 40) as f64 / 1e6,
            Class::X,
        ));
        let label = format!("BTIO class {class}: MB per step");
        cells.push(Cell::new(label, step, bytes as f64 / 1e6, Class::X));
    }
    cells.push(Cell::ours(
        "BTIO class C, 9 processes: bytes per piece",
        f64::from(162 / 3 * 40),
    ));
    cells
}

/// Schedule blocks of the paper's Figures 2 and 3, KB.
const BLOCKS_KB: [u64; 11] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

#[expect(
    clippy::unnecessary_wraps,
    reason = "all experiments have this signature"
)]
fn write(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let clients = settings.integer("clients") as u32;
    let servers = settings.integer("servers") as u32;
    let bytes = settings.integer("megabytes") << 20;
    let seeds = u64::from(settings.seeds.unwrap_or(5));
    let points: Vec<(Schedule, u64)> = Schedule::ALL
        .into_iter()
        .flat_map(|schedule| BLOCKS_KB.map(|block| (schedule, block)))
        .collect();
    progress.expect(points.len() as u64);
    let rates = replicate(settings.jobs, &points, |&(schedule, block_kb)| {
        let seeds = if schedule == Schedule::Random {
            seeds
        } else {
            1
        };
        let total: f64 = (0..seeds)
            .map(|seed| throughput(clients, servers, bytes, block_kb << 10, schedule, seed))
            .sum();
        progress.done(1);
        total / seeds as f64
    });
    let mut report = Report {
        changed: settings.changed(),
        ..Report::default()
    };
    let mut table = Table::new(
        "aggregate write throughput, MB/s",
        &["b KB", "first", "random", "hash"],
    );
    let n = BLOCKS_KB.len();
    for (at, block) in BLOCKS_KB.iter().enumerate() {
        let row = [0, 1, 2].map(|schedule| figure(rates[schedule * n + at]));
        table.row([
            block.to_string(),
            row[0].clone(),
            row[1].clone(),
            row[2].clone(),
        ]);
    }
    report.tables.push(table);
    let series = Schedule::ALL.into_iter().enumerate().map(|(at, schedule)| {
        let line = BLOCKS_KB.iter().zip(&rates[at * n..][..n]);
        (
            schedule.to_string(),
            line.map(|(&b, &rate)| (b as f64, rate)).collect(),
        )
    });
    let title = "Figure 2: aggregate write throughput over the schedule block";
    report.charts.push(
        Chart::lines(title, "b, KB", "MB/s", series.collect())
            .log_x()
            .ours(),
    );
    let (first, random, hash) = (&rates[..n], &rates[n..2 * n], &rates[2 * n..]);
    let best = hash.iter().copied().fold(0.0, f64::max);
    let large = &first[6..];
    report.cells = vec![
        Cell::new(
            "hash over first at b = 4096 KB (573 / 308)",
            1.86,
            hash[n - 1] / first[n - 1],
            Class::T,
        ),
        Cell::claim(
            "first falls as b grows from 256 KB: MB/s at 4096 KB",
            first[n - 1],
            large.is_sorted_by(|a, b| a > b),
        )
        .beside(308.0),
        Cell::claim(
            "hash does not fall with b: MB/s at 4096 KB over its best",
            hash[n - 1] / best,
            hash[n - 1] > 0.97 * best,
        ),
        Cell::claim(
            "hash is best at large b: over random at 4096 KB",
            hash[n - 1] / random[n - 1],
            hash[n - 1] > random[n - 1],
        ),
        Cell::claim(
            "random beats first at the largest b: factor at 4096 KB",
            random[n - 1] / first[n - 1],
            random[n - 1] > first[n - 1],
        ),
    ];
    report.claims = vec![
        "writes: best 573 MB/s (hash, 64 KB), worst 308 (first, 4096 KB), 86 % more".into(),
        "first falls with b, hash does not and is clearly best at large b".into(),
    ];
    report.notes = vec![
        "Servers are FIFO with 60 us + 75 MB/s per request, clients take 20 us between requests: a \
         model of the ratio, not fitted to absolute rates. One block in flight per client."
            .into(),
        "Not reproduced: hash's optimum at b = 64 KB (needs a cost that grows with b) and random's \
         advantage at the smallest blocks; the paper's reads are not modelled at all."
            .into(),
    ];
    Ok(report)
}

/// Heuristic, expected length over the optimum on random graphs, and on the complete one.
const EXPECTED: [(Heuristic, f64, Option<f64>); 9] = [
    (Heuristic::FcfsStrict, 3.22, None),
    (Heuristic::FcfsGreedy, 1.008, Some(1.00)),
    (Heuristic::Hdf, 1.002, Some(1.12)),
    (Heuristic::Hcdf, 1.000, Some(1.13)),
    (Heuristic::Uar, 1.29, Some(1.78)),
    (Heuristic::Mpasses(2), 1.03, None),
    (Heuristic::Mpasses(4), 1.008, Some(1.14)),
    (Heuristic::DistributedHdf(1), 1.19, None),
    (Heuristic::DistributedHdf(4), 1.003, None),
];

#[expect(
    clippy::unnecessary_wraps,
    reason = "all experiments have this signature"
)]
fn heuristics(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let graphs = settings.integer("graphs") / if settings.quick { 4 } else { 1 };
    let n = settings.integer("nodes") as u32;
    progress.expect(EXPECTED.len() as u64);
    let results = replicate(settings.jobs, &EXPECTED, |&(heuristic, ..)| {
        let mut random = Random::new(5);
        let mut mean = [0.0; 2];
        let mut messages = 0.0;
        for _ in 0..graphs.max(1) {
            let mut list: Vec<_> = (0..n * n)
                .map(|at| Request {
                    client: at / n,
                    server: random.below(u64::from(n)) as u32,
                })
                .collect();
            random.shuffle(&mut list);
            let graphs_both = [Requests::new(n, n, list), Requests::complete(n, n)];
            for (at, requests) in graphs_both.iter().enumerate() {
                let plan = heuristic.plan(requests, &mut random);
                mean[at] += f64::from(plan.length) / f64::from(requests.optimum());
                if at == 0 {
                    messages += plan.messages as f64 / requests.list().len() as f64;
                }
            }
        }
        progress.done(1);
        let graphs = graphs.max(1) as f64;
        ([mean[0] / graphs, mean[1] / graphs], messages / graphs)
    });
    let mut report = Report {
        changed: settings.changed(),
        ..Report::default()
    };
    let mut table = Table::new(
        "length over the optimum, and messages per request",
        &["heuristic", "random multigraph", "complete", "messages"],
    );
    for ((heuristic, on_random, on_complete), (ratios, messages)) in EXPECTED.iter().zip(results) {
        table.row([
            heuristic.to_string(),
            format!("{:.3}", ratios[0]),
            format!("{:.3}", ratios[1]),
            figure(messages),
        ]);
        let mut judge = |graph: &str, expected: f64, ours: f64| {
            let holds = (ours - expected).abs() <= 0.05;
            let label = format!("{heuristic}, {graph}: length / optimum");
            report.cells.push(Cell {
                class: Class::M,
                ..Cell::claim(label, ours, holds).beside(expected)
            });
        };
        judge("random multigraph", *on_random, ratios[0]);
        if let Some(expected) = on_complete {
            judge("complete graph", *expected, ratios[1]);
        }
    }
    report.tables.push(table);
    report.claims = vec![
        "UAR, MPASSES and distributed HDF are within a few percent of the optimum (as cited)"
            .into(),
    ];
    report.notes = vec![
        "`published` is what prototypes of these heuristics gave (within 0.05); the originals report \
         2 to 20 % above the optimum. With unit transfers the optimum is the largest degree, so the \
         comparison is with the true optimum."
            .into(),
        "Requests of the random graphs arrive in no particular order; client by client, strict FCFS \
         takes ten times the optimum."
            .into(),
    ];
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_experiments_hold() {
        for experiment in [LAW, WRITE, HEURISTICS] {
            let settings = Settings::new(experiment.parameters);
            let report = experiment.execute(&settings, &Progress::silent()).unwrap();
            assert!(report.ok(), "{}", report.verdict());
        }
    }

    #[test]
    fn btio_sizes() {
        assert!(btio().iter().all(|cell| cell.ok));
        assert_eq!(btio().last().unwrap().simulated, 2160.0);
    }
}
