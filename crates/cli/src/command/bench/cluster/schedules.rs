//! Schedules times schedule blocks: contiguous regions (Figures 2 and 3) and BTIO (Figures 4 and 5).

use serde::Serialize;
use trireme::Schedule;

use super::report::Results;
use super::{Lab, tell};
use crate::command::bench::squad::Squad;
use crate::command::bench::target::Target;
use crate::command::bench::worker::{ALONE, Job, Layout, Order};

/// `hash` over `first`, both at the largest block, for writes.
const HASH_OVER_FIRST: f64 = 1.5;

/// The best schedule as a share of the links.
const OF_LINKS: f64 = 0.85;

/// Figures 2 and 3, and 4 and 5.
pub const FIGURES: &str = "figures 2 and 3";
pub const BTIO: &str = "figures 4 and 5 (BTIO)";

/// One schedule with one schedule block.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub experiment: &'static str,
    pub op: &'static str,
    pub schedule: &'static str,
    pub block: u64,
    /// Mean over the runs.
    pub seconds: f64,
    pub mb_per_s: f64,
    /// Of the links of all servers together.
    pub of_links: f64,
    /// What the paper prints for it: MB/s for the figures 2 and 3, seconds for BTIO.
    pub published: Option<f64>,
    pub verified: bool,
}

/// The values that the paper prints in its prose: (experiment, op, schedule, block in KiB, value). Its
/// plots are not available as numbers.
const PUBLISHED: [(&str, &str, &str, u64, f64); 8] = [
    (FIGURES, "write", "hash", 64, 573.0),
    (FIGURES, "write", "first", 4096, 308.0),
    (FIGURES, "read", "hash", 32, 817.0),
    (FIGURES, "read", "first", 4, 90.0),
    (BTIO, "write", "first", 4, 0.78),
    (BTIO, "write", "first", 8192, 0.51),
    (BTIO, "read", "random", 4, 1.15),
    (BTIO, "read", "hash", 8192, 0.42),
];

/// The synthetic benchmark: each client its own contiguous region of one file.
pub fn figures(lab: &Lab<'_>, results: &mut Results) -> anyhow::Result<()> {
    let args = lab.args;
    let bytes = args.per_client * u64::from(args.nodes);
    let sweep = Sweep {
        experiment: FIGURES,
        pattern: "b",
        record: 8,
        bytes,
        nodes: args.nodes,
        blocks: args.blocks(4 << 20),
    };
    sweep.run(lab, results)?;
    let cells: Vec<Cell> = results.cells_of(FIGURES).cloned().collect();
    let largest = cells.iter().map(|cell| cell.block).max().unwrap_or(0);
    let at = |schedule: &str| {
        cells
            .iter()
            .find(|cell| cell.op == "write" && cell.schedule == schedule && cell.block == largest)
    };
    if let (Some(hash), Some(first)) = (at("hash"), at("first")) {
        let ratio = hash.mb_per_s / first.mb_per_s;
        results.targets.push(Target {
            what: format!("writes: hash at least {HASH_OVER_FIRST}x first at large b"),
            measured: format!(
                "{ratio:.2}x at b = {} KiB ({:.0} against {:.0} MB/s; the paper: 1.86x between its best and worst)",
                largest >> 10,
                hash.mb_per_s,
                first.mb_per_s
            ),
            pass: Some(ratio >= HASH_OVER_FIRST),
            misses: Vec::new(),
        });
    }
    for op in ["write", "read"] {
        let best = cells
            .iter()
            .filter(|cell| cell.op == op)
            .max_by(|a, b| a.of_links.total_cmp(&b.of_links));
        if let Some(best) = best {
            results.targets.push(Target {
                what: format!("{op}s: the best schedule reaches at least 85 % of the links"),
                measured: format!(
                    "{:.0} %: {} at b = {} KiB, {:.0} of {} MB/s",
                    100.0 * best.of_links,
                    best.schedule,
                    best.block >> 10,
                    best.mb_per_s,
                    args.nodes * args.link
                ),
                pass: Some(best.of_links >= OF_LINKS),
                misses: Vec::new(),
            });
        }
    }
    Ok(())
}

