//! `trireme where`: draws which byte ranges of a file live on which server.

use crate::context::Context;
use crate::name::on_cluster;
use crate::output;
use serde_json::json;
use std::ffi::OsString;
use trireme::{Layout, Partition};

/// Columns of the drawing.
const WIDTH: u64 = 64;
/// Ranges of a server that are named before it says "and so on".
const RANGES: usize = 3;
/// Ranges per server in JSON.
const JSON_RANGES: usize = 10_000;

/// Draw which byte ranges of a file live on which server
#[derive(clap::Args)]
pub struct Args {
    /// The file
    name: OsString,
}

/// Draws.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    let path = on_cluster(&args.name)?;
    let cluster = context.connect()?;
    let entry = cluster.stat(&path)?;
    let Some(layout) = &entry.layout else {
        anyhow::bail!(
            "{}: is a {}, only files have bytes on servers",
            path.display(),
            output::kind(entry.attr.kind)
        );
    };
    if context.json {
        output::print_json(&as_json(&path.to_string_lossy(), layout, entry.attr.size)?);
    } else {
        print!(
            "{}",
            draw(&path.to_string_lossy(), layout, entry.attr.size)?
        );
    }
    Ok(())
}

fn as_json(path: &str, layout: &Layout, size: u64) -> anyhow::Result<serde_json::Value> {
    let partition = Partition::striped(layout.unit, layout.servers.len() as u32, layout.first)?;
    let mut servers = Vec::new();
    for (index, server) in layout.servers.iter().enumerate() {
        let part = partition.part(index as u32)?;
        let ranges: Vec<_> = part
            .runs(0..size)
            .take(JSON_RANGES)
            .map(|run| json!({ "from": run.file, "to": run.file + run.len, "at": run.view }))
            .collect();
        servers.push(json!({
            "server": server,
            "bytes": part.bytes_in(0..size),
            "ranges_complete": ranges.len() < JSON_RANGES,
            "ranges": ranges,
        }));
    }
    Ok(json!({
        "path": path, "size": size, "unit": layout.unit, "first": layout.first, "servers": servers,
    }))
}

/// The drawing: one column per stripe unit, one line per server.
pub fn draw(path: &str, layout: &Layout, size: u64) -> anyhow::Result<String> {
    use std::fmt::Write;
    let partition = Partition::striped(layout.unit, layout.servers.len() as u32, layout.first)?;
    let mut text = String::new();
    writeln!(
        text,
        "{path}: {} in units of {} over {} servers",
        output::bytes(size),
        output::bytes(layout.unit),
        layout.servers.len()
    )?;
    // One column is one unit; a striped layout repeats, so the beginning shows it all.
    let step = layout.unit;
    let columns = WIDTH.min(size.div_ceil(step));
    for (index, server) in layout.servers.iter().enumerate() {
        let part = partition.part(index as u32)?;
        let mut bar = String::new();
        for column in 0..columns {
            let range = column * step..size.min((column + 1) * step);
            let own = part.bytes_in(range);
            bar.push(if own == 0 { '·' } else { '█' });
        }
        let mut runs = part.runs(0..size);
        let named: Vec<String> = runs
            .by_ref()
            .take(RANGES)
            .map(|run| format!("{}..{}", run.file, run.file + run.len))
            .collect();
        let more = if runs.next().is_some() { " ..." } else { "" };
        writeln!(
            text,
            "server {server:>3} {bar} {:>9}  {}{more}",
            output::bytes(part.bytes_in(0..size)),
            named.join(" ")
        )?;
    }
    if size > columns * step {
        let shown = output::bytes(columns * step);
        writeln!(
            text,
            "           one column is one unit; drawn are the first {shown}, it goes on like that"
        )?;
    } else if columns > 0 {
        writeln!(text, "           one column is one unit")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_shows_every_unit_on_its_server() {
        let layout = Layout {
            unit: 4,
            servers: vec![5, 7],
            first: 1,
        };
        let text = draw("/f", &layout, 18).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("server   5 "), "{text}");
        assert!(lines[1].ends_with("4..8 12..16"), "{text}");
        assert!(lines[2].ends_with("0..4 8..12 16..18"), "{text}");
        assert!(
            lines[1].contains(" ·█·█· ") && lines[2].contains(" █·█·█ "),
            "{text}"
        );
        // A file of more units than the drawing is wide: a column is still one unit.
        let text = draw("/f", &layout, 4 * 10 * WIDTH).unwrap();
        assert!(text.contains("·█·█·█·█"), "{text}");
    }

    #[test]
    fn an_empty_file_is_drawn_too() {
        let layout = Layout {
            unit: 4,
            servers: vec![0],
            first: 0,
        };
        assert!(draw("/f", &layout, 0).unwrap().contains("0 B"));
    }
}
