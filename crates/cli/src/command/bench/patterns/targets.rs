//! The targets of collective I/O on one machine, judged by what was just measured.

use super::super::target::Target;
use super::Memory;
use super::cell::Cell;
use super::romio;
use crate::output;

/// Patterns in which every record's neighbours belong to others.
const CYCLIC: [&str; 6] = ["rc", "rbc", "rcc", "wc", "wbc", "wcc"];

/// What disk-directed must reach on them, with 8-byte records: times ROMIO's collective, times its best.
const TIMES_COLLECTIVE: f64 = 10.0;
const TIMES_BEST: f64 = 2.0;

/// The slowest pattern as a share of the fastest.
const SPREAD: f64 = 0.5;

/// The ranks' share of the processor time.
const CLIENT_SHARE: f64 = 0.1;

/// What programs that come through MPI-IO must reach of the native API.
pub const OF_NATIVE: f64 = 0.9;

/// A server's memory above idle.
const MEMORY: u64 = 64 << 20;

/// All targets.
pub fn judge(cells: &[Cell], memory: &Memory) -> Vec<Target> {
    let cyclic = |cell: &Cell| cell.record == 8 && CYCLIC.contains(&cell.pattern.as_str());
    let ratio = |what: &str, bar, counts: &dyn Fn(&Cell) -> bool, peer: &dyn Fn(&str) -> bool| {
        let needs = "needs disk-directed and --against romio on these patterns";
        ratio(what, cells, DIRECTED, bar, counts, peer, needs)
    };
    vec![
        ratio(
            "1. 8-byte cyclic patterns: disk-directed at least 10x ROMIO's collective",
            TIMES_COLLECTIVE,
            &cyclic,
            &|method| method == romio::METHODS[0],
        ),
        ratio(
            "1. 8-byte cyclic patterns: disk-directed at least 2x ROMIO's best mode",
            TIMES_BEST,
            &cyclic,
            &|method| romio::METHODS.contains(&method),
        ),
        ratio(
            "2. every other pattern: disk-directed at least as fast as ROMIO's collective",
            1.0,
            &|cell| !cyclic(cell),
            &|method| method == romio::METHODS[0],
        ),
        spread("read", cells),
        spread("write", cells),
        client_share(cells),
        server_memory(memory),
        self::ratio(
            "5. through MPI-IO: at least 0.9x of the native API on every pattern",
            cells,
            romio::VIA,
            OF_NATIVE,
            &|_| true,
            &|method| method == DIRECTED,
            "needs disk-directed and --via mpi",
        ),
    ]
}

const DIRECTED: &str = "disk-directed";

/// The cells of one pattern that the last target compares.
pub fn native_and_via(cells: &mut [Cell]) -> Option<[&mut Cell; 2]> {
    let (mut native, mut via) = (None, None);
    for cell in cells {
        match cell.method.as_str() {
            DIRECTED => native = Some(cell),
            romio::VIA => via = Some(cell),
            _ => {}
        }
    }
    Some([native?, via?])
}

fn directed(cells: &[Cell]) -> impl Iterator<Item = &Cell> {
    cells.iter().filter(|cell| cell.method == DIRECTED)
}

fn place(cell: &Cell) -> String {
    format!("{} {} B", cell.pattern, cell.record)
}

/// One method over the fastest of some peers, on some patterns.
fn ratio(
    what: &str,
    cells: &[Cell],
    method: &str,
    bar: f64,
    counts: &dyn Fn(&Cell) -> bool,
    peer: &dyn Fn(&str) -> bool,
    needs: &str,
) -> Target {
    let mut ratios: Vec<(f64, String)> = cells
        .iter()
        .filter(|cell| cell.method == method && counts(cell))
        .filter_map(|ours| {
            let peers = cells.iter().filter(|cell| {
                peer(&cell.method) && cell.pattern == ours.pattern && cell.record == ours.record
            });
            let best = peers.max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))?;
            let ratio = ours.times(best);
            let figures = format!(
                "{} {ratio:.2}x ({:.0} against {:.0} MB/s of {})",
                place(ours),
                ours.mb_per_s,
                best.mb_per_s,
                best.method
            );
            Some((ratio, figures))
        })
        .collect();
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let misses: Vec<String> = ratios
        .iter()
        .filter(|(ratio, _)| *ratio < bar)
        .map(|(_, figures)| figures.clone())
        .collect();
    Target {
        what: what.to_owned(),
        measured: match (ratios.first(), ratios.last()) {
            (Some((least, where_least)), Some((most, _))) => {
                format!("{least:.2}x to {most:.2}x; least: {where_least}")
            }
            _ => needs.to_owned(),
        },
        pass: (!ratios.is_empty()).then_some(misses.is_empty()),
        misses,
    }
}

