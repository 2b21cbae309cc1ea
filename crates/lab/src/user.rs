//! A user's own experiment: machine, disk, file system, pattern and sweep in one TOML file.
//!
//! ```toml
//! title = "Does presorting still pay on flash?"
//! [machine]
//! drive = "nvme"
//! [file]
//! layout = "random-blocks"
//! [sweep]
//! method = ["dd", "dds"]
//! disks = [16, 32]
//! ```

use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::experiment::Report;
use crate::machine;
use crate::output::perfetto;
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use crate::table::{Table, figure};
use std::path::Path;
use trireme_sim::disk::{DRIVES, Drive};
use trireme_sim::fs::{Layout, Method, Phase, Scenario};

const METHODS: &[&str] = &["tc", "dd", "dds", "two-phase", "two-phase-block"];
const LAYOUTS: &[&str] = &["contiguous", "random-blocks", "random-tracks"];

/// Sections and their keys. Names are unique, so that a sweep needs no section.
pub const KEYS: &[(&str, Parameter)] = &[
    (
        "machine",
        Parameter::integer("cps", 16, 1, 1024, "compute processors"),
    ),
    (
        "machine",
        Parameter::integer("iops", 16, 1, 1024, "I/O processors, each with one bus"),
    ),
    (
        "machine",
        Parameter::integer(
            "disks",
            16,
            1,
            4096,
            "disks, at least one per I/O processor",
        ),
    ),
    (
        "machine",
        Parameter::choice(
            "drive",
            "hp97560",
            machine::DRIVES,
            "kind of disk, or FILE.toml",
        ),
    ),
    (
        "machine",
        Parameter::number(
            "link_mb_s",
            200.0,
            0.1,
            1e6,
            "network link, 10^6 bytes per second",
        ),
    ),
    (
        "machine",
        Parameter::number("router_ns", 20.0, 0.0, 1e6, "latency of a router"),
    ),
    (
        "machine",
        Parameter::integer("header_bytes", 32, 0, 4096, "bytes that the network adds"),
    ),
    (
        "machine",
        Parameter::number("cpu_speed", 1.0, 0.01, 1e4, "processors relative to 50 MHz"),
    ),
    (
        "file",
        Parameter::integer("file_mb", 10, 1, 100_000, "size of the file in MB"),
    ),
    (
        "file",
        Parameter::integer("block_bytes", 8192, 512, 1 << 26, "file-system block"),
    ),
    (
        "file",
        Parameter::choice("layout", "contiguous", LAYOUTS, "blocks on their disks"),
    ),
    (
        "access",
        Parameter::choice("method", "tc", METHODS, "how the collective is carried out"),
    ),
    (
        "access",
        Parameter::choice(
            "pattern",
            "rb",
            PATTERNS,
            "access pattern, by its short name",
        ),
    ),
    (
        "access",
        Parameter::integer("record", 8192, 1, 1 << 26, "bytes of a record"),
    ),
    (
        "access",
        Parameter::integer(
            "cache_buffers",
            0,
            0,
            65536,
            "cache buffers per disk; 0: two per CP",
        ),
    ),
    (
        "access",
        Parameter::integer("buffers", 2, 1, 1024, "disk-directed buffers per disk"),
    ),
    (
        "run",
        Parameter::integer("seeds", 5, 1, 1000, "replications"),
    ),
    (
        "run",
        Parameter::number("jitter", 0.5, 0.0, 1.0, "variation of a request's cost"),
    ),
    (
        "run",
        Parameter::number(
            "start_spread_us",
            50.0,
            0.0,
            1e6,
            "processors begin within this",
        ),
    ),
    (
        "run",
        Parameter::choice(
            "phase",
            "common",
            &["common", "own"],
            "rotational phases of disks",
        ),
    ),
    (
        "run",
        Parameter::flag("settle", true, "whether tc waits for the media at the end"),
    ),
];

const PATTERNS: &[&str] = &[
    "ra", "rn", "rb", "rc", "rnb", "rbb", "rcb", "rbc", "rcc", "rcn", "wn", "wb", "wc", "wnb",
    "wbb", "wcb", "wbc", "wcc", "wcn", "rnn", "rnc", "rbn", "wnn", "wnc", "wbn",
];

/// More points than this are a mistake rather than an experiment.
const POINTS_MAX: usize = 10_000;

