//! `trireme bench cluster`: the scheduling paper's experiments on an emulated cluster.
//!
//! Every client and every server is a network namespace with a link shaped to 120 MB/s in each
//! direction. Three experiments: the synthetic benchmark of "On evaluating decentralized parallel I/O
//! scheduling strategies for parallel file systems" (its Figures 2 and 3), one I/O step of BTIO (its
//! Figures 4 and 5), and the patterns of the disk-directed I/O paper, which must fill the links.

mod links;
mod report;
mod schedules;

use crate::context::Context;
use crate::output;
use anyhow::Context as _;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use super::emulated::{self, Net, Servers};
use super::squad::Squad;

/// The scheduling paper's experiments over links shaped to 120 MB/s (needs root)
///
/// Tables beside the figures that the paper prints, and what must hold.
#[derive(clap::Args)]
pub struct Args {
    /// Experiments: figures (2 and 3, contiguous), btio (4 and 5), links (all patterns)
    #[arg(long, value_delimiter = ',', default_value = "figures,btio,links")]
    only: Vec<Experiment>,
    /// Clients and servers of the figures
    #[arg(long, default_value = "8")]
    nodes: u32,
    /// Clients and servers of BTIO, a square
    #[arg(long, default_value = "9")]
    btio_nodes: u32,
    /// Clients and servers of the patterns
    #[arg(long, default_value = "4")]
    links_nodes: u32,
    /// Megabytes per second of each link
    #[arg(long, default_value = "120")]
    link: u32,
    /// Bytes per client in the figures
    #[arg(long, default_value = "32M", value_parser = output::parse_bytes)]
    per_client: u64,
    /// Points along an edge of BTIO's cube: 162 is class C
    #[arg(long, default_value = "162")]
    btio_points: u64,
    /// Bytes of the patterns' file
    #[arg(long, default_value = "256M", value_parser = output::parse_bytes)]
    links_size: u64,
    /// Bytes per record of the patterns
    #[arg(long, value_delimiter = ',', default_value = "8,8192")]
    records: Vec<u64>,
    /// Patterns of the third experiment, or all
    #[arg(long, value_delimiter = ',', default_value = "all")]
    patterns: Vec<String>,
    /// Stripe unit
    #[arg(long, default_value = "64K", value_parser = output::parse_bytes)]
    unit: u64,
    /// Schedule blocks b; by default 4K, 8K, ... 4M (8M for BTIO)
    #[arg(long, value_delimiter = ',', value_parser = output::parse_bytes)]
    blocks: Vec<u64>,
    /// Blocks that a client has in flight at all; the paper's clients do one transfer at a time
    #[arg(long, default_value = "1")]
    in_flight: u32,
    /// Runs of each; means are printed, as in the paper
    #[arg(long, default_value = "5", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// One run each, every fourth schedule block
    #[arg(long)]
    quick: bool,
    /// Where the servers store; by default in memory, so that the links are what is measured
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Write the results as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Experiment {
    Figures,
    Btio,
    Links,
}

impl Args {
    fn wants(&self, experiment: Experiment) -> bool {
        self.only.contains(&experiment)
    }

    fn dir(&self) -> PathBuf {
        let memory = PathBuf::from("/dev/shm");
        match &self.dir {
            Some(dir) => dir.clone(),
            None if memory.is_dir() => memory,
            None => std::env::temp_dir(),
        }
    }

    fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }

    /// The schedule blocks from 4 KiB to `most`.
    fn blocks(&self, most: u64) -> Vec<u64> {
        if !self.blocks.is_empty() {
            return self.blocks.clone();
        }
        let all = (12..63).map(|power| 1 << power);
        let step = if self.quick { 4 } else { 1 };
        let mut blocks: Vec<u64> = all.take_while(|b| *b <= most).step_by(step).collect();
        if blocks.last() != Some(&most) {
            blocks.push(most);
        }
        blocks
    }
}

/// Measures.
pub fn run(_context: &Context, args: &Args) -> anyhow::Result<()> {
    emulated::check("cluster")?;
    let own = tempfile::Builder::new()
        .prefix("trireme-cluster-")
        .tempdir_in(args.dir())
        .with_context(|| format!("make a directory in {}", args.dir().display()))?;
    let nodes = [
        (Experiment::Figures, args.nodes),
        (Experiment::Btio, args.btio_nodes),
        (Experiment::Links, args.links_nodes),
    ];
    let wanted = nodes.into_iter().filter(|(what, _)| args.wants(*what));
    let most = wanted.map(|(_, count)| count).max().unwrap_or(1);
    tell(&format!("making {most} + {most} nodes ..."));
    let mut net = Net::new()?;
    net.add_servers(most, args.link)?;
    net.add_clients(most, Some(args.link))?;
    let private = own.path().join("private");
    std::fs::create_dir(&private)?;
    let lab = Lab {
        args,
        private,
        servers: Servers::start(&net, own.path(), most)?,
        net,
    };
    let mut results = report::Results::new(args);
    if args.wants(Experiment::Figures) {
        schedules::figures(&lab, &mut results)?;
    }
    if args.wants(Experiment::Btio) {
        schedules::btio(&lab, &mut results)?;
    }
    if args.wants(Experiment::Links) {
        links::run(&lab, &mut results)?;
    }
    tell("");
    report::summary(&results);
    let write = |path: &PathBuf, text: String| {
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))
    };
    if let Some(path) = &args.json {
        write(path, format!("{:#}\n", report::json(&results)))?;
    }
    if let Some(path) = &args.html {
        write(path, report::html(&results))?;
    }
    anyhow::ensure!(
        results.wrong == 0,
        "{} runs moved wrong bytes",
        results.wrong
    );
    Ok(())
}

/// The emulated cluster.
struct Lab<'a> {
    args: &'a Args,
    // Stopped before their nodes go.
    servers: Servers,
    net: Net,
    /// Where each client's host has a file system of its own.
    private: PathBuf,
}

impl Lab<'_> {
    /// Client processes, one per node.
    fn squad(&self, count: u32) -> anyhow::Result<Squad> {
        let descriptor = self.servers.descriptor.to_string_lossy().into_owned();
        Squad::of_workers(count, |number| {
            let node = emulated::client(number);
            let mut command = self.net.command_on_own_host(&node, &self.private);
            command.args(["--cluster", &descriptor]);
            command
        })
    }
}

/// Progress for whoever watches.
fn tell(text: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{text}");
        let _ = out.flush();
    }
}