fn spread(op: &str, cells: &[Cell]) -> Target {
    let mut ours: Vec<&Cell> = directed(cells).filter(|cell| cell.op == op).collect();
    ours.sort_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s));
    let what = format!("3. {op}s: disk-directed's slowest pattern at least 0.5x its fastest");
    let (Some(slowest), Some(fastest)) = (ours.first(), ours.last()) else {
        return Target {
            what,
            measured: "needs disk-directed".to_owned(),
            pass: None,
            misses: Vec::new(),
        };
    };
    let share = slowest.mb_per_s / fastest.mb_per_s;
    // The file is read once and delivered to each: neither its bytes nor those delivered compare.
    let mut others = ours.iter().filter(|cell| cell.pattern != "ra");
    let others = match (others.next(), others.next_back()) {
        (Some(least), Some(most)) if fastest.pattern == "ra" || slowest.pattern == "ra" => {
            format!("; {:.2}x without ra", least.mb_per_s / most.mb_per_s)
        }
        _ => String::new(),
    };
    Target {
        what,
        measured: format!(
            "{share:.2}x: {} {:.0} MB/s, {} {:.0} MB/s{others}",
            place(slowest),
            slowest.mb_per_s,
            place(fastest),
            fastest.mb_per_s
        ),
        pass: (ours.len() > 1).then_some(share >= SPREAD),
        misses: ours
            .iter()
            .filter(|cell| cell.mb_per_s < SPREAD * fastest.mb_per_s)
            .map(|cell| format!("{} {:.0} MB/s", place(cell), cell.mb_per_s))
            .collect(),
    }
}

fn client_share(cells: &[Cell]) -> Target {
    let ours: Vec<&Cell> = directed(cells).collect();
    let sum = |value: fn(&Cell) -> f64| ours.iter().map(|cell| value(cell)).sum::<f64>();
    let share = sum(|cell| cell.client_cpu_s) / sum(|cell| cell.cpu_s).max(1e-9);
    let worst = ours
        .iter()
        .max_by(|a, b| a.client_share().total_cmp(&b.client_share()));
    Target {
        what: "4. client CPU during disk-directed transfers under 10 % of the total".to_owned(),
        measured: worst.map_or("needs disk-directed".to_owned(), |worst| {
            format!(
                "{:.1} % over all patterns; most: {} {:.1} %",
                100.0 * share,
                place(worst),
                100.0 * worst.client_share()
            )
        }),
        pass: worst.map(|worst| worst.client_share() < CLIENT_SHARE),
        misses: ours
            .iter()
            .filter(|cell| cell.client_share() >= CLIENT_SHARE)
            .map(|cell| format!("{} {:.1} %", place(cell), 100.0 * cell.client_share()))
            .collect(),
    }
}

fn server_memory(memory: &Memory) -> Target {
    Target {
        what: "4. server memory during disk-directed transfers under 64 MiB above idle".to_owned(),
        measured: if memory.watched {
            format!("at most {} per server", output::bytes(memory.above_idle))
        } else {
            "needs disk-directed on a cluster that this command starts".to_owned()
        },
        pass: memory.watched.then_some(memory.above_idle < MEMORY),
        misses: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(pattern: &str, record: u64, method: &str, rate: f64) -> Cell {
        let mut cell = Cell::new(pattern, record, method, 1 << 20);
        cell.mb_per_s = rate;
        cell.client_cpu_s = 0.01;
        cell.server_cpu_s = 0.99;
        cell.cpu_s = 1.0;
        cell
    }

    #[test]
    fn a_miss_says_where_and_by_how_much() {
        let memory = Memory {
            above_idle: 10 << 20,
            watched: true,
        };
        let mut cells = vec![
            cell("rcc", 8, "disk-directed", 1000.0),
            cell("rcc", 8, "romio-collective", 90.0),
            cell("rcc", 8, "romio-sieving", 700.0),
            cell("wb", 8192, "disk-directed", 3000.0),
            cell("wb", 8192, "romio-collective", 2000.0),
            cell("wb", 8192, "via-mpi", 2699.0),
        ];
        let targets = judge(&cells, &memory);
        let pass: Vec<_> = targets.iter().map(|target| target.pass).collect();
        let yes = Some(true);
        // One pattern per operation says nothing about the spread.
        let no = Some(false);
        assert_eq!(pass, [yes, no, yes, None, None, yes, yes, no]);
        assert!(
            targets[1].misses[0].starts_with("rcc 8 B 1.43x"),
            "{targets:?}"
        );
        cells.push(cell("rb", 8192, "disk-directed", 2001.0));
        assert_eq!(judge(&cells, &memory)[3].pass, Some(false));
        assert!(
            judge(&[], &Memory::default())
                .iter()
                .all(|t| t.pass.is_none())
        );
    }
}
