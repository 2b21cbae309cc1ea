//! Tables for the terminal.

use crate::experiment::Report;
use crate::table::{Table, figure};

/// A report as text: claims, cells, tables, notes, verdict.
pub fn render(report: &Report) -> String {
    let mut text = format!(
        "{}: {}\n{}\n",
        report.experiment, report.about, report.paper
    );
    if !report.changed.is_empty() {
        text += &format!(
            "changed: {} (published values may not apply)\n",
            report.changed.join(" ")
        );
    }
    for claim in &report.claims {
        text += &format!("  the paper: {claim}\n");
    }
    if !report.cells.is_empty() {
        text += "\n";
        text += &grid(&cells(report));
    }
    for table in &report.tables {
        text += &format!("\n{}\n{}", table.title, grid(table));
    }
    for note in &report.notes {
        text += &format!("\nnote: {note}");
    }
    text += &format!("\nverdict: {}\n", report.verdict());
    text
}

/// The cells of a report as a table.
pub fn cells(report: &Report) -> Table {
    let mut table = Table::new(
        "published and simulated",
        &[
            "cell",
            "published",
            "simulated",
            "error",
            "class",
            "calibrated",
            "ok",
        ],
    );
    for cell in &report.cells {
        table.row([
            cell.cell.clone(),
            cell.published.map_or_else(|| "-".into(), figure),
            figure(cell.simulated),
            cell.error
                .map_or_else(|| "-".into(), |error| format!("{:+.1} %", error * 100.0)),
            cell.class.letter().into(),
            if cell.calibrated { "fitted" } else { "" }.into(),
            if cell.ok { "ok" } else { "OUTSIDE" }.into(),
        ]);
    }
    table
}

/// A table with aligned columns: text to the left, numbers to the right.
pub fn grid(table: &Table) -> String {
    let width = |column: usize| {
        let cells = table.rows.iter().map(|row| &row[column]);
        cells
            .chain([&table.columns[column]])
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..table.columns.len()).map(width).collect();
    let line = |row: &[String]| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(column, (cell, width))| {
                if column > 0 && cell.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c))
                {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            })
            .collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = line(&table.columns);
    text += &format!("{}\n", rule.join("  "));
    table.rows.iter().for_each(|row| text += &line(row));
    text
}
