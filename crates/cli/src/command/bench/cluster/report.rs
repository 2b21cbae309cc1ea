//! What `bench cluster` prints: tables, what must hold, JSON, a page with plots.

use crate::output;
use serde_json::{Value, json};
use trireme::Schedule;
use trireme_lab::{Chart, Report, Table};

use super::Args;
use super::links;
use super::schedules::{BTIO, Cell, FIGURES};
use crate::command::bench::target::{self, Target};

/// Everything that was measured.
pub struct Results {
    setting: String,
    link: u32,
    rounds: u32,
    in_flight: u32,
    pub schedules: Vec<Cell>,
    pub links: Vec<links::Cell>,
    pub targets: Vec<Target>,
    /// Runs whose bytes were not right.
    pub wrong: usize,
}

const PAPER: &str =
    "On evaluating decentralized parallel I/O scheduling strategies for parallel file systems";

impl Results {
    pub fn new(args: &Args) -> Results {
        Results {
            setting: format!(
                "{} + {} nodes ({} + {} for BTIO), links of {} MB/s in each direction, stripe unit {}, \
                 {} per client, {} in flight per client, means of {} runs",
                args.nodes,
                args.nodes,
                args.btio_nodes,
                args.btio_nodes,
                args.link,
                output::bytes(args.unit),
                output::bytes(args.per_client),
                args.in_flight,
                args.rounds(),
            ),
            link: args.link,
            rounds: args.rounds(),
            in_flight: args.in_flight,
            schedules: Vec::new(),
            links: Vec::new(),
            targets: Vec::new(),
            wrong: 0,
        }
    }

    pub fn cells_of(&self, experiment: &str) -> impl Iterator<Item = &Cell> {
        self.schedules
            .iter()
            .filter(move |cell| cell.experiment == experiment)
    }

    /// One row per schedule block, one column per schedule.
    fn rows(&self, experiment: &str, op: &str) -> Vec<Vec<String>> {
        let mut blocks: Vec<u64> = self
            .cells_of(experiment)
            .filter(|cell| cell.op == op)
            .map(|cell| cell.block)
            .collect();
        blocks.dedup();
        let row = |block: u64| {
            let mut row = vec![format!("{} KiB", block >> 10)];
            let mut printed = Vec::new();
            for schedule in Schedule::ALL {
                let found = self.cells_of(experiment).find(|cell| {
                    cell.op == op && cell.block == block && cell.schedule == schedule.name()
                });
                row.push(found.map_or("-".to_owned(), value));
                if let Some((cell, published)) = found.and_then(|c| Some((c, c.published?))) {
                    printed.push(format!("{} {published}", cell.schedule));
                }
            }
            row.push(printed.join(", "));
            row
        };
        blocks.into_iter().map(row).collect()
    }

    pub fn print_schedules(&self, experiment: &str, op: &str) {
        println!("\n{}", title(experiment, op));
        let header = ["B", "FIRST", "RANDOM", "HASH", "THE PAPER PRINTS"];
        println!("{}", output::table(&header, &self.rows(experiment, op)));
    }
}

fn title(experiment: &str, op: &str) -> String {
    let unit = if experiment == BTIO {
        "seconds per I/O step (share of the links)"
    } else {
        "MB/s (share of the links)"
    };
    format!("{experiment}, {op}: {unit}")
}

fn value(cell: &Cell) -> String {
    let share = 100.0 * cell.of_links;
    if cell.experiment == BTIO {
        format!("{:.2} ({share:.0} %)", cell.seconds)
    } else {
        format!("{:.0} ({share:.0} %)", cell.mb_per_s)
    }
}

/// What must hold.
pub fn summary(results: &Results) {
    println!("\n{}", results.setting);
    println!("What must hold:");
    target::print(&results.targets);
}

