//! What `bench patterns` prints: lines as they come, the summary, JSON, a page with charts.

use crate::output;
use serde_json::{Value, json};
use trireme_lab::{Chart, Report, Table};

use super::super::target::{self, Target};
use super::cell::Cell;
use super::{Memory, RAW};

/// Everything that was measured.
pub struct Results {
    pub heading: String,
    pub size: u64,
    pub ranks: u32,
    pub servers: u32,
    pub rounds: u32,
    pub cells: Vec<Cell>,
    pub targets: Vec<Target>,
    pub memory: Memory,
    /// What the peer is.
    pub romio: Option<String>,
}

/// The heading of the lines.
pub fn header() -> String {
    format!(
        "{:<8}{:>7}  {:<18}{:>8}  {:>10}  {:>6}  {:>7}  {:>7}  {}",
        "PATTERN",
        "RECORD",
        "METHOD",
        "MB/S",
        "OF FASTEST",
        "OF RAW",
        "CPU S",
        "CLIENTS",
        "VERIFIED"
    )
}

/// One cell.
pub fn line(cell: &Cell) -> String {
    let clients = if cell.server_cpu_s > 0.0 {
        format!("{:.1} %", 100.0 * cell.client_share())
    } else {
        "-".to_owned()
    };
    let mut text = format!(
        "{:<8}{:>7}  {:<18}{:>8.0}  {:>10.2}  {:>6.2}  {:>7.3}  {:>7}  {}",
        cell.pattern,
        cell.record,
        cell.method,
        cell.mb_per_s,
        cell.of_fastest,
        cell.of_raw,
        cell.cpu_s,
        clients,
        if cell.verified { "yes" } else { "NO" }
    );
    if let Some(note) = note(cell) {
        text += &format!("  ({note})");
    }
    text
}

/// Said of a cell that was measured on a smaller file.
fn note(cell: &Cell) -> Option<String> {
    (cell.bytes < cell.asked).then(|| format!("on {}: slow", output::bytes(cell.bytes)))
}

/// The summary.
pub fn print(results: &Results) {
    println!("Targets:");
    target::print(&results.targets);
    if let Some(about) = &results.romio {
        println!("\nThe peer: {about}");
    }
    if results.cells.iter().any(|cell| note(cell).is_some()) {
        println!("\n{SLOW}");
    }
}

const SLOW: &str = "A cell \"on N MiB: slow\" was measured on the first N MiB of the file, because a \
    whole one would have taken longer than --limit; its throughput is that of the smaller file.";

/// Everything as JSON.
pub fn json(results: &Results) -> Value {
    json!({
        "benchmark": "patterns",
        "size": results.size,
        "ranks": results.ranks,
        "servers": results.servers,
        "rounds": results.rounds,
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "server_memory_above_idle": results.memory.watched.then_some(results.memory.above_idle),
        "romio": results.romio,
        "cells": results.cells,
        "targets": results.targets,
    })
}

/// One page.
pub fn html(results: &Results) -> String {
    let mut records: Vec<u64> = results.cells.iter().map(|cell| cell.record).collect();
    records.sort_unstable();
    records.dedup();
    let mut report = Report {
        experiment: "throughput".to_owned(),
        about: results.heading.clone(),
        ..Report::default()
    };
    let mut cpu = Report {
        experiment: "processor-time".to_owned(),
        about:
            "Processor seconds of all processes per gigabyte delivered: ranks, and servers where \
                there are any."
                .to_owned(),
        ..Report::default()
    };
    for record in records {
        for op in ["read", "write"] {
            let cells: Vec<&Cell> = results
                .cells
                .iter()
                .filter(|cell| cell.record == record && cell.op == op)
                .collect();
            if cells.is_empty() {
                continue;
            }
            let title = format!("{op}, {record}-byte records");
            report
                .charts
                .push(bars(&title, "MB/s", &cells, |cell| cell.mb_per_s));
            cpu.charts
                .push(bars(&title, "CPU s per GB", &cells, |cell| {
                    cell.cpu_s / (cell.mb_per_s * median(&cell.seconds) / 1e3)
                }));
            report.tables.push(table(&title, &cells));
        }
    }
    report.notes.push(
        "raw: the same processes move as many bytes contiguously from or to a local file."
            .to_owned(),
    );
    report.notes.extend(results.romio.clone());
    if results.cells.iter().any(|cell| note(cell).is_some()) {
        report.notes.push(SLOW.to_owned());
    }
    let mut targets = Report {
        experiment: "targets".to_owned(),
        about: "What must hold, and what was measured in this run.".to_owned(),
        ..Report::default()
    };
    targets.tables.push(target::table(&results.targets));
    trireme_lab::output::html::measured(
        "Patterns of the disk-directed I/O paper on the running system",
        "trireme bench patterns",
        &[targets, report, cpu],
    )
}

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// One group per pattern, one bar per method.
fn bars(title: &str, y: &str, cells: &[&Cell], value: impl Fn(&Cell) -> f64) -> Chart {
    let mut groups: Vec<String> = Vec::new();
    let mut methods: Vec<String> = Vec::new();
    for cell in cells {
        if !groups.contains(&cell.pattern) {
            groups.push(cell.pattern.clone());
        }
        if !methods.contains(&cell.method) {
            methods.push(cell.method.clone());
        }
    }
    let series = methods.into_iter().map(|method| {
        let of = |pattern: &String| {
            cells
                .iter()
                .find(|cell| cell.method == method && cell.pattern == *pattern)
                .map(|cell| value(cell))
        };
        let values = groups.iter().map(of).collect();
        (method, values)
    });
    let series = series.collect();
    Chart::bars(title, y, groups, series)
}

fn table(title: &str, cells: &[&Cell]) -> Table {
    let columns = [
        "pattern",
        "method",
        "MB/s",
        "of fastest",
        "of raw",
        "CPU s",
        "ranks\u{2019} CPU s",
        "verified",
        "note",
    ];
    let mut table = Table::new(title, &columns);
    for cell in cells {
        let clients = if cell.method == RAW {
            cell.cpu_s
        } else {
            cell.client_cpu_s
        };
        table.row([
            cell.pattern.clone(),
            cell.method.clone(),
            format!("{:.0}", cell.mb_per_s),
            format!("{:.2}", cell.of_fastest),
            format!("{:.2}", cell.of_raw),
            format!("{:.3}", cell.cpu_s),
            format!("{clients:.3}"),
            if cell.verified { "yes" } else { "NO" }.to_owned(),
            note(cell).unwrap_or_default(),
        ]);
    }
    table
}
