//! All schedulers on the same requests, in one table; and the same at 10,000 clients.

use trireme_policy::schedule::Schedule;
use trireme_policy::schedule::aggregate;
use trireme_policy::schedule::heuristic::Heuristic;
use trireme_policy::schedule::lard;
use trireme_policy::schedule::replicated::Priority;
use trireme_sim::replicate::replicate;

use super::PAPER;
use super::machine::{Equipment, Outcome};
use super::online::{Decentralised, FrontEnd, Merged, Replicas, run};
use super::phases;
use super::workload::Workload;
use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use crate::table::{Table, figure};

/// `sched-compare`.
pub const COMPARE: Experiment = Experiment {
    name: "sched-compare",
    about: "every scheduler on the same requests: length, throughput, response, fairness, messages",
    paper: PAPER,
    parameters: &[
        Parameter::integer("clients", 128, 32, 20_000, "number of clients"),
        Parameter::integer("servers", 16, 2, 5_000, "number of servers"),
        Parameter::integer("requests", 32, 1, 10_000, "requests per client"),
        Parameter::integer(
            "window",
            4,
            1,
            1000,
            "requests in flight per client, where one may choose",
        ),
        Parameter::choice(
            "server",
            "disk",
            &["disk", "unit"],
            "disk: positioning and cache; unit: neither",
        ),
    ],
    run: compare,
};

/// `sched-scale`.
pub const SCALE: Experiment = Experiment {
    name: "sched-scale",
    about: "the same comparison with 10,000 clients, 1,000 servers and a million unit requests",
    paper: PAPER,
    parameters: &[
        Parameter::integer("clients", 10_000, 32, 100_000, "number of clients"),
        Parameter::integer("servers", 1_000, 2, 10_000, "number of servers"),
        Parameter::integer("requests", 100, 1, 10_000, "requests per client"),
        Parameter::integer(
            "window",
            4,
            1,
            1000,
            "requests in flight per client, where one may choose",
        ),
        Parameter::choice(
            "server",
            "unit",
            &["disk", "unit"],
            "disk: positioning and cache; unit: neither",
        ),
    ],
    run: compare,
};

/// One line of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Decentralised(Schedule),
    Planned(Heuristic),
    Prioritised(Priority),
    Dsptf,
    Lard,
    Aioli,
}

impl Contender {
    fn all() -> Vec<Self> {
        let decentralised = Schedule::ALL.into_iter().map(Self::Decentralised);
        let planned = Heuristic::ALL.into_iter().map(Self::Planned);
        let prioritised = Priority::ALL.into_iter().map(Self::Prioritised);
        decentralised
            .chain(planned)
            .chain(prioritised)
            .chain([Self::Dsptf, Self::Lard, Self::Aioli])
            .collect()
    }

    fn name(self) -> String {
        match self {
            Self::Decentralised(schedule) => schedule.to_string(),
            Self::Planned(heuristic) => heuristic.to_string(),
            Self::Prioritised(priority) => priority.name().into(),
            Self::Dsptf => "D-SPTF".into(),
            Self::Lard => "LARD".into(),
            Self::Aioli => "aIOLi-like".into(),
        }
    }

