//! `trireme lab`: list, run and report the experiments of the simulation lab.

use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use trireme_lab::experiment::{Experiment, Report};
use trireme_lab::output;
use trireme_lab::parameter::Settings;
use trireme_lab::progress::{Progress, Snapshot};
use trireme_lab::registry;

/// Simulate machines and file systems; reproduce the papers' tables and figures.
///
/// An experiment is a named study. Its table shows each published value beside the simulated
/// one, the error, the tolerance class (X 0.5 %, T 3 %, M 10 %, L 30 %, S shape only), and
/// whether a constant of the model was fitted on that cell.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    trireme lab list\n  \
    trireme lab run ddio-table4\n  \
    trireme lab run ddio-table4 --set disks=32 --seeds 5 --jobs 2\n  \
    trireme lab run all --json cells.json")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show every experiment; with a name, its parameters and their ranges.
    List {
        /// The experiment to explain.
        name: Option<String>,
    },
    /// Run experiments by name, `all` of them, or your own FILE.toml.
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// Names of experiments, `all`, or a file that describes one.
    #[arg(required = true)]
    experiments: Vec<String>,
    #[command(flatten)]
    options: Options,
    /// Write all cells as one JSON object to this file (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write all cells as CSV to this file (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Options {
    /// Change a parameter of the experiment; may be repeated, or list several.
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    set: Vec<String>,
    /// Number of replications, each with its own seed [default: what the experiment says].
    #[arg(long)]
    seeds: Option<u32>,
    /// Threads [default: all cores].
    #[arg(long)]
    jobs: Option<usize>,
    /// A smaller version of the studies that have one.
    #[arg(long)]
    quick: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.command {
        Command::List { name: None } => list(),
        Command::List { name: Some(name) } => explain(registry::find(name)?),
        Command::Run(args) => run_experiments(args)?,
    }
    Ok(())
}

fn list() {
    let width = registry::EXPERIMENTS
        .iter()
        .map(|e| e.name.len())
        .max()
        .unwrap_or(0);
    for experiment in registry::EXPERIMENTS {
        println!("{:width$}  {}", experiment.name, experiment.about);
    }
    println!("\n`trireme lab list NAME` shows an experiment's parameters.");
}

fn explain(experiment: &Experiment) {
    println!(
        "{}: {}\n{}",
        experiment.name, experiment.about, experiment.paper
    );
    for parameter in experiment.parameters {
        println!(
            "  {:16} {} (default {}; {})",
            parameter.name,
            parameter.about,
            parameter.default(),
            parameter.allowed()
        );
    }
}

fn run_experiments(args: &RunArgs) -> anyhow::Result<()> {
    // Check every name and setting before the first long run starts.
    let mut planned = vec![];
    for name in &args.experiments {
        if name == "all" {
            for experiment in registry::EXPERIMENTS {
                planned.push((experiment, args.options.settings(experiment)?));
            }
        } else {
            let experiment = registry::find(name)?;
            planned.push((experiment, args.options.settings(experiment)?));
        }
    }
    let mut reports = vec![];
    for (experiment, settings) in planned {
        let report = execute(experiment, &settings)?;
        println!("{}", output::text::render(&report));
        reports.push(report);
    }
    if reports.len() > 1 {
        let total: usize = reports.iter().map(|report| report.cells.len()).sum();
        let ok = reports
            .iter()
            .flat_map(|report| &report.cells)
            .filter(|cell| cell.ok)
            .count();
        println!("all experiments: {ok} of {total} cells within tolerance");
    }
    save(args.json.as_ref(), || output::json::render(&reports))?;
    save(args.csv.as_ref(), || output::csv::render(&reports))?;
    Ok(())
}

impl Options {
    fn settings(&self, experiment: &Experiment) -> anyhow::Result<Settings> {
        let mut settings = Settings::new(experiment.parameters);
        let pairs = self.set.iter().flat_map(|text| text.split([',', ' ']));
        settings
            .set_all(pairs.filter(|pair| !pair.is_empty()))
            .with_context(|| format!("experiment `{}`", experiment.name))?;
        settings.seeds = self.seeds;
        settings.quick = self.quick;
        if let Some(jobs) = self.jobs {
            settings.jobs = jobs.max(1);
        }
        Ok(settings)
    }
}

fn execute(experiment: &Experiment, settings: &Settings) -> anyhow::Result<Report> {
    let progress = progress_line(experiment.name);
    let report = experiment.execute(settings, &progress);
    clear_line();
    Ok(report?)
}

/// Shows progress with the time left on standard error, if a person is looking.
fn progress_line(name: &str) -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress::silent();
    }
    let name = name.to_string();
    let shown = Mutex::new(Instant::now());
    Progress::new(move |snapshot: &Snapshot| {
        let Ok(mut shown) = shown.try_lock() else {
            return;
        };
        if shown.elapsed() < Duration::from_millis(100) {
            return;
        }
        *shown = Instant::now();
        let percent = 100.0 * snapshot.done as f64 / snapshot.total.max(1) as f64;
        let left = snapshot
            .left
            .map_or(String::new(), |left| format!(", {} left", Seconds(left)));
        eprint!("\r\x1b[K{name}: {percent:.0} %{left}");
        let _ = std::io::stderr().flush();
    })
}

fn clear_line() {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}

/// A duration shown in whole seconds or minutes.
struct Seconds(Duration);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0.as_secs() + 1;
        if seconds < 100 {
            write!(f, "{seconds} s")
        } else {
            write!(f, "{} min", seconds / 60)
        }
    }
}

fn save(path: Option<&PathBuf>, text: impl FnOnce() -> String) -> anyhow::Result<()> {
    match path {
        None => {}
        Some(path) if path.as_os_str() == "-" => println!("{}", text()),
        Some(path) => std::fs::write(path, text())
            .with_context(|| format!("cannot write {}", path.display()))?,
    }
    Ok(())
}