/// An experiment as its file describes it.
#[derive(Clone, Debug)]
pub struct Description {
    /// What the experiment is called.
    pub title: String,
    /// What it asks.
    pub about: String,
    base: Scenario,
    seeds: u32,
    auto_cache: bool,
    sweep: Vec<(&'static str, Vec<String>)>,
}

/// A recorded run.
pub struct Traced {
    /// The trace for Perfetto.
    pub json: String,
    /// One line about the run.
    pub summary: String,
}

impl Default for Description {
    fn default() -> Description {
        Description {
            title: "my experiment".into(),
            about: String::new(),
            base: Scenario::default(),
            seeds: 5,
            auto_cache: true,
            sweep: vec![],
        }
    }
}

impl Description {
    /// Reads a file; `drive = "FILE.toml"` is looked for beside it.
    pub fn read(path: &Path) -> Result<Description, Error> {
        let refuse = |reason: String| Error::File {
            file: path.display().to_string(),
            reason,
        };
        let text = std::fs::read_to_string(path).map_err(|error| refuse(error.to_string()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Description::parse(&text, folder).map_err(|error| refuse(error.to_string()))
    }

    /// Reads a description from its text.
    pub fn parse(text: &str, folder: &Path) -> Result<Description, Error> {
        let refuse = |reason: String| Error::File {
            file: "experiment".into(),
            reason,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| refuse(error.to_string()))?;
        let mut description = Description::default();
        for (name, value) in &table {
            match (name.as_str(), value) {
                ("title", toml::Value::String(text)) => description.title.clone_from(text),
                ("about", toml::Value::String(text)) => description.about.clone_from(text),
                ("drive", toml::Value::Table(keys)) => description.set_drive(keys)?,
                ("sweep", toml::Value::Table(keys)) => {
                    for (key, values) in keys {
                        description.add_sweep(key, values)?;
                    }
                }
                (section, toml::Value::Table(keys))
                    if KEYS.iter().any(|(known, _)| *known == section) =>
                {
                    for (key, value) in keys {
                        description.set_in(section, key, &plain(key, value)?, folder)?;
                    }
                }
                (other, _) => {
                    let known = [
                        "title", "about", "machine", "drive", "file", "access", "run", "sweep",
                    ];
                    return Err(Error::unknown("section or key", other, known));
                }
            }
        }
        for scenario in description.points()? {
            scenario
                .1
                .check()
                .map_err(|error| Error::Model(error.to_string()))?;
        }
        Ok(description)
    }

    /// Sets one key from its text, as on the command line.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), Error> {
        let (section, _) = key_named(key)?;
        self.set_in(section, key, text, Path::new("."))
    }

    /// The scenario without its sweep.
    pub fn scenario(&self) -> Scenario {
        self.with(&[])
            .expect("every key was checked when it was set")
    }

    /// Runs every point of the sweep.
    pub fn run(&self, settings: &Settings, progress: &Progress) -> Result<Report, Error> {
        let points = self.points()?;
        let scenarios: Vec<Scenario> = points.iter().map(|point| point.1.clone()).collect();
        let mut settings = settings.clone();
        settings.seeds = settings.seeds.or(Some(self.seeds));
        let tallies = machine::sweep(
            &scenarios,
            &settings,
            progress,
            trireme_sim::fs::Outcome::throughput,
        )?;
        let columns: Vec<&str> = self
            .sweep
            .iter()
            .map(|(key, _)| *key)
            .chain(["MB/s", "+-", "runs"])
            .collect();
        let mut table = Table::new(self.title.clone(), &columns);
        let mut cells = vec![];
        for ((values, _), tally) in points.iter().zip(&tallies) {
            let width = if tally.count() < 2 {
                "-".into()
            } else {
                figure(tally.half_width())
            };
            let end = [figure(tally.mean()), width, tally.count().to_string()];
            table.row(values.iter().cloned().chain(end));
            let pairs = self
                .sweep
                .iter()
                .zip(values)
                .map(|((key, _), value)| format!("{key}={value}"));
            let name = pairs.collect::<Vec<_>>().join(" ");
            let name = if name.is_empty() {
                "throughput".into()
            } else {
                name
            };
            cells.push(Cell::ours(format!("{name} MB/s"), tally.mean()));
        }
        let means: Vec<f64> = tallies
            .iter()
            .map(trireme_sim::statistics::Tally::mean)
            .collect();
        Ok(Report {
            experiment: self.title.clone(),
            about: self.about.clone(),
            paper: "our own experiment: nothing published to compare with".into(),
            charts: self.chart(&points, &means).into_iter().collect(),
            cells,
            tables: vec![table],
            ..Report::default()
        })
    }

    /// Runs the scenario once, without its sweep, and records what happens.
    pub fn trace(&self, seed: u64, limit: usize) -> Result<Traced, Error> {
        let scenario = Scenario {
            seed,
            ..self.scenario()
        };
        let outcome = scenario
            .run_traced(Some(limit))
            .map_err(|error| Error::Model(error.to_string()))?;
        let trace = outcome.trace.as_deref().cloned().unwrap_or_default();
        let summary = format!(
            "{:.2} MB/s in {}; {} spans of work, {} disk requests, {} messages, {} records dropped",
            outcome.throughput(),
            outcome.elapsed,
            trace.work.len(),
            trace.disks.len(),
            trace.messages.len(),
            trace.dropped
        );
        Ok(Traced {
            json: perfetto::render(&scenario, &trace),
            summary,
        })
    }

    fn set_in(&mut self, section: &str, key: &str, text: &str, folder: &Path) -> Result<(), Error> {
        let known = || {
            KEYS.iter()
                .filter(|(of, _)| *of == section)
                .map(|(_, p)| p.name)
        };
        if !known().any(|name| name == key) {
            return Err(Error::unknown("key", key, known()));
        }
        if key == "seeds" {
            key_named(key)?.1.check(text)?;
            self.seeds = text.parse().expect("checked above");
            return Ok(());
        }
        let is_file = Path::new(text)
            .extension()
            .is_some_and(|extension| extension == "toml");
        if key == "drive" && is_file {
            let path = folder.join(text);
            let refuse = |reason: String| Error::File {
                file: path.display().to_string(),
                reason,
            };
            let drive =
                std::fs::read_to_string(&path).map_err(|error| refuse(error.to_string()))?;
            self.base.machine.drive =
                Drive::parse(&drive).map_err(|error| refuse(error.to_string()))?;
            return Ok(());
        }
        if key == "cache_buffers" {
            self.auto_cache = text == "0";
        }
        apply(&mut self.base, key, text)
    }

    /// `[drive]`: a known drive as `base`, with some keys changed.
    fn set_drive(&mut self, keys: &toml::Table) -> Result<(), Error> {
        let base = keys
            .get("base")
            .and_then(toml::Value::as_str)
            .unwrap_or("hp97560");
        let Some((_, text)) = DRIVES.iter().find(|(name, _)| *name == base) else {
            return Err(Error::unknown(
                "drive",
                base,
                DRIVES.iter().map(|(name, _)| *name),
            ));
        };
        let mut drive: toml::Table = text.parse().expect("the lab's own drive files are valid");
        for (key, value) in keys.iter().filter(|(key, _)| *key != "base") {
            if !drive.contains_key(key) {
                return Err(Error::unknown(
                    "drive key",
                    key,
                    drive.keys().map(String::as_str),
                ));
            }
            drive.insert(key.clone(), value.clone());
        }
        let text = toml::to_string(&drive).map_err(|error| Error::Model(error.to_string()))?;
        self.base.machine.drive =
            Drive::parse(&text).map_err(|error| Error::Model(error.to_string()))?;
        Ok(())
    }

    fn add_sweep(&mut self, key: &str, values: &toml::Value) -> Result<(), Error> {
        let (_, parameter) = key_named(key)?;
        let toml::Value::Array(values) = values else {
            return Err(Error::value(
                key,
                values,
                "a sweep needs a list",
                "such as [1, 2, 4]",
            ));
        };
        let values: Vec<String> = values
            .iter()
            .map(|value| plain(key, value))
            .collect::<Result<_, _>>()?;
        if values.is_empty() {
            return Err(Error::value(
                key,
                "[]",
                "an empty list sweeps nothing",
                parameter.allowed(),
            ));
        }
        values.iter().try_for_each(|value| parameter.check(value))?;
        self.sweep.push((parameter.name, values));
        Ok(())
    }

    /// Every combination of the sweep's values, with its scenario.
    fn points(&self) -> Result<Vec<(Vec<String>, Scenario)>, Error> {
        let count: usize = self.sweep.iter().map(|(_, values)| values.len()).product();
        if count > POINTS_MAX {
            let allowed = format!("at most {POINTS_MAX} points");
            return Err(Error::value(
                "sweep",
                count,
                "too many combinations",
                allowed,
            ));
        }
        let mut points: Vec<Vec<String>> = vec![vec![]];
        for (_, values) in &self.sweep {
            let extend = |point: &Vec<String>| {
                values
                    .iter()
                    .map(|value| [point.clone(), vec![value.clone()]].concat())
                    .collect::<Vec<_>>()
            };
            points = points.iter().flat_map(extend).collect();
        }
        points
            .into_iter()
            .map(|values| Ok((values.clone(), self.with(&values)?)))
            .collect()
    }

    fn with(&self, values: &[String]) -> Result<Scenario, Error> {
        let mut scenario = self.base.clone();
        let mut auto_cache = self.auto_cache;
        for ((key, _), value) in self.sweep.iter().zip(values) {
            auto_cache &= *key != "cache_buffers" || value == "0";
            apply(&mut scenario, key, value)?;
        }
        if auto_cache {
            scenario.cache_buffers = 2 * scenario.machine.cps;
        }
        Ok(scenario)
    }

    /// Lines over the first numeric key, or bars.
    fn chart(&self, points: &[(Vec<String>, Scenario)], means: &[f64]) -> Option<Chart> {
        let numeric = |values: &Vec<String>| values.iter().all(|v| v.parse::<f64>().is_ok());
        let x = self.sweep.iter().position(|(_, values)| numeric(values));
        let name = |values: &[String], skip: Option<usize>| {
            let kept = values.iter().enumerate().filter(|(i, _)| Some(*i) != skip);
            let kept: Vec<&str> = kept.map(|(_, value)| value.as_str()).collect();
            if kept.is_empty() {
                "throughput".into()
            } else {
                kept.join(" ")
            }
        };
        let chart = if let Some(x) = x {
            let mut series: Vec<(String, Vec<(f64, f64)>)> = vec![];
            for ((values, _), mean) in points.iter().zip(means) {
                let name = name(values, Some(x));
                let point = (values[x].parse().ok()?, *mean);
                match series.iter_mut().find(|line| line.0 == name) {
                    Some(line) => line.1.push(point),
                    None => series.push((name, vec![point])),
                }
            }
            Chart::lines(&self.title, self.sweep[x].0, "MB/s", series).log_x()
        } else {
            let groups = points
                .iter()
                .map(|(values, _)| name(values, None))
                .collect();
            let values = means.iter().map(|mean| Some(*mean)).collect();
            Chart::bars(&self.title, "MB/s", groups, vec![("MB/s".into(), values)])
        };
        Some(chart.ours())
    }
}

fn key_named(key: &str) -> Result<&'static (&'static str, Parameter), Error> {
    KEYS.iter()
        .find(|(_, parameter)| parameter.name == key)
        .ok_or_else(|| Error::unknown("key", key, KEYS.iter().map(|(_, p)| p.name)))
}

/// A TOML value as the text that a parameter checks.
fn plain(key: &str, value: &toml::Value) -> Result<String, Error> {
    match value {
        toml::Value::String(text) => Ok(text.clone()),
        toml::Value::Integer(n) => Ok(n.to_string()),
        toml::Value::Float(x) => Ok(x.to_string()),
        toml::Value::Boolean(b) => Ok(b.to_string()),
        other => Err(Error::value(
            key,
            other,
            "not a single value",
            "a number, a word, true or false",
        )),
    }
}

fn apply(scenario: &mut Scenario, key: &str, text: &str) -> Result<(), Error> {
    key_named(key)?.1.check(text)?;
    let integer = || text.parse::<u64>().expect("checked above");
    let number = || text.parse::<f64>().expect("checked above");
    let machine = &mut scenario.machine;
    match key {
        "cps" => machine.cps = integer() as usize,
        "iops" => machine.iops = integer() as usize,
        "disks" => machine.disks = integer() as usize,
        "drive" => machine.drive = Drive::named(text).expect("one of the choices"),
        "link_mb_s" => machine.link_mb_s = number(),
        "router_ns" => machine.router_ns = number(),
        "header_bytes" => machine.header_bytes = integer(),
        "cpu_speed" => scenario.cpu_speed = number(),
        "file_mb" => scenario.file_bytes = integer() << 20,
        "block_bytes" => scenario.block_bytes = integer(),
        "layout" => scenario.layout = named(Layout::NAMED, text),
        "method" => scenario.method = named(Method::NAMED, text),
        "pattern" => scenario.pattern = text.into(),
        "record" => scenario.record = integer(),
        "cache_buffers" => scenario.cache_buffers = integer() as usize,
        "buffers" => scenario.buffers = integer() as usize,
        "jitter" => scenario.jitter = number(),
        "start_spread_us" => scenario.start_spread_us = number(),
        "phase" => {
            scenario.phase = if text == "own" {
                Phase::Own
            } else {
                Phase::Common
            }
        }
        "settle" => scenario.settle = text == "true",
        _ => unreachable!("every key of the table is handled; `{key}` is new"),
    }
    Ok(())
}

fn named<T: Copy>(table: &[(&str, T)], text: &str) -> T {
    table
        .iter()
        .find(|(name, _)| *name == text)
        .expect("one of the choices")
        .1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        Description::parse(text, Path::new("."))
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn wrong_parameters_are_refused_with_key_range_and_nearest_name() {
        let message = error("[machine]\ndsiks = 3");
        assert!(
            message.contains("`dsiks`") && message.contains("`disks`"),
            "{message}"
        );
        let message = error("[machine]\ncps = 0");
        assert!(
            message.contains("`cps = 0`") && message.contains("1 to 1024"),
            "{message}"
        );
        let message = error("[drive]\nheads = 0");
        assert!(
            message.contains("`heads = 0`") && message.contains("above 0"),
            "{message}"
        );
        let message = error("[drive]\nhaeds = 3");
        assert!(message.contains("did you mean `heads`"), "{message}");
        let message = error("[access]\npattern = \"rbbb\"");
        assert!(
            message.contains("pattern") && message.contains("did you mean `rbb`"),
            "{message}"
        );
        let message = error("[access]\nmethod = \"ddss\"");
        assert!(message.contains("did you mean `dds`"), "{message}");
        let message = error("[machin]\ncps = 3");
        assert!(message.contains("did you mean `machine`"), "{message}");
        let message = error("[sweep]\ndisks = 3");
        assert!(
            message.contains("disks") && message.contains("list"),
            "{message}"
        );
        let message = error("[machine]\niops = 4\ndisks = 2");
        assert!(message.contains("disks = 2"), "{message}");
        let message = error("[access]\nrecord = 3000");
        assert!(
            message.contains("record = 3000") && message.contains("divisor"),
            "{message}"
        );
        let message = error("this is not TOML");
        assert!(message.contains("experiment"), "{message}");
    }

    #[test]
    fn a_pattern_that_does_not_fit_the_grid_is_refused() {
        // 1 MB has 128 records of 8 KB, 16 x 8: a grid of 25 x 40 processors is too large.
        let message =
            error("[machine]\ncps = 1000\n[file]\nfile_mb = 1\n[access]\npattern = \"rcc\"");
        assert!(
            message.contains("pattern = rcc") && message.contains("fewer cps"),
            "{message}"
        );
        // A last BLOCK may be short.
        let uneven = "[machine]\ncps = 7\n[access]\npattern = \"rb\"";
        assert!(Description::parse(uneven, Path::new(".")).is_ok());
    }

    #[test]
    fn every_key_can_be_set_and_every_default_is_allowed() {
        let mut description = Description::default();
        for (_, parameter) in KEYS {
            description
                .set(parameter.name, &parameter.default())
                .unwrap();
        }
        assert_eq!(description.scenario(), Scenario::default());
    }

    #[test]
    fn a_sweep_runs_every_combination() {
        let text = "title = \"t\"\n[file]\nfile_mb = 1\n[run]\nseeds = 2\n\
                    [sweep]\nmethod = [\"dd\", \"tc\"]\ndisks = [16, 32]";
        let description = Description::parse(text, Path::new(".")).unwrap();
        let report = description
            .run(&Settings::new(&[]), &Progress::silent())
            .unwrap();
        assert_eq!(report.cells.len(), 4);
        assert!(report.cells.iter().all(|cell| cell.simulated > 1.0));
        assert_eq!(report.cells[3].cell, "disks=32 method=tc MB/s");
        assert_eq!(report.charts.len(), 1);
    }
}
