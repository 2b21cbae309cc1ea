//! `trireme advise`: what to set for a workload on a machine, and why.

use anyhow::Context;
use std::path::{Path, PathBuf};
use trireme_lab::advise::{MachineDescription, WorkloadDescription, advise};

/// Recommend stripe unit, servers, buffers, schedule and method for a workload on a machine.
///
/// Reads two small files: what the machine has (links, latencies, processors, disks) and what the
/// application does (processes, bytes, size of its contiguous pieces). Predicts throughput by queueing
/// analysis and event simulation, names the bottleneck, and shows what one step of each knob would
/// change. Figures are those of the machine's file: nothing is measured.
#[derive(clap::Args)]
#[command(after_help = "Examples (in the repository):\n  \
    trireme advise examples/advise/cluster-machine.toml examples/advise/cluster-workload.toml\n  \
    trireme advise examples/advise/nvme-machine.toml examples/advise/nvme-workload.toml --json\n\n\
    docs/models.md explains the files' keys and the model.")]
pub struct Args {
    /// The machine's figures.
    #[arg(value_name = "MACHINE.toml")]
    machine: PathBuf,
    /// What the application does.
    #[arg(value_name = "WORKLOAD.toml")]
    workload: PathBuf,
    /// Print the advice as one JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let machine =
        MachineDescription::from_toml(&args.machine.display().to_string(), &read(&args.machine)?)?;
    let workload = WorkloadDescription::from_toml(
        &args.workload.display().to_string(),
        &read(&args.workload)?,
    )?;
    let advice = advise(&machine, &workload)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&advice)?);
    } else {
        print!("{}", advice.render());
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
