//! `trireme status`: who runs, who answers.

use crate::context::Context;
use crate::output;
use serde_json::json;

/// Show which servers answer, and how full they are
///
/// Exits with an error when one does not answer.
#[derive(clap::Args)]
pub struct Args {}

/// Asks everybody.
pub fn run(context: &Context, _args: &Args) -> anyhow::Result<()> {
    let cluster = context.connect()?;
    let counts = cluster.namespace().statfs()?;
    let map = cluster.map();
    let servers = cluster.status()?;
    let down = servers
        .iter()
        .filter(|server| server.space.is_err())
        .count();
    if context.json {
        let servers: Vec<_> = servers
            .iter()
            .map(|server| match &server.space {
                Ok((total, free)) => json!({
                    "id": server.id, "addresses": server.addresses, "up": true,
                    "total": total, "free": free,
                }),
                Err(error) => json!({
                    "id": server.id, "addresses": server.addresses, "up": false,
                    "error": error.to_string(),
                }),
            })
            .collect();
        output::print_json(&json!({
            "cluster": format!("{:016x}", map.cluster),
            "epoch": map.epoch,
            "manager": {
                "uptime": counts.uptime, "inodes": counts.inodes, "sessions": counts.sessions,
                "opens": counts.opens, "pending": counts.pending,
            },
            "servers": servers,
        }));
    } else {
        println!(
            "cluster {:016x}, map epoch {}; manager up {} s: {} inodes, {} open files, {} removals to do",
            map.cluster, map.epoch, counts.uptime, counts.inodes, counts.opens, counts.pending
        );
        let rows: Vec<_> = servers
            .iter()
            .map(|server| {
                let (state, free, total) = match &server.space {
                    Ok((total, free)) => {
                        ("up".to_owned(), output::bytes(*free), output::bytes(*total))
                    }
                    Err(error) => (format!("DOWN: {error}"), "-".into(), "-".into()),
                };
                vec![
                    server.id.to_string(),
                    free,
                    total,
                    server.addresses.join(" "),
                    state,
                ]
            })
            .collect();
        println!(
            "{}",
            output::table(&["SERVER", "FREE", "OF", "ADDRESSES", "STATE"], &rows)
        );
    }
    anyhow::ensure!(
        down == 0,
        "{down} of {} I/O servers do not answer",
        servers.len()
    );
    Ok(())
}
