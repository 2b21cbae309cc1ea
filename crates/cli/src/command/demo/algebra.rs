//! The tour's first stop: who owns which byte, drawn with one colour per process.

use super::paint::Paint;
use std::fmt::Write as _;
use trireme_partition::{Part, Partition};

/// An 8 x 8 matrix over four processes, as in Figure 3 of the disk-directed I/O paper.
const SIDE: u64 = 8;
const PROCESSES: u32 = 4;
const MATRICES: [(&str, &str); 8] = [
    ("rnb", "NONE x BLOCK"),
    ("rnc", "NONE x CYCLIC"),
    ("rbn", "BLOCK x NONE"),
    ("rbb", "BLOCK x BLOCK"),
    ("rbc", "BLOCK x CYCLIC"),
    ("rcn", "CYCLIC x NONE"),
    ("rcb", "CYCLIC x BLOCK"),
    ("rcc", "CYCLIC x CYCLIC"),
];

/// The paper's real size: 10 MB of 8-byte records over 16 processes, striped over 4 servers.
const FILE: u64 = 10 << 20;
const RECORD: u64 = 8;
const RANKS: u32 = 16;

/// Draws the distributions and what a server and a process have in common.
pub fn show(paint: Paint) -> anyhow::Result<()> {
    println!("An 8 x 8 matrix, row by row in one file, divided among {PROCESSES} processes:\n");
    for row in MATRICES.chunks(4) {
        print!("{}", draw(row, paint)?);
    }
    println!(
        "A view divides a file among processes; a layout divides it among I/O servers. Both are"
    );
    println!(
        "partitions, a few numbers whatever the array's size, and a transfer is one intersection:\n"
    );
    let layout = Partition::striped(64 << 10, 4, 0)?;
    println!(
        "  {:<59} {:>9} {:>9} {:>8}",
        "process 6's view", "pieces", "on srv 2", "encoded"
    );
    for name in ["rb", "rc", "rbb", "rbc", "rcb", "rcc"] {
        let view = Partition::named(name, RECORD, FILE, RANKS)?;
        let (part, server) = (view.part(6)?, layout.part(2)?);
        let shared = part.intersect(&server, 0..FILE).count();
        println!(
            "  {:<4}{:<55} {:>9} {:>9} {:>6} B",
            name,
            view.describe(6),
            part.runs_in(0..FILE),
            shared,
            part.encode().len(),
        );
    }
    println!("\n  (the file: {layout}, {} MB)\n", FILE >> 20);
    Ok(())
}

/// Several small matrices side by side.
fn draw(patterns: &[(&str, &str)], paint: Paint) -> anyhow::Result<String> {
    let mut text = String::new();
    let parts = patterns
        .iter()
        .map(|(name, _)| {
            let view = Partition::named(name, 1, SIDE * SIDE, PROCESSES)?;
            (0..PROCESSES)
                .map(|i| view.part(i))
                .collect::<Result<Vec<Part>, _>>()
        })
        .collect::<Result<Vec<_>, _>>()?;
    for (name, title) in patterns {
        write!(text, "  {:<19}", format!("{name}  {title}"))?;
    }
    text.push('\n');
    for row in 0..SIDE {
        for parts in &parts {
            text.push_str("  ");
            for column in 0..SIDE {
                let at = row * SIDE + column;
                let owner = parts.iter().position(|part| part.to_view(at).is_some());
                let owner = owner.expect("every element has an owner");
                text.push_str(&paint.cell(owner, &format!("{owner} ")));
            }
            text.push_str("   ");
        }
        text.push('\n');
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_matrices_are_drawn_cell_by_cell() {
        let text = draw(&[("rbc", "BLOCK x CYCLIC")], Paint::plain()).unwrap();
        let rows: Vec<&str> = text.lines().map(str::trim).skip(1).take(8).collect();
        assert_eq!(rows[0], "0 1 0 1 0 1 0 1");
        assert_eq!(rows[7], "2 3 2 3 2 3 2 3");
    }
}
