//! `trireme bench growth`: throughput from one server to eight, each behind a link of its own.
//!
//! Every I/O server is in a network namespace whose link is shaped with tc tbf in both directions;
//! the clients are in another one without limits. Servers are then the bottleneck, and the question
//! is whether twice the servers give twice the throughput.

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use serde_json::json;
use std::path::{Path, PathBuf};
use trireme::LayoutWish;

use super::crew::{Crew, tell_ready_and_wait};
use super::emulated::{self, Net, Servers};

/// Growth of throughput with the number of servers, over links shaped to 120 MB/s (needs root)
#[derive(clap::Args)]
pub struct Args {
    /// Numbers of servers to compare with one server
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    servers: Vec<u32>,
    /// Client processes
    #[arg(long, default_value = "8")]
    clients: u64,
    /// Megabytes per second of each server's link
    #[arg(long, default_value = "120")]
    link: u32,
    /// Bytes per server and run
    #[arg(long, default_value = "120M", value_parser = output::parse_bytes)]
    size: u64,
    /// Bytes per call
    #[arg(long, default_value = "4M", value_parser = output::parse_bytes)]
    transfer: u64,
    /// Where the servers store
    #[arg(long, default_value = "/tmp")]
    dir: PathBuf,
    /// What a client process does
    #[arg(long, hide = true)]
    work: Option<String>,
    /// Its number
    #[arg(long, hide = true, default_value = "0")]
    number: u64,
}

/// Aggregate throughput must be at least this share of (servers x that of one server).
const TARGET: f64 = 0.9;

/// Measures.
pub fn run(context: &Context, args: &Args) -> anyhow::Result<()> {
    if let Some(work) = &args.work {
        return client(context, args, work);
    }
    emulated::check("growth")?;
    let own = tempfile::Builder::new()
        .prefix("trireme-growth-")
        .tempdir_in(&args.dir)?;
    let most = args.servers.iter().copied().max().unwrap_or(1);
    let mut net = Net::new()?;
    net.add_servers(most, args.link)?;
    net.add_clients(1, None)?;
    let servers = Servers::start(&net, own.path(), most)?;
    let cluster = &servers.descriptor;
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    let mut single = [0.0; 2];
    for &count in &args.servers {
        for (side, work) in ["write", "read"].into_iter().enumerate() {
            let rate = measure(args, &net, cluster, count, work)?;
            if count == 1 {
                single[side] = rate;
            }
            let growth = rate / single[side] / f64::from(count);
            let verdict = if growth >= TARGET { "pass" } else { "MISS" };
            cells.push(json!({
                "servers": count, "op": work, "mb_per_s": rate, "linear": growth,
                "of_links": rate / f64::from(count * args.link), "pass": growth >= TARGET,
            }));
            rows.push(vec![
                count.to_string(),
                work.to_owned(),
                format!("{rate:.0} MB/s"),
                format!("{:.0} %", 100.0 * rate / f64::from(count * args.link)),
                format!("{growth:.2}x"),
                format!("{TARGET:.2}x {verdict}"),
            ]);
        }
    }
    if context.json {
        output::print_json(
            &json!({ "link_mb_per_s": args.link, "clients": args.clients, "results": cells }),
        );
        return Ok(());
    }
    println!(
        "{} clients, {} MB/s per server's link, {} per server",
        args.clients,
        args.link,
        output::bytes(args.size)
    );
    let header = [
        "SERVERS",
        "WORK",
        "TRIREME",
        "OF THE LINKS",
        "OF LINEAR",
        "TARGET",
    ];
    println!("{}", output::table(&header, &rows));
    Ok(())
}

fn measure(args: &Args, net: &Net, cluster: &Path, count: u32, work: &str) -> anyhow::Result<f64> {
    let arguments: Vec<String> = [
        "--cluster".to_owned(),
        cluster.to_string_lossy().into_owned(),
        "bench".to_owned(),
        "growth".to_owned(),
        "--work".to_owned(),
        work.to_owned(),
        "--clients".to_owned(),
        args.clients.to_string(),
        "--servers".to_owned(),
        count.to_string(),
        "--size".to_owned(),
        args.size.to_string(),
        "--transfer".to_owned(),
        args.transfer.to_string(),
    ]
    .into();
    let mut crew = Crew::start_by(
        args.clients,
        |_| net.command(&emulated::client(0)),
        &arguments,
    )?;
    let time = crew.go()?;
    crew.finish()?;
    Ok((args.size * u64::from(count)) as f64 / 1e6 / time.as_secs_f64())
}

fn client(context: &Context, args: &Args, work: &str) -> anyhow::Result<()> {
    let count = *args.servers.first().context("--servers is needed")?;
    let cluster = context.connect()?;
    let mut options = *cluster.options();
    options.own = args.number as u32;
    let layout = LayoutWish {
        count: Some(count),
        first: Some(0),
        ..LayoutWish::default()
    };
    let file = trireme::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .layout(layout)
        .open(&cluster.with_options(options), format!("/growth-{count}"))?;
    anyhow::ensure!(
        file.layout().servers.len() == count as usize,
        "the layout was not granted"
    );
    let share = args.size * u64::from(count) / args.clients;
    let mut buffer = vec![1; args.transfer as usize];
    file.size()?;
    tell_ready_and_wait()?;
    for at in (0..share).step_by(args.transfer as usize) {
        let part = &mut buffer[..args.transfer.min(share - at) as usize];
        let at = share * args.number + at;
        if work == "write" {
            file.write_at(part, at)?;
        } else {
            file.read_exact_at(part, at)?;
        }
    }
    println!("done");
    Ok(())
}
