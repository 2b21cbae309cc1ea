//! `trireme queueing`: solve a closed queueing network that the user wrote down.

use anyhow::Context;
use std::path::PathBuf;
use trireme_lab::output::text::grid;
use trireme_lab::queueing::approximate::{self, Method};
use trireme_lab::queueing::bounds::bounds;
use trireme_lab::queueing::event::{Service, Span, simulate};
use trireme_lab::queueing::{Network, Solution, exact};
use trireme_lab::table::Table;

/// Solve a closed queueing network: centres, classes of jobs, demands in milliseconds.
///
/// Prints the mean values by exact mean value analysis (or by Schweitzer's approximation where there
/// are too many classes and jobs), the bounds that need no solution, and, with --simulate, an event
/// simulation with exponential and with deterministic service.
#[derive(clap::Args)]
#[command(after_help = "Example (in the repository):\n  \
    trireme queueing examples/queueing/two-disks.toml --simulate 1000000\n\n\
    The file lists [[centre]] with `name` (and `kind = \"delay\"` where nobody waits) and [[class]] \
    with `name`, `population` and `demands = { centre = milliseconds, ... }`.")]
pub struct Args {
    /// The network.
    #[arg(value_name = "NETWORK.toml")]
    network: PathBuf,
    /// Also simulate for this long, in simulated milliseconds.
    #[arg(long, value_name = "MS", value_parser = length)]
    simulate: Option<f64>,
    /// Print everything as one JSON object.
    #[arg(long)]
    json: bool,
}

fn length(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(ms) if (1.0..=1e9).contains(&ms) => Ok(ms),
        _ => Err("write a length of 1 to 1e9 simulated milliseconds".into()),
    }
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let file = args.network.display().to_string();
    let text =
        std::fs::read_to_string(&args.network).with_context(|| format!("cannot read {file}"))?;
    let network = Network::from_toml(&file, &text)?;
    let (method, solution) = match exact::solve(&network) {
        Ok(solution) => ("exact", solution),
        Err(error) => {
            eprintln!("{error}");
            (
                "Schweitzer",
                approximate::solve(&network, Method::Schweitzer)?,
            )
        }
    };
    let bounds = bounds(&network);
    let simulated = args.simulate.map(|ms| {
        [Service::Exponential, Service::Deterministic]
            .map(|service| simulate(&network, service, Span::of_ms(ms), 1))
    });
    let simulated = match simulated {
        None => None,
        Some([exponential, deterministic]) => Some([exponential?, deterministic?]),
    };
    if args.json {
        let rates = simulated.as_ref().map(|runs| {
            runs.iter()
                .map(|run| {
                    serde_json::json!({
                        "per_ms": run.total.mean(), "half_width": run.total.half_width(),
                        "response_ms": run.response,
                    })
                })
                .collect::<Vec<_>>()
        });
        let all = serde_json::json!({
            "method": method, "solution": solution, "bounds": bounds,
            "simulated": rates,
        });
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    println!("{method} mean value analysis; times in ms, rates per ms\n");
    print!("{}", grid(&classes(&network, &solution, &bounds)));
    println!();
    print!("{}", grid(&centres(&network, &solution)));
    println!(
        "\nbottleneck: {}",
        network.centres[solution.bottleneck(&network)].name
    );
    println!(
        "no mix of classes can exceed {:.5} per ms in total",
        bounds.total_max
    );
    if let Some([exponential, deterministic]) = &simulated {
        println!(
            "simulated: exponential {:.5} +- {:.5} per ms, deterministic {:.5}",
            exponential.total.mean(),
            exponential.total.half_width(),
            deterministic.total.mean()
        );
    }
    let unequal = network.unequal_centres();
    if !unequal.is_empty() {
        println!(
            "note: classes demand different times at {}: the analysis is exact for processor \
             sharing there, the simulation is first come, first served",
            unequal.join(", ")
        );
    }
    Ok(())
}

fn classes(
    network: &Network,
    solution: &Solution,
    bounds: &trireme_lab::queueing::bounds::Bounds,
) -> Table {
    let mut table = Table::new(
        "",
        &[
            "class",
            "jobs",
            "throughput",
            "response",
            "asymptotic bounds",
            "balanced-job bounds",
        ],
    );
    for (at, class) in network.classes.iter().enumerate() {
        let range = |(low, high): (f64, f64)| format!("{low:.5} to {high:.5}");
        table.row([
            class.name.clone(),
            class.population.to_string(),
            format!("{:.5}", solution.throughput[at]),
            format!("{:.3}", solution.response(at)),
            range(bounds.classes[at].asymptotic),
            bounds.classes[at]
                .balanced
                .map_or_else(|| "one class only".into(), range),
        ]);
    }
    table
}

fn centres(network: &Network, solution: &Solution) -> Table {
    let mut columns = vec!["centre", "jobs there", "busy %"];
    columns.extend(network.classes.iter().map(|class| class.name.as_str()));
    let mut table = Table::new("", &columns);
    for (at, centre) in network.centres.iter().enumerate() {
        let mut row = vec![
            centre.name.clone(),
            format!("{:.3}", solution.queue[at]),
            if network.is_queueing(at) {
                format!("{:.1}", 100.0 * solution.utilisation(network, at))
            } else {
                "-".into()
            },
        ];
        row.extend((0..network.classes.len()).map(|c| format!("{:.3}", solution.residence[c][at])));
        table.row(row);
    }
    table
}