/// One I/O step of BTIO: every process writes and reads its cells through a view.
pub fn btio(lab: &Lab<'_>, results: &mut Results) -> anyhow::Result<()> {
    let points = lab.args.btio_points;
    let sweep = Sweep {
        experiment: BTIO,
        pattern: "btio",
        record: points,
        bytes: points * points * points * 40,
        nodes: lab.args.btio_nodes,
        blocks: lab.args.blocks(8 << 20),
    };
    sweep.run(lab, results)
}

struct Sweep {
    experiment: &'static str,
    pattern: &'static str,
    record: u64,
    bytes: u64,
    nodes: u32,
    blocks: Vec<u64>,
}

impl Sweep {
    fn job(&self, lab: &Lab<'_>, write: bool) -> Job {
        let pattern = match (self.pattern, write) {
            ("b", true) => "wb".to_owned(),
            ("b", false) => "rb".to_owned(),
            (other, _) => other.to_owned(),
        };
        Job {
            path: format!("/{}", self.pattern),
            write,
            method: ALONE.to_owned(),
            pattern,
            record: self.record,
            bytes: self.bytes,
            seed: 1,
            verify: true,
            layout: Some(Layout {
                unit: lab.args.unit,
                servers: self.nodes,
            }),
            order: None,
        }
    }

    fn run(&self, lab: &Lab<'_>, results: &mut Results) -> anyhow::Result<()> {
        let mut squad = lab.squad(self.nodes)?;
        let pids = lab.servers.pids();
        // Everything is in the servers' page cache before the first clock starts.
        let filled = squad.run(&self.job(lab, true).line(), &pids)?;
        anyhow::ensure!(filled.verified, "the file could not be filled");
        for write in [true, false] {
            for &block in &self.blocks {
                for cell in self.block(lab, &mut squad, write, block)? {
                    results.wrong += usize::from(!cell.verified);
                    results.schedules.push(cell);
                }
            }
            let op = if write { "write" } else { "read" };
            tell("");
            results.print_schedules(self.experiment, op);
        }
        Ok(())
    }

    /// All schedules with one schedule block, taking turns.
    fn block(
        &self,
        lab: &Lab<'_>,
        squad: &mut Squad,
        write: bool,
        block: u64,
    ) -> anyhow::Result<Vec<Cell>> {
        let (args, op) = (lab.args, if write { "write" } else { "read" });
        let mut cells: Vec<Cell> = Schedule::ALL
            .into_iter()
            .map(|schedule| Cell {
                experiment: self.experiment,
                op,
                schedule: schedule.name(),
                block,
                seconds: 0.0,
                mb_per_s: 0.0,
                of_links: 0.0,
                published: published(self.experiment, op, schedule.name(), block),
                verified: true,
            })
            .collect();
        let rounds = args.rounds();
        for round in 0..rounds {
            for cell in &mut cells {
                tell(&format!(
                    "{} {op}: {} b = {} KiB ({} of {rounds})",
                    self.experiment,
                    cell.schedule,
                    block >> 10,
                    round + 1
                ));
                let mut job = self.job(lab, write);
                job.verify = round == 0;
                job.order = Some(Order {
                    schedule: cell.schedule.to_owned(),
                    block,
                    total: args.in_flight,
                });
                let run = squad.run(&job.line(), &[])?;
                cell.seconds += run.seconds / f64::from(rounds);
                cell.verified &= run.verified;
            }
        }
        for cell in &mut cells {
            cell.mb_per_s = self.bytes as f64 / 1e6 / cell.seconds;
            cell.of_links = cell.mb_per_s / f64::from(self.nodes * args.link);
        }
        Ok(cells)
    }
}

fn published(experiment: &str, op: &str, schedule: &str, block: u64) -> Option<f64> {
    PUBLISHED
        .iter()
        .find(|(e, o, s, kib, _)| {
            *e == experiment && *o == op && *s == schedule && kib << 10 == block
        })
        .map(|(.., value)| *value)
}