    /// Where it may fetch a block from.
    fn uses(self) -> &'static str {
        match self {
            Self::Prioritised(_) | Self::Dsptf => "replicas",
            Self::Lard => "any server",
            _ => "home",
        }
    }

    fn run(self, workload: &Workload, equipment: Equipment, window: u32) -> Outcome {
        match self {
            Self::Decentralised(schedule) => run(
                workload,
                equipment,
                Decentralised::new(workload, schedule, 1),
            ),
            Self::Planned(heuristic) => phases::heuristic(workload, equipment, heuristic, 1),
            Self::Prioritised(priority) => phases::priority(workload, equipment, priority),
            Self::Dsptf => run(workload, equipment, Replicas::new(workload, window)),
            Self::Lard => {
                // The thresholds belong to servers that see hundreds of requests; scaled to what
                // these see on average.
                let mean = (workload.clients * window / workload.servers).max(2);
                let limits = lard::Limits {
                    low: mean / 2,
                    high: mean * 3 / 2,
                };
                run(workload, equipment, FrontEnd::new(workload, window, limits))
            }
            Self::Aioli => {
                let limits = aggregate::Limits {
                    quantum: 8,
                    quantum_max: 32,
                    batch_max: 16,
                };
                run(workload, equipment, Merged::new(workload, window, limits))
            }
        }
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "all experiments have this signature"
)]
fn compare(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let (clients, servers) = (
        settings.integer("clients") as u32,
        settings.integer("servers") as u32,
    );
    let per_client = settings.integer("requests") as u32;
    let window = settings.integer("window") as u32;
    let equipment = if settings.choice("server") == "unit" {
        Equipment::unit()
    } else {
        Equipment::disk()
    };
    let workload = Workload::mixed(clients, servers, per_client, 1);
    let contenders = Contender::all();
    progress.expect(contenders.len() as u64);
    let outcomes = replicate(settings.jobs, &contenders, |contender| {
        let outcome = contender.run(&workload, equipment, window);
        progress.done(1);
        outcome
    });
    let optimum = f64::from(workload.as_matching().0.optimum());
    let mut report = Report {
        changed: settings.changed(),
        ..Report::default()
    };
    let mut table = Table::new(
        format!(
            "{clients} clients, {servers} servers, {} requests; times in block transfers; optimum \
             from home servers at unit time: {optimum:.0}",
            workload.requests.len()
        ),
        &[
            "scheduler",
            "fetches from",
            "length",
            "over optimum",
            "throughput",
            "mean response",
            "fairness",
            "messages / request",
        ],
    );
    let per_request = |messages: u64| messages as f64 / workload.requests.len() as f64;
    for (contender, outcome) in contenders.iter().zip(&outcomes) {
        table.row([
            contender.name(),
            contender.uses().into(),
            figure(outcome.length),
            format!("{:.3}", outcome.length / optimum),
            figure(outcome.throughput),
            figure(outcome.response),
            format!("{:.3}", outcome.fairness),
            figure(per_request(outcome.messages)),
        ]);
    }
    report.tables.push(table);
    let names: Vec<String> = contenders
        .iter()
        .map(|contender| contender.name())
        .collect();
    let bar = |of: fn(&Outcome) -> f64| outcomes.iter().map(|o| Some(of(o))).collect::<Vec<_>>();
    report.charts = vec![
        Chart::bars(
            "throughput by scheduler",
            "blocks per block time",
            names.clone(),
            vec![("throughput".into(), bar(|o| o.throughput))],
        )
        .ours(),
        Chart::bars(
            "fairness among applications by scheduler",
            "Jain's index",
            names,
            vec![("fairness".into(), bar(|o| o.fairness))],
        )
        .ours(),
    ];
    let of = |contender: Contender| {
        let at = contenders.iter().position(|&other| other == contender);
        &outcomes[at.expect("everybody ran")]
    };
    let hash = of(Contender::Decentralised(Schedule::Hash));
    let first = of(Contender::Decentralised(Schedule::First));
    let dsptf = of(Contender::Dsptf);
    let strict = of(Contender::Planned(Heuristic::FcfsStrict));
    let greedy = of(Contender::Planned(Heuristic::FcfsGreedy));
    report.cells = vec![
        // At unit time there is nothing to position, and what is left of D-SPTF is a choice of
        // servers without a view of who is busiest.
        Cell::claim(
            "D-SPTF's throughput over hash's (published: up to 1.65)",
            dsptf.throughput / hash.throughput,
            equipment.cache == 0 || dsptf.throughput > hash.throughput,
        ),
        Cell::claim(
            "strict FCFS over greedy FCFS, length",
            strict.length / greedy.length,
            strict.length > greedy.length,
        ),
        Cell::ours(
            "hash over first, throughput",
            hash.throughput / first.throughput,
        ),
        Cell::claim(
            "no plan on home servers beats the optimum at unit time: greedy FCFS over optimum",
            greedy.length / optimum,
            equipment.cache > 0 || greedy.length >= optimum,
        ),
    ];
    report.claims = vec![
        "D-SPTF outperforms LARD and hash-based distribution in throughput and response time (as \
         cited by the paper)"
            .into(),
    ];
    report.notes = vec![
        "Requests all exist at time 0 and responses count from there. Plans run phase by phase, each \
         as long as its slowest transfer; first, random and hash have one request in flight per \
         client, D-SPTF, LARD and the aIOLi-like scheduler `window` of them."
            .into(),
        "Fairness: Jain's index over the four applications of (time alone at best / time taken). \
         Messages: those exchanged in order to schedule, not the transfers. D-SPTF's claims are \
         assumed to arrive at once; LARD's thresholds are scaled to the load."
            .into(),
        "LDDF, SJF and SOJF follow the meaning of their names, aIOLi's rules are ours: the originals \
         were not available."
            .into(),
    ];
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_table_compares_all() {
        let settings = Settings::new(COMPARE.parameters);
        let report = COMPARE.execute(&settings, &Progress::silent()).unwrap();
        assert!(report.ok(), "{}", report.verdict());
        assert_eq!(report.tables[0].rows.len(), 18);
    }

    /// At a tenth of the experiment's size in each direction: every contender, in every row.
    #[test]
    fn the_comparison_scales() {
        let mut settings = Settings::new(SCALE.parameters);
        settings
            .set_all(["clients=1000", "servers=100", "requests=20"])
            .unwrap();
        let report = SCALE.execute(&settings, &Progress::silent()).unwrap();
        assert!(report.ok(), "{}", report.verdict());
    }
}
