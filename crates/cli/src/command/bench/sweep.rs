//! `trireme bench stream --sweep`: the choices in how a transfer is carried out, one beside the other.
//!
//! One thing is changed at a time from the defaults, so that each table shows what that choice is
//! worth. Every round measures all choices and the local peer once, in turn.

use crate::context::Context;
use crate::output;
use serde_json::json;
use std::time::Duration;

use super::stream::{Args, Field, Way, median};

/// What is transferred, and its peer on local files.
const WORKS: [(&str, &str); 3] = [
    ("write", "local-write"),
    ("write-copied", "local-write"),
    ("read", "local-read"),
];

/// A choice and its name.
struct Choice {
    group: &'static str,
    name: String,
    way: Way,
}

fn choices() -> Vec<Choice> {
    let mut all = vec![Choice {
        group: "default",
        name: "-".into(),
        way: Way::default(),
    }];
    // The others matter where the servers move the bytes, as they do for other hosts.
    let mut add = |group, name: String, way| {
        let way = Way {
            no_lend: true,
            ..way
        };
        all.push(Choice { group, name, way });
    };
    add("no lending", "-".into(), Way::default());
    let no_window = Way {
        no_window: true,
        ..Way::default()
    };
    add("no lending", "no shared memory".into(), no_window);
    for schedule in [
        trireme::Schedule::First,
        trireme::Schedule::Random,
        trireme::Schedule::Hash,
    ] {
        // In small blocks, where the order matters more often.
        for block in [256 << 10, 1 << 20] {
            let name = format!("{schedule}, b {}", output::bytes(block));
            let way = Way {
                schedule: Some(schedule),
                block: Some(block),
                ..Way::default()
            };
            add("schedule", name, way);
        }
    }
    for block in [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20] {
        let way = Way {
            block: Some(block),
            ..Way::default()
        };
        add("schedule block", output::bytes(block), way);
    }
    for in_flight in [1, 2, 4, 8] {
        let way = Way {
            in_flight: Some(in_flight),
            block: Some(256 << 10),
            ..Way::default()
        };
        add("in flight", format!("{in_flight}, b 256 KiB"), way);
    }
    for unit in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
        let way = Way {
            unit: Some(unit),
            ..Way::default()
        };
        add("stripe unit", output::bytes(unit), way);
    }
    all
}

/// Measures all choices.
pub fn run(context: &Context, args: &Args, field: &Field) -> anyhow::Result<()> {
    let choices = choices();
    let mut times = vec![vec![Vec::new(); WORKS.len()]; choices.len()];
    let mut peers = vec![Vec::new(); WORKS.len()];
    let progress = indicatif::ProgressBar::new((args.rounds as u64 + 1) * choices.len() as u64);
    for round in 0..=args.rounds {
        let note = |into: &mut Vec<Duration>, time| {
            if round > 0 {
                into.push(time);
            }
        };
        for (number, choice) in choices.iter().enumerate() {
            for (which, (work, peer)) in WORKS.iter().enumerate() {
                if number % 8 == 0 {
                    note(&mut peers[which], field.measure(args, peer, &choice.way)?);
                }
                note(
                    &mut times[number][which],
                    field.measure(args, work, &choice.way)?,
                );
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let rate = |times: &[Duration]| args.size as f64 / 1e6 / median(times).as_secs_f64();
    let peers: Vec<f64> = peers.iter().map(|times| rate(times)).collect();
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    for (choice, times) in choices.iter().zip(&times) {
        let mut row = vec![choice.group.to_owned(), choice.name.clone()];
        for (which, (work, peer)) in WORKS.iter().enumerate() {
            let ours = rate(&times[which]);
            let ratio = ours / peers[which];
            row.push(format!("{ours:.0}"));
            row.push(format!("{ratio:.2}x"));
            cells.push(json!({
                "choice": choice.group, "value": choice.name, "work": work, "mb_per_s": ours,
                "peer": peer, "peer_mb_per_s": peers[which], "ratio": ratio,
            }));
        }
        rows.push(row);
    }
    if context.json {
        output::print_json(&json!({
            "clients": args.clients, "servers": args.servers, "size": args.size,
            "transfer": args.transfer, "rounds": args.rounds, "results": cells,
        }));
        return Ok(());
    }
    println!(
        "{} clients, {} servers, {} in calls of {}, medians of {} rounds; ratios to local files: write {:.0}, read {:.0} MB/s",
        args.clients,
        args.servers,
        output::bytes(args.size),
        output::bytes(args.transfer),
        args.rounds,
        peers[0],
        peers[2],
    );
    let header = [
        "CHOICE",
        "VALUE",
        "WRITE MB/s",
        "",
        "WRITE-COPIED MB/s",
        "",
        "READ MB/s",
        "",
    ];
    println!("{}", output::table(&header, &rows));
    Ok(())
}
