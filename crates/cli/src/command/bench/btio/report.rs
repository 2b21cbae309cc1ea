//! What `bench btio` makes of its runs: medians, ratios, the target, lines and JSON.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::super::squad::Run;
use super::super::target::{self, Target};
use super::Class;

/// The method that is ours.
pub const OURS: &str = "trireme";

/// How the peers are kept fair.
const ABOUT: &str = "The peers write the local file system with no server in between, ours the same \
    file system through its servers. Waiting ranks give their processor away under both MPIs. ROMIO: \
    every rank may aggregate, collective buffer of 1 MiB (both faster here than the defaults). OMPIO: \
    its own choice of aggregators and collective component. Files are new in each run. The time is that \
    of the slowest rank in the collective writes with the close after them, and in the collective reads.";

/// The runs of one class by one method.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub class: String,
    pub method: &'static str,
    pub grid: u64,
    pub steps: u64,
    /// All steps of the class.
    pub complete: bool,
    pub ranks: u32,
    pub bytes: u64,
    /// Medians of the slowest rank's seconds.
    pub write_s: f64,
    pub read_s: f64,
    pub io_s: f64,
    /// Of all processes, everything between the signal and the end.
    pub cpu_s: f64,
    /// I/O time over that of the fastest peer.
    pub of_best_peer: f64,
    pub verified: bool,
    /// Writing and reading seconds of each run.
    pub runs: Vec<(f64, f64)>,
    #[serde(skip)]
    cpu: Vec<f64>,
}

impl Cell {
    pub fn new(
        class: Class,
        method: &'static str,
        grid: u64,
        steps: u64,
        complete: bool,
        ranks: u32,
    ) -> Cell {
        Cell {
            class: format!("{class:?}"),
            method,
            grid,
            steps,
            complete,
            ranks,
            bytes: super::bytes(grid, steps),
            write_s: f64::NAN,
            read_s: f64::NAN,
            io_s: f64::NAN,
            cpu_s: f64::NAN,
            of_best_peer: f64::NAN,
            verified: true,
            runs: Vec::new(),
            cpu: Vec::new(),
        }
    }

    pub fn add(&mut self, run: &Run) -> anyhow::Result<()> {
        let (mut writing, mut reading) = (0f64, 0f64);
        for words in &run.words {
            let mut seconds = words.split(' ').map(str::parse::<f64>);
            let mut next = || seconds.next().context("a rank did not say its times");
            writing = writing.max(next()??);
            reading = reading.max(next()??);
        }
        self.verified &= run.verified;
        self.runs.push((writing, reading));
        self.cpu.push(run.members_cpu + run.servers_cpu);
        Ok(())
    }
}

/// Medians, and ratios among the methods of one class.
pub fn compare(cells: &mut [Cell]) {
    for cell in &mut *cells {
        let of = |value: fn(&(f64, f64)) -> f64| median(cell.runs.iter().map(value).collect());
        (cell.write_s, cell.read_s) = (of(|run| run.0), of(|run| run.1));
        cell.io_s = of(|run| run.0 + run.1);
        cell.cpu_s = median(cell.cpu.clone());
    }
    let peers = cells.iter().filter(|cell| cell.method != OURS);
    let best = peers.map(|cell| cell.io_s).fold(f64::INFINITY, f64::min);
    for cell in cells {
        cell.of_best_peer = cell.io_s / best;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The target.
pub fn judge(cells: &[Cell]) -> Target {
    let counts = |cell: &&Cell| cell.class == "A" && cell.ranks == 4 && cell.complete;
    let ours = cells.iter().filter(counts).find(|cell| cell.method == OURS);
    let peers = cells
        .iter()
        .filter(counts)
        .filter(|cell| cell.method != OURS);
    let best = peers.min_by(|a, b| a.io_s.total_cmp(&b.io_s));
    let (measured, pass) = match (ours, best) {
        (Some(ours), Some(best)) => (
            format!(
                "{:.2}x: {:.3} s (write {:.3}, read {:.3}) against {:.3} s of {} (write {:.3}, read {:.3})",
                ours.io_s / best.io_s,
                ours.io_s,
                ours.write_s,
                ours.read_s,
                best.io_s,
                best.method,
                best.write_s,
                best.read_s
            ),
            Some(ours.io_s <= best.io_s),
        ),
        _ => (
            "needs class A, 4 ranks, all steps and a peer".to_owned(),
            None,
        ),
    };
    Target {
        what: "class A on 4 ranks: I/O time at most that of the best of ROMIO and OMPIO".to_owned(),
        measured,
        pass,
        misses: Vec::new(),
    }
}

pub fn header() -> String {
    format!(
        "{:<6}{:>10}  {:<9}{:>9}{:>9}{:>9}{:>9}{:>9}  {:>12}  VERIFIED",
        "CLASS", "BYTES", "METHOD", "WRITE S", "READ S", "I/O S", "MB/S", "CPU S", "OF BEST PEER"
    )
}

pub fn line(cell: &Cell) -> String {
    format!(
        "{:<6}{:>10}  {:<9}{:>9.4}{:>9.4}{:>9.4}{:>9.0}{:>9.3}  {:>12.2}  {}",
        cell.class,
        super::volume(cell.grid, cell.steps),
        cell.method,
        cell.write_s,
        cell.read_s,
        cell.io_s,
        2.0 * cell.bytes as f64 / 1e6 / cell.io_s,
        cell.cpu_s,
        cell.of_best_peer,
        if cell.verified { "yes" } else { "NO" }
    )
}

pub fn print(targets: &[Target], peers: &[String]) {
    println!("Targets:");
    target::print(targets);
    println!("\n{}.\n{ABOUT}", peers.join("; "));
}

pub fn json(cells: &[Cell], targets: &[Target], peers: &[String], servers: u32) -> Value {
    json!({
        "benchmark": "btio",
        "servers": servers,
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "versions": peers,
        "about": ABOUT,
        "cells": cells,
        "targets": targets,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(method: &'static str, times: &[(f64, f64)]) -> Cell {
        let mut cell = Cell::new(Class::A, method, 64, 40, true, 4);
        for (writing, reading) in times {
            let slower = format!("{writing} {reading}");
            cell.add(&Run {
                seconds: 1.0,
                members_cpu: 1.0,
                servers_cpu: 1.0,
                verified: true,
                words: vec!["0.001 0.001".into(), slower],
            })
            .unwrap();
        }
        cell
    }

    #[test]
    fn the_slowest_rank_counts_and_the_best_peer_is_the_measure() {
        let mut cells = vec![
            cell(OURS, &[(1.0, 0.5), (9.0, 9.0), (1.0, 0.4)]),
            cell("romio", &[(2.0, 1.0); 3]),
            cell("ompio", &[(0.8, 0.6); 3]),
        ];
        compare(&mut cells);
        assert!((cells[0].io_s - 1.5).abs() < 1e-9, "{cells:?}");
        let target = judge(&cells);
        assert_eq!(target.pass, Some(false));
        assert!(target.measured.starts_with("1.07x"), "{target:?}");
        assert_eq!(judge(&cells[..2]).pass, Some(true));
        for cell in &mut cells {
            cell.complete = false;
        }
        assert_eq!(judge(&cells).pass, None);
    }

    #[test]
    fn a_rank_that_says_nothing_is_an_error() {
        let mut cell = Cell::new(Class::S, OURS, 12, 12, true, 4);
        let run = Run {
            seconds: 1.0,
            members_cpu: 0.0,
            servers_cpu: 0.0,
            verified: true,
            words: vec![String::new()],
        };
        assert!(cell.add(&run).is_err());
    }
}
