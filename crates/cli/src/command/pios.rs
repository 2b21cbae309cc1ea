//! `trireme pios`: drive the multistage-network simulation with a user's own trace and topology.

use anyhow::Context;
use std::path::{Path, PathBuf};
use trireme_lab::papers::pios::io_node::Equipment;
use trireme_lab::papers::pios::load::CYCLE_NS;
use trireme_lab::papers::pios::network::{IoNodes, Machine, Measured, simulate};
use trireme_lab::papers::pios::topology::Topology;
use trireme_lab::papers::pios::traffic::{Mix, Placement, Stochastic, Trace};
use trireme_lab::papers::pios::{Tally, Time};

/// Simulate I/O and messages on a multistage network of 4x4 switches, from a trace or at random.
///
/// The machine is that of "Performance Evaluation of a Parallel I/O Architecture": 512-byte packets,
/// cut-through switches with central queue and bypass, static routes, I/O nodes with six disks.
/// `trireme lab run pios-io-only pios-mixed` draws the paper's figures; this command runs your own
/// trace (lines `microseconds from to read|write|message bytes`) or your own topology.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    trireme pios --nodes 32 --io-nodes 8 --flops-per-byte 14.32 --load 0.1\n  \
    trireme pios --nodes 16 --write-trace t.txt --write-topology t.toml\n  \
    trireme pios --topology t.toml --trace t.txt --json")]
pub struct Args {
    /// Nodes, with the built-in topology: 16, 32, 64 or 128.
    #[arg(long, default_value_t = 32)]
    nodes: u32,
    /// Another topology: `nodes`, `switches`, `links = [\"n0 s0\", \"s0 s1\", ...]`.
    #[arg(long, value_name = "FILE.toml")]
    topology: Option<PathBuf>,
    /// Traffic from a file instead of at random.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// I/O nodes of random traffic; half the nodes compute.
    #[arg(long, default_value_t = 8)]
    io_nodes: u32,
    /// Floating-point operations per byte of I/O of random traffic.
    #[arg(long, default_value_t = 14.32)]
    flops_per_byte: f64,
    /// Load of messages between compute nodes, bytes per 13.3 ns cycle.
    #[arg(long, default_value_t = 0.0)]
    load: f64,
    /// Bytes of one random I/O request.
    #[arg(long, default_value_t = 32768)]
    io_bytes: u64,
    /// Simulated seconds of random traffic.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Speed of a node's adapter, MB/s.
    #[arg(long, default_value_t = 150.0)]
    adapter: f64,
    /// Mean time of a read at an I/O node, ms; without it the I/O node is simulated too.
    #[arg(long, value_name = "MS")]
    two_step: Option<f64>,
    /// Seed of everything random.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the random traffic as a trace instead of simulating it.
    #[arg(long, value_name = "FILE")]
    write_trace: Option<PathBuf>,
    /// Write the topology as a file that --topology reads.
    #[arg(long, value_name = "FILE")]
    write_topology: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let topology = match &args.topology {
        Some(path) => Topology::from_toml(&path.display().to_string(), &read(path)?)?,
        None => Topology::paper(args.nodes)?,
    };
    let nodes = topology.nodes();
    if let Some(path) = &args.write_topology {
        write(path, &topology.to_toml())?;
    }
    let positive = |name: &str, value: f64| {
        let fine = value.is_finite() && value > 0.0;
        anyhow::ensure!(fine, "--{name} {value}: write a number above 0");
        Ok(())
    };
    positive("flops-per-byte", args.flops_per_byte)?;
    positive("seconds", args.seconds)?;
    positive("adapter", args.adapter)?;
    anyhow::ensure!(
        (0.0..=2.0).contains(&args.load),
        "--load {}: write 0 to 2",
        args.load
    );
    anyhow::ensure!(
        (1..=1 << 24).contains(&args.io_bytes),
        "--io-bytes {}: write 1 to {}",
        args.io_bytes,
        1 << 24
    );
    let mix = Mix {
        flops_per_byte: args.flops_per_byte,
        io_bytes: args.io_bytes,
        reads: 0.67,
        message_load: args.load,
        load_cycle_ns: CYCLE_NS,
    };
    let random = || -> anyhow::Result<Stochastic> {
        let placement = Placement::even(nodes, args.io_nodes)?;
        Ok(Stochastic::new(
            placement,
            mix,
            Time::from_seconds(args.seconds),
            args.seed,
        ))
    };
    if let Some(path) = &args.write_trace {
        write(path, &Trace::write(random()?))?;
    }
    if args.write_trace.is_some() || args.write_topology.is_some() {
        return Ok(());
    }
    let io_nodes = match args.two_step {
        Some(read_ms) => IoNodes::TwoStep { read_ms },
        None => IoNodes::Integrated(Equipment::default()),
    };
    let machine = Machine {
        topology,
        adapter_mb_s: args.adapter,
        io_nodes,
    };
    let measured = match &args.trace {
        Some(path) => {
            let mut trace = Trace::parse(&path.display().to_string(), &read(path)?, nodes)?;
            simulate(&machine, &mut trace, Time::ZERO, args.seed)
        }
        None => simulate(&machine, &mut random()?, Time::ZERO, args.seed),
    };
    print(args, &measured);
    Ok(())
}

fn print(args: &Args, measured: &Measured) {
    let rows: [(&str, &str, &Tally); 5] = [
        ("read request", "us", &measured.request),
        ("read response", "us", &measured.response),
        ("whole read", "ms", &measured.read_ms),
        ("write", "us", &measured.write),
        ("message", "us", &measured.message),
    ];
    if args.json {
        let mut object = serde_json::Map::new();
        for (name, unit, tally) in rows {
            object.insert(
                format!("{}_{unit}", name.replace(' ', "_")),
                serde_json::json!({ "mean": tally.mean(), "count": tally.count() }),
            );
        }
        object.insert("bypassed".into(), measured.bypassed.into());
        object.insert("queued".into(), measured.queued.into());
        println!("{}", serde_json::Value::Object(object));
        return;
    }
    for (name, unit, tally) in rows {
        if tally.count() > 0 {
            println!(
                "{name:14} {:10.2} {unit}  ({} of them)",
                tally.mean(),
                tally.count()
            );
        }
    }
    let passed = (measured.bypassed + measured.queued).max(1);
    println!(
        "{:.1} % of packet hops took the bypass, {} events",
        100.0 * measured.bypassed as f64 / passed as f64,
        measured.events
    );
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
