//! `trireme lab`: list, run and report the experiments of the simulation lab.

use anyhow::Context;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use trireme_lab::experiment::{Experiment, Report};
use trireme_lab::output;
use trireme_lab::parameter::Settings;
use trireme_lab::progress::{Progress, Snapshot};
use trireme_lab::registry;
use trireme_lab::user::Description;

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
    trireme lab run all --json cells.json\n  \
    trireme lab run examples/lab/flash.toml\n  \
    trireme lab report --html out/\n  \
    trireme lab trace --set method=tc pattern=rb --out trace.json")]
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
    /// Run everything and write one self-contained HTML page.
    Report(ReportArgs),
    /// Write a trace of one simulated run, to look at in ui.perfetto.dev or chrome://tracing.
    Trace(TraceArgs),
    /// Measure the engine beside SimPy and SimGrid, with the same models in one run.
    Bench(BenchArgs),
}

#[derive(clap::Args)]
struct ReportArgs {
    /// The folder for `index.html` (and `cells.json`); made if it is missing.
    #[arg(long, value_name = "FOLDER")]
    html: PathBuf,
    /// Only these experiments or files [default: all].
    experiments: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(clap::Args)]
struct TraceArgs {
    /// A file that describes the run; its sweep is left out.
    file: Option<PathBuf>,
    /// Set a key of the run, such as method=dds pattern=rcc record=8 file_mb=1.
    #[arg(long, value_name = "KEY=VALUE", num_args = 1..)]
    set: Vec<String>,
    /// The seed of layout, phases and jitter.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Keep at most this many records of each kind.
    #[arg(long, default_value_t = 200_000)]
    limit: usize,
    /// The file to write (`-` for standard output).
    #[arg(long, value_name = "FILE", default_value = "trace.json")]
    out: PathBuf,
}

#[derive(clap::Args)]
struct BenchArgs {
    /// Rounds of each measurement; the best counts.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Write the rates as JSON to this file (`-` for standard output).
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
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
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
        Command::Report(args) => report(args)?,
        Command::Trace(args) => trace(args)?,
        Command::Bench(args) => bench(args)?,
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

/// Something to run: an experiment of the registry, or a user's file.
enum Planned {
    Known(&'static Experiment, Settings),
    File(Box<Description>, Settings),
}

/// Checks every name, file and setting before the first long run starts.
fn plan(names: &[String], options: &Options) -> anyhow::Result<Vec<Planned>> {
    let mut planned = vec![];
    for name in names {
        if name == "all" {
            for experiment in registry::EXPERIMENTS {
                planned.push(Planned::Known(experiment, options.settings(experiment)?));
            }
        } else if name.to_ascii_lowercase().ends_with(".toml") {
            let mut description = Description::read(Path::new(name))?;
            for (key, value) in options.pairs()? {
                description.set(key, value)?;
            }
            let mut settings = Settings::new(&[]);
            options.common(&mut settings);
            planned.push(Planned::File(Box::new(description), settings));
        } else {
            let experiment = registry::find(name)?;
            planned.push(Planned::Known(experiment, options.settings(experiment)?));
        }
    }
    Ok(planned)
}

impl Planned {
    fn execute(&self) -> anyhow::Result<Report> {
        let name = match self {
            Planned::Known(experiment, _) => experiment.name,
            Planned::File(description, _) => &description.title,
        };
        let progress = progress_line(name);
        let report = match self {
            Planned::Known(experiment, settings) => experiment.execute(settings, &progress),
            Planned::File(description, settings) => description.run(settings, &progress),
        };
        clear_line();
        Ok(report?)
    }
}

fn run_experiments(args: &RunArgs) -> anyhow::Result<()> {
    // With data on standard output, the tables give way.
    let quiet = [&args.json, &args.csv]
        .iter()
        .any(|path| path.as_deref() == Some(Path::new("-")));
    let mut reports = vec![];
    for planned in plan(&args.experiments, &args.options)? {
        let report = planned.execute()?;
        if !quiet {
            println!("{}", output::text::render(&report));
        }
        reports.push(report);
    }
    if reports.len() > 1 && !quiet {
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

fn report(args: &ReportArgs) -> anyhow::Result<()> {
    let all = ["all".to_string()];
    let names = if args.experiments.is_empty() {
        &all[..]
    } else {
        &args.experiments
    };
    let planned = plan(names, &args.options)?;
    std::fs::create_dir_all(&args.html)
        .with_context(|| format!("cannot make the folder {}", args.html.display()))?;
    let mut reports = vec![];
    for planned in planned {
        let report = planned.execute()?;
        println!("{}: {}", report.experiment, report.verdict());
        reports.push(report);
    }
    let page = args.html.join("index.html");
    save(Some(&page), || output::html::render(&reports))?;
    save(Some(&args.html.join("cells.json")), || {
        output::json::render(&reports)
    })?;
    println!("wrote {}", page.display());
    Ok(())
}

fn trace(args: &TraceArgs) -> anyhow::Result<()> {
    let mut description = match &args.file {
        Some(file) => Description::read(file)?,
        None => Description::default(),
    };
    for (key, value) in pairs(&args.set)? {
        description.set(key, value)?;
    }
    let trace = description.trace(args.seed, args.limit)?;
    save(Some(&args.out), || trace.json)?;
    eprintln!("{}", trace.summary);
    Ok(())
}

fn bench(args: &BenchArgs) -> anyhow::Result<()> {
    let rates = trireme_lab::bench::run(args.rounds.max(1), |step| eprintln!("measuring {step}"));
    if args.json.as_deref() != Some(Path::new("-")) {
        println!("{}", output::text::grid(&trireme_lab::bench::table(&rates)));
    }
    save(args.json.as_ref(), || trireme_lab::bench::json(&rates))
}

/// The `name=value` pairs of `--set`, which may be repeated or list several.
fn pairs(set: &[String]) -> anyhow::Result<Vec<(&str, &str)>> {
    let texts = set
        .iter()
        .flat_map(|text| text.split([',', ' ']))
        .filter(|text| !text.is_empty());
    texts
        .map(|text| {
            text.split_once('=')
                .with_context(|| format!("`{text}`: write NAME=VALUE"))
        })
        .collect()
}

impl Options {
    fn pairs(&self) -> anyhow::Result<Vec<(&str, &str)>> {
        pairs(&self.set)
    }

    fn settings(&self, experiment: &Experiment) -> anyhow::Result<Settings> {
        let mut settings = Settings::new(experiment.parameters);
        for (name, value) in self.pairs()? {
            settings
                .set(name, value)
                .with_context(|| format!("experiment `{}`", experiment.name))?;
        }
        self.common(&mut settings);
        Ok(settings)
    }

    fn common(&self, settings: &mut Settings) {
        settings.seeds = self.seeds;
        settings.quick = self.quick;
        if let Some(jobs) = self.jobs {
            settings.jobs = jobs.max(1);
        }
    }
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
