//! One method on one pattern: its runs, and what is made of them.

use serde::Serialize;

use super::super::squad::Run;
use super::RAW;

/// Pattern, record and method, with medians over the runs.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    pub pattern: String,
    pub record: u64,
    pub op: &'static str,
    pub method: String,
    /// Bytes of the file: fewer than asked for where a run would have taken too long.
    pub bytes: u64,
    /// Bytes of the file that were asked for.
    #[serde(skip)]
    pub asked: u64,
    /// Bytes delivered per second, in millions; `ra` delivers the file once to each rank.
    pub mb_per_s: f64,
    /// Processor seconds of all processes concerned in one run.
    pub cpu_s: f64,
    /// Of these, the ranks'.
    pub client_cpu_s: f64,
    /// And the servers'.
    pub server_cpu_s: f64,
    /// Throughput as a share of the fastest method's, raw aside.
    pub of_fastest: f64,
    /// Throughput as a share of raw contiguous local I/O by the same processes.
    pub of_raw: f64,
    /// Every byte of every run was where it belongs.
    pub verified: bool,
    /// Seconds of each run.
    pub seconds: Vec<f64>,
    #[serde(skip)]
    runs: Vec<Run>,
}

impl Cell {
    pub fn new(pattern: &str, record: u64, method: &str, bytes: u64) -> Cell {
        Cell {
            pattern: pattern.to_owned(),
            record,
            op: if pattern.starts_with('w') {
                "write"
            } else {
                "read"
            },
            method: method.to_owned(),
            bytes,
            asked: bytes,
            mb_per_s: 0.0,
            cpu_s: 0.0,
            client_cpu_s: 0.0,
            server_cpu_s: 0.0,
            of_fastest: 0.0,
            of_raw: 0.0,
            verified: true,
            seconds: Vec::new(),
            runs: Vec::new(),
        }
    }

    pub fn add(&mut self, run: Run) {
        self.verified &= run.verified;
        self.seconds.push(run.seconds);
        self.runs.push(run);
    }

    /// What was measured so far does not count, except that wrong bytes stay wrong.
    pub fn forget_runs(&mut self) {
        self.seconds.clear();
        self.runs.clear();
    }

    /// Throughput as a multiple of `other`'s: the median over the rounds, as what slows the machine down
    /// for a while slows both. Where one of them moved less, of the medians.
    pub fn times(&self, other: &Cell) -> f64 {
        let rounds = (self.seconds.len(), other.seconds.len());
        if self.bytes != other.bytes || rounds.0 != rounds.1 || rounds.0 == 0 {
            return self.mb_per_s / other.mb_per_s;
        }
        let rounds = self.seconds.iter().zip(&other.seconds);
        median(rounds.map(|(ours, theirs)| theirs / ours).collect())
    }

    /// Of the processor time, the share that ranks used.
    pub fn client_share(&self) -> f64 {
        self.client_cpu_s / (self.client_cpu_s + self.server_cpu_s).max(1e-9)
    }
}

/// Medians, and ratios among the methods of one pattern.
pub fn compare(cells: &mut [Cell], ranks: u32) {
    for cell in &mut *cells {
        let of = |value: fn(&Run) -> f64| median(cell.runs.iter().map(value).collect());
        let copies = if cell.pattern == "ra" { ranks } else { 1 };
        let bytes = (cell.bytes * u64::from(copies)) as f64;
        let seconds = of(|run| run.seconds);
        let clients = of(|run| run.members_cpu);
        let servers = of(|run| run.servers_cpu);
        cell.mb_per_s = bytes / 1e6 / seconds;
        cell.client_cpu_s = clients;
        cell.server_cpu_s = servers;
        cell.cpu_s = clients + servers;
    }
    let methods = cells.iter().filter(|cell| cell.method != RAW);
    let fastest = methods.map(|cell| cell.mb_per_s).fold(0.0, f64::max);
    let raw = cells.iter().find(|cell| cell.method == RAW);
    let raw = raw.map_or(f64::NAN, |cell| cell.mb_per_s);
    for cell in cells {
        cell.of_fastest = cell.mb_per_s / fastest;
        cell.of_raw = cell.mb_per_s / raw;
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64) -> Run {
        Run {
            seconds,
            members_cpu: 0.1,
            servers_cpu: 0.9,
            verified: true,
            words: Vec::new(),
        }
    }

    #[test]
    fn what_slows_a_round_down_slows_both_in_it() {
        let cell = |times: &[f64]| {
            let mut cell = Cell::new("rb", 8, "any", 1_000_000);
            for &time in times {
                cell.add(run(time));
            }
            cell
        };
        let (ours, theirs) = (cell(&[1.0, 4.0, 2.0]), cell(&[2.0, 8.0, 5.0]));
        assert!((ours.times(&theirs) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn medians_are_compared_and_everybody_gets_a_copy_of_ra() {
        let mut cells = ["disk-directed", "romio-collective", RAW]
            .map(|method| Cell::new("ra", 8, method, 1_000_000));
        for (cell, times) in cells.iter_mut().zip([[1.0, 9.0, 2.0], [4.0; 3], [1.0; 3]]) {
            for time in times {
                cell.add(run(time));
            }
        }
        compare(&mut cells, 4);
        assert!((cells[0].mb_per_s - 2.0).abs() < 1e-9);
        assert!((cells[1].of_fastest - 0.5).abs() < 1e-9);
        assert!((cells[0].of_raw - 0.5).abs() < 1e-9);
        assert!((cells[0].client_share() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn one_wrong_run_spoils_the_cell() {
        let mut cell = Cell::new("wb", 8, RAW, 8);
        cell.add(run(1.0));
        cell.add(Run {
            verified: false,
            ..run(1.0)
        });
        assert!(!cell.verified);
    }
}
