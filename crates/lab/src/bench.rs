//! The engine's benchmark: events per second of processor time, beside SimPy and SimGrid with the
//! same models in the same run. Peers that are not installed are named, never guessed.

use crate::table::Table;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use trireme_sim::fs::{Method, Scenario};
use trireme_sim::queueing::{Service, ring, single_server};

/// One measured rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    /// The model.
    pub model: &'static str,
    /// The simulator.
    pub engine: &'static str,
    /// Events per second of processor time, or why there is none.
    pub events_per_second: Result<f64, String>,
}

/// Customers or services of our own runs; peers get fewer, because they are slower.
const OURS: u64 = 4_000_000;
const SIMGRID: u64 = 400_000;
const SIMPY: u64 = 60_000;

/// Measures everything, `rounds` times each, and keeps the best round.
pub fn run(rounds: u32, mut tell: impl FnMut(&str)) -> Vec<Rate> {
    let mut rates = vec![];
    let simgrid = simgrid_program();
    for model in ["mm1", "ring"] {
        tell(&format!("{model}: trireme"));
        let ours = best(rounds, || match model {
            "mm1" => Ok(timed(|| {
                single_server(0.8, Service::Exponential, OURS, 1).events
            })),
            _ => Ok(timed(|| ring(8, 64, 2 * OURS, 1).events)),
        });
        rates.push(Rate {
            model,
            engine: "trireme",
            events_per_second: ours,
        });
        tell(&format!("{model}: SimGrid"));
        let peer = match &simgrid {
            Ok(program) => best(rounds, || {
                peer(Command::new(program.path()).arg(model), SIMGRID)
            }),
            Err(reason) => Err(reason.clone()),
        };
        rates.push(Rate {
            model,
            engine: "SimGrid",
            events_per_second: peer,
        });
        tell(&format!("{model}: SimPy"));
        let peer = best(rounds, || simpy(model));
        rates.push(Rate {
            model,
            engine: "SimPy",
            events_per_second: peer,
        });
    }
    for (model, method, pattern) in [
        ("disk-directed rc 8 B", Method::Directed, "rc"),
        ("traditional wbc 8 B", Method::Traditional, "wbc"),
    ] {
        tell(model);
        let scenario = Scenario {
            method,
            pattern: pattern.into(),
            record: 8,
            ..Scenario::default()
        };
        let run = || scenario.run().map_or(0, |outcome| outcome.events);
        let ours = best(rounds, || Ok(timed(run)));
        rates.push(Rate {
            model,
            engine: "trireme",
            events_per_second: ours,
        });
    }
    rates
}

/// The rates as a table with ratios and the bars.
pub fn table(rates: &[Rate]) -> Table {
    let mut table = Table::new(
        "events per second of processor time",
        &[
            "model",
            "engine",
            "M events/s",
            "trireme is faster by",
            "bar",
        ],
    );
    for rate in rates {
        let ours = rates
            .iter()
            .find(|other| other.model == rate.model && other.engine == "trireme");
        let ours = ours
            .and_then(|rate| rate.events_per_second.clone().ok())
            .unwrap_or(0.0);
        let (shown, ratio) = match &rate.events_per_second {
            Ok(events) => (format!("{:.2}", events / 1e6), ours / events),
            Err(reason) => (reason.clone(), f64::NAN),
        };
        let verdict = |ok: bool, bar: &str| format!("{bar}: {}", if ok { "met" } else { "MISSED" });
        let (ratio_text, bar) = match rate.engine {
            "trireme" => (String::new(), verdict(ours >= 10e6, ">= 10 M")),
            _ if ratio.is_nan() => ("-".into(), "not measured".into()),
            "SimGrid" => (format!("{ratio:.0} x"), verdict(ratio >= 5.0, ">= 5 x")),
            _ => (format!("{ratio:.0} x"), verdict(ratio >= 50.0, ">= 50 x")),
        };
        table.row([
            rate.model.to_string(),
            rate.engine.to_string(),
            shown,
            ratio_text,
            bar,
        ]);
    }
    table
}

/// The rates as JSON.
pub fn json(rates: &[Rate]) -> String {
    let rates: Vec<_> = rates
        .iter()
        .map(|rate| {
            let (events, reason) = match &rate.events_per_second {
                Ok(events) => (Some(*events), None),
                Err(reason) => (None, Some(reason)),
            };
            serde_json::json!({
                "model": rate.model, "engine": rate.engine,
                "events_per_second": events, "not_measured": reason,
            })
        })
        .collect();
    serde_json::json!({ "rates": rates }).to_string()
}

fn best(rounds: u32, mut run: impl FnMut() -> Result<f64, String>) -> Result<f64, String> {
    let mut best = run()?;
    for _ in 1..rounds {
        best = best.max(run()?);
    }
    Ok(best)
}

fn timed(run: impl FnOnce() -> u64) -> f64 {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    let events = run();
    // Processor time where the system tells it, so that neighbours on the machine do not count.
    let seconds = match (cpu, cpu_seconds()) {
        (Some(before), Some(after)) if after > before => after - before,
        _ => start.elapsed().as_secs_f64(),
    };
    events as f64 / seconds
}

/// Processor time of this thread, from the scheduler's own account (nanoseconds).
fn cpu_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// Runs a peer program, which prints events and processor seconds.
fn peer(command: &mut Command, size: u64) -> Result<f64, String> {
    let output = command
        .arg(size.to_string())
        .output()
        .map_err(|error| format!("not installed ({error})"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().map(str::parse::<f64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(events)), Some(Ok(seconds))) if seconds > 0.0 => Ok(events / seconds),
        _ => {
            let errors = String::from_utf8_lossy(&output.stderr);
            let last = errors.lines().last().unwrap_or("no output").to_string();
            Err(format!("not installed ({last})"))
        }
    }
}

fn simpy(model: &str) -> Result<f64, String> {
    peer(
        Command::new("python3").args(["-c", include_str!("../peers/simpy_models.py"), model]),
        SIMPY,
    )
}

/// A compiled peer in a folder of its own, which goes when it is dropped.
struct Program {
    folder: std::path::PathBuf,
}

impl Program {
    fn path(&self) -> std::path::PathBuf {
        self.folder.join("simgrid_models")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Compiles the SimGrid peer.
fn simgrid_program() -> Result<Program, String> {
    let folder = std::env::temp_dir().join(format!("trireme-bench-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let program = Program { folder };
    let source = program.folder.join("simgrid_models.cpp");
    std::fs::write(&source, include_str!("../peers/simgrid_models.cpp"))
        .map_err(|error| error.to_string())?;
    if !Path::new("/usr/include/simgrid/s4u.hpp").exists()
        && !Path::new("/usr/local/include/simgrid/s4u.hpp").exists()
    {
        return Err("not installed (apt-get install libsimgrid-dev g++)".into());
    }
    let output = Command::new("c++")
        .args(["-O2", "-o"])
        .arg(program.path())
        .arg(&source)
        .arg("-lsimgrid")
        .output()
        .map_err(|error| format!("not installed (no C++ compiler: {error})"))?;
    if output.status.success() {
        Ok(program)
    } else {
        let errors = String::from_utf8_lossy(&output.stderr);
        Err(format!(
            "does not compile ({})",
            errors.lines().next().unwrap_or("no message")
        ))
    }
}