/// Everything as JSON.
pub fn json(results: &Results) -> Value {
    json!({
        "benchmark": "cluster",
        "setting": results.setting,
        "link_mb_per_s": results.link,
        "rounds": results.rounds,
        "in_flight": results.in_flight,
        "schedules": results.schedules,
        "links": results.links,
        "targets": results.targets,
    })
}

/// One page.
pub fn html(results: &Results) -> String {
    let mut reports = vec![Report {
        experiment: "what-must-hold".to_owned(),
        about: results.setting.clone(),
        tables: vec![target::table(&results.targets)],
        ..Report::default()
    }];
    for experiment in [FIGURES, BTIO] {
        if results.cells_of(experiment).next().is_none() {
            continue;
        }
        let mut report = Report {
            experiment: experiment.to_owned(),
            about: format!("{PAPER}: {experiment}."),
            notes: vec![
                "Published points are those that the paper's text names; its plots are not \
                 available as numbers. Its network carried 120 MB/s between two nodes by TCP."
                    .to_owned(),
            ],
            ..Report::default()
        };
        for op in ["write", "read"] {
            let title = title(experiment, op);
            report.charts.push(plot(results, experiment, op, &title));
            let columns = ["b", "first", "random", "hash", "the paper prints"];
            let mut table = Table::new(&title, &columns);
            results
                .rows(experiment, op)
                .into_iter()
                .for_each(|row| table.row(row));
            report.tables.push(table);
        }
        reports.push(report);
    }
    if !results.links.is_empty() {
        reports.push(links_report(results));
    }
    trireme_lab::output::html::measured(
        "Schedules and patterns over shaped links",
        "trireme bench cluster",
        &reports,
    )
}

fn plot(results: &Results, experiment: &str, op: &str, title: &str) -> Chart {
    let figure = |cell: &Cell| {
        if experiment == BTIO {
            cell.seconds
        } else {
            cell.mb_per_s
        }
    };
    let cells = || results.cells_of(experiment).filter(|cell| cell.op == op);
    let kib = |cell: &Cell| (cell.block >> 10) as f64;
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Schedule::ALL
        .into_iter()
        .map(|schedule| {
            let own = cells().filter(|cell| cell.schedule == schedule.name());
            let points = own.map(|cell| (kib(cell), figure(cell))).collect();
            (schedule.name().to_owned(), points)
        })
        .collect();
    for cell in cells() {
        if let Some(published) = cell.published {
            let name = format!("published: {}", cell.schedule);
            series.push((name, vec![(kib(cell), published)]));
        }
    }
    let y = if experiment == BTIO {
        "seconds"
    } else {
        "MB/s"
    };
    Chart::lines(title, "schedule block b, KiB", y, series).log_x()
}

fn links_report(results: &Results) -> Report {
    let mut report = Report {
        experiment: "patterns over the links".to_owned(),
        about: "Share of the busiest link's rate that each method reaches.".to_owned(),
        ..Report::default()
    };
    let mut records: Vec<u64> = results.links.iter().map(|cell| cell.record).collect();
    records.sort_unstable();
    records.dedup();
    for record in records {
        let cells: Vec<&links::Cell> = results
            .links
            .iter()
            .filter(|cell| cell.record == record)
            .collect();
        let mut groups: Vec<String> = cells.iter().map(|cell| cell.pattern.clone()).collect();
        groups.dedup();
        let mut methods: Vec<&str> = Vec::new();
        for cell in &cells {
            if !methods.contains(&cell.method) {
                methods.push(cell.method);
            }
        }
        let series = methods
            .into_iter()
            .map(|method| {
                let of = |pattern: &String| {
                    cells
                        .iter()
                        .find(|cell| cell.method == method && cell.pattern == *pattern)
                        .map(|cell| 100.0 * cell.of_links)
                };
                (method.to_owned(), groups.iter().map(of).collect())
            })
            .collect();
        let title = format!("{record}-byte records");
        report
            .charts
            .push(Chart::bars(&title, "% of the busiest link", groups, series));
    }
    report
}
