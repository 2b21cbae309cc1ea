//! One self-contained page: what each paper claimed, our tables, charts, and what does not
//! reproduce. Light and dark, on paper and on a phone; no script, no external resource.

use crate::cell::{Cell, Class};
use crate::experiment::Report;
use crate::output::svg;
use crate::table::{Table, figure};

/// A page of what a benchmark of the running system measured; `command` is how to repeat it.
pub fn measured(title: &str, command: &str, reports: &[Report]) -> String {
    let mut page = head(title);
    page += &format!("<header><h1>{}</h1></header>\n<main>\n", escape(title));
    for report in reports {
        page += &section(report);
    }
    let command = escape(command);
    page += "</main>\n<footer>Written by <code>";
    page += &command;
    page + "</code>. Every number was measured in that one run.</footer>\n</body>\n</html>\n"
}

/// Everything before the body's content.
fn head(title: &str) -> String {
    let mut page = String::new();
    page += "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
    page += "<meta name=\"color-scheme\" content=\"light dark\">\n";
    page += "<link rel=\"icon\" href=\"data:,\">\n";
    page += &format!("<title>{}</title>\n<style>\n", escape(title));
    page += include_str!("report.css");
    page + "</style>\n</head>\n<body>\n"
}

/// The whole page.
pub fn render(reports: &[Report]) -> String {
    let mut page = head("trireme lab: published and simulated");
    page += &header(reports);
    page += "<main>\n";
    let mut paper = "";
    for report in reports {
        if report.paper != paper {
            paper = &report.paper;
            page += &format!("<h2 class=\"paper\">{}</h2>\n", escape(paper));
        }
        page += &section(report);
    }
    page += &outside(reports);
    page += "</main>\n<footer>Written by <code>trireme lab report</code>. ";
    page += "Every number is the output of a command of the same name as its section.</footer>\n";
    page += "</body>\n</html>\n";
    page
}

/// Text with the characters of HTML made harmless.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn header(reports: &[Report]) -> String {
    let cells = || reports.iter().flat_map(|report| &report.cells);
    let printed = cells().filter(|cell| cell.published.is_some()).count();
    let near = cells()
        .filter(|cell| cell.error.is_some_and(|e| e.abs() <= 0.10))
        .count();
    let outside = cells().filter(|cell| !cell.ok).count();
    let mut text = "<header><h1>trireme lab</h1>\n<p>Published results of parallel I/O research \
        beside what our simulated machines give. Each table shows the published value, ours, the \
        error, the tolerance class and whether a constant was fitted on that cell.</p>\n"
        .to_string();
    text += "<ul class=\"figures\">";
    for (number, label) in [
        (
            format!("{near} of {printed}"),
            "published values within 10 %",
        ),
        (reports.len().to_string(), "experiments"),
        (outside.to_string(), "cells outside their tolerance"),
    ] {
        text += &format!("<li><strong>{number}</strong> {label}</li>");
    }
    text += "</ul>\n<p class=\"legend\">Classes: X 0.5 %, T 3 %, M 10 %, L 30 % (some cells have \
        their own, documented tolerance), S shape only. \
        <span class=\"e0\">within 3 %</span> <span class=\"e1\">within 10 %</span> \
        <span class=\"e2\">within 30 %</span> <span class=\"e3\">beyond, or outside tolerance</span></p>\n";
    text += "<nav><ul>";
    for report in reports {
        let mark = if report.ok() { "" } else { " class=\"partly\"" };
        text += &format!(
            "<li><a href=\"#{0}\"{mark}>{0}</a></li>",
            escape(&report.experiment)
        );
    }
    text + "</ul></nav></header>\n"
}

fn section(report: &Report) -> String {
    let mut text = format!(
        "<section id=\"{0}\">\n<h3>{0}</h3>\n<p>{1}</p>\n",
        escape(&report.experiment),
        escape(&report.about)
    );
    if !report.changed.is_empty() {
        text += &format!(
            "<p class=\"changed\">Changed parameters: {}. Published values may not apply.</p>\n",
            escape(&report.changed.join(", "))
        );
    }
    if !report.claims.is_empty() {
        text += "<p>The paper says:</p>\n<ul class=\"claims\">";
        report
            .claims
            .iter()
            .for_each(|claim| text += &format!("<li>{}</li>", escape(claim)));
        text += "</ul>\n";
    }
    if !report.cells.is_empty() {
        text += &format!(
            "<p class=\"verdict\">Verdict: {}.</p>\n",
            escape(&report.verdict())
        );
    }
    report
        .charts
        .iter()
        .for_each(|chart| text += &svg::draw(chart));
    text += &cells(&report.cells);
    report.tables.iter().for_each(|table| text += &plain(table));
    if !report.notes.is_empty() {
        text += "<div class=\"notes\"><p>What to know:</p><ul>";
        report
            .notes
            .iter()
            .for_each(|note| text += &format!("<li>{}</li>", escape(note)));
        text += "</ul></div>\n";
    }
    text + "</section>\n"
}

