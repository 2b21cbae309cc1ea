//! `trireme df`: space.

use crate::context::Context;
use crate::output;
use serde_json::json;

/// Show the space of the I/O servers
#[derive(clap::Args)]
pub struct Args {}

/// Shows.
pub fn run(context: &Context, _args: &Args) -> anyhow::Result<()> {
    let cluster = context.connect()?;
    let inodes = cluster.namespace().statfs()?.inodes;
    let servers = cluster.status()?;
    let (mut total, mut free) = (0, 0);
    let mut rows = Vec::new();
    let mut list = Vec::new();
    let mut away = 0;
    for server in &servers {
        match &server.space {
            Ok((all, left)) => {
                total += all;
                free += left;
                list.push(json!({ "id": server.id, "total": all, "free": left }));
                rows.push(row(&server.id.to_string(), *all, *left));
            }
            Err(error) => {
                away += 1;
                list.push(json!({ "id": server.id, "error": error.to_string() }));
                rows.push(vec![
                    server.id.to_string(),
                    "-".into(),
                    "-".into(),
                    "-".into(),
                    "-".into(),
                ]);
            }
        }
    }
    rows.push(row("all", total, free));
    if context.json {
        let all = json!({ "total": total, "free": free, "inodes": inodes, "servers": list });
        output::print_json(&all);
    } else {
        println!(
            "{}",
            output::table(&["SERVER", "SIZE", "USED", "FREE", "USE%"], &rows)
        );
        println!("{inodes} inodes");
        println!("servers that share a disk each count it; their files share its free space");
    }
    anyhow::ensure!(
        away == 0,
        "{away} of {} I/O servers do not answer",
        servers.len()
    );
    Ok(())
}

fn row(name: &str, total: u64, free: u64) -> Vec<String> {
    let used = total.saturating_sub(free);
    let percent = if total == 0 {
        0.0
    } else {
        100.0 * used as f64 / total as f64
    };
    vec![
        name.to_owned(),
        output::bytes(total),
        output::bytes(used),
        output::bytes(free),
        format!("{percent:.0} %"),
    ]
}