/// Compared cells first and open; our own numbers folded away.
fn cells(cells: &[Cell]) -> String {
    let ours = |cell: &&Cell| cell.published.is_none() && cell.class == Class::S;
    let compared: Vec<&Cell> = cells.iter().filter(|cell| !ours(cell)).collect();
    let own: Vec<&Cell> = cells.iter().filter(ours).collect();
    let mut text = String::new();
    if !compared.is_empty() {
        let summary = format!("{} cells compared with the paper", compared.len());
        text += &fold(&summary, true, &cell_table(&compared));
    }
    if !own.is_empty() {
        let summary = format!(
            "{} claims and values without a printed counterpart",
            own.len()
        );
        text += &fold(&summary, own.len() <= 20, &cell_table(&own));
    }
    text
}

fn fold(summary: &str, open: bool, body: &str) -> String {
    let open = if open { " open" } else { "" };
    format!("<details{open}><summary>{summary}</summary>\n{body}</details>\n")
}

fn cell_table(cells: &[&Cell]) -> String {
    let mut text = "<div class=\"scroll\"><table><thead><tr><th>cell</th><th>published</th>\
        <th>simulated</th><th>error</th><th>class</th><th>fitted</th><th>ok</th></tr></thead><tbody>\n"
        .to_string();
    for cell in cells {
        let colour = match cell.error.map(f64::abs) {
            _ if !cell.ok => "e3",
            None => "",
            Some(e) if e <= 0.03 => "e0",
            Some(e) if e <= 0.10 => "e1",
            Some(e) if e <= 0.30 => "e2",
            Some(_) => "e3",
        };
        let or_dash = |x: Option<String>| x.unwrap_or_else(|| "–".into());
        text += &format!(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td class=\"{colour}\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(&cell.cell),
            or_dash(cell.published.map(figure)),
            figure(cell.simulated),
            or_dash(cell.error.map(|e| format!("{:+.1} %", e * 100.0))),
            cell.class.letter(),
            if cell.calibrated { "fitted" } else { "" },
            if cell.ok { "yes" } else { "no" },
        );
    }
    text + "</tbody></table></div>\n"
}

fn plain(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let mut text = "<tr>".to_string();
        for cell in cells {
            text += &format!("<{tag}>{}</{tag}>", escape(cell));
        }
        text + "</tr>\n"
    };
    let body: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    let grid = format!(
        "<div class=\"scroll\"><table><thead>{}</thead><tbody>\n{body}</tbody></table></div>\n",
        row(&table.columns, "th")
    );
    fold(&escape(&table.title), table.rows.len() <= 20, &grid)
}

/// What does not reproduce, in one place.
/// What notes say is not reproduced: claims that the papers make and our models do not show.
fn known_gaps(reports: &[Report]) -> String {
    let gaps: Vec<String> = reports
        .iter()
        .flat_map(|report| report.notes.iter().map(move |note| (report, note)))
        .filter(|(_, note)| note.starts_with("Not "))
        .map(|(report, note)| {
            let name = escape(&report.experiment);
            format!("<li><a href=\"#{name}\">{name}</a>: {}</li>", escape(note))
        })
        .collect();
    if gaps.is_empty() {
        return String::new();
    }
    format!(
        "<p>Claims and figures that we know we do not reproduce:</p>\n<ul>{}</ul>\n",
        gaps.concat()
    )
}

fn outside(reports: &[Report]) -> String {
    let failed: Vec<&Cell> = reports
        .iter()
        .flat_map(|report| &report.cells)
        .filter(|cell| !cell.ok)
        .collect();
    let mut text = "<h2>What does not reproduce</h2>\n".to_string();
    if failed.is_empty() {
        text += "<p>Every cell is within its tolerance.</p>\n";
    } else {
        text += "<p>Cells outside their tolerance; the sections above say why, where we know.</p>\n<ul>";
        for cell in &failed {
            text += &format!(
                "<li><a href=\"#{0}\">{0}</a>: {1}, simulated {2}{3}</li>",
                escape(&cell.experiment),
                escape(&cell.cell),
                figure(cell.simulated),
                cell.published
                    .map_or_else(String::new, |p| format!(", published {}", figure(p))),
            );
        }
        text += "</ul>\n";
    }
    text += &known_gaps(reports);
    let far = reports.iter().flat_map(|report| &report.cells);
    let far: Vec<&Cell> = far
        .filter(|cell| cell.ok && cell.error.is_some_and(|e| e.abs() > 0.10))
        .collect();
    if !far.is_empty() {
        text += "<p>Cells within a loose tolerance, but more than 10 % off:</p>\n";
        text += &cell_table(&far);
    }
    text
}
