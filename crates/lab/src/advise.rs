//! Advice: which stripe unit, how many servers, how many buffers, which schedule and method a
//! workload wants on a machine, what to expect, and what each knob would change.
//!
//! [`description`] reads the two files, [`model`] predicts one configuration; this file searches,
//! recommends the smallest configuration that is nearly the best, and says how sure it is.

pub mod description;
pub mod model;

use serde::Serialize;
use trireme_policy::schedule::Schedule;

pub use description::{MachineDescription, WorkloadDescription};
use model::{Configuration, Method, Model, Prediction};

use crate::error::Error;
use crate::table::{Table, figure};

/// Stripe units that are tried.
const UNITS: [u64; 11] = [
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
];
/// Numbers of buffers that are tried.
const BUFFERS: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// A smaller configuration is preferred while it costs less than this.
const GOOD_ENOUGH: f64 = 0.98;

/// The recommendation and all that supports it.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// The machine's name.
    pub machine: String,
    /// The workload's name.
    pub workload: String,
    /// What to set.
    pub configuration: Configuration,
    /// In which order to visit servers; disk-directed transfers need none.
    pub schedule: String,
    /// Expected throughput of one step, MB/s (10^6): the analysis, which assumes scattered service
    /// times.
    pub mb_s: f64,
    /// The same from the event simulation, with true routes and service times that do not scatter.
    pub mb_s_deterministic: f64,
    /// The resource that limits it.
    pub bottleneck: String,
    /// Busy share of each kind of resource.
    pub utilisation: Vec<(String, f64)>,
    /// Memory for buffers on each server, MB.
    pub buffers_mb: f64,
    /// What one step of each knob would do.
    pub knobs: Vec<Knob>,
    /// Throughput of the three schedules over that of `hash`, simulated with C blocks in flight per
    /// sender in all.
    pub schedules: Vec<(String, f64)>,
    /// How sure this is, and why.
    pub confidence: String,
    /// Which models were used.
    pub models: Vec<String>,
}

/// One step of one knob.
#[derive(Clone, Debug, Serialize)]
pub struct Knob {
    /// Which.
    pub knob: String,
    /// Its value after the step.
    pub value: String,
    /// Throughput then, MB/s; none if it does not fit into the servers' memory.
    pub mb_s: Option<f64>,
    /// Change against the recommendation, as a fraction.
    pub change: Option<f64>,
    /// What would limit it then.
    pub bottleneck: String,
}

/// Recommends a configuration.
pub fn advise(
    machine: &MachineDescription,
    workload: &WorkloadDescription,
) -> Result<Advice, Error> {
    let model = Model { machine, workload };
    let (configuration, prediction) = search(&model).ok_or_else(|| {
        Error::value(
            "buffers_mb",
            machine.buffers_mb,
            "not even one block per client fits into a server's memory",
            "more",
        )
    })?;
    let simulated = model.simulate(configuration)?;
    let schedules = model.schedules(configuration);
    // `hash` unless another is really better: it is the one that cannot go wrong at large blocks.
    let hash = schedules[2].1;
    let best = schedules
        .iter()
        .copied()
        .max_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or(schedules[2]);
    let schedule = if best.1 > 1.02 * hash {
        best.0
    } else {
        Schedule::Hash
    };
    Ok(Advice {
        machine: machine.name.clone(),
        workload: workload.name.clone(),
        configuration,
        schedule: schedule.to_string(),
        mb_s: prediction.mb_s,
        mb_s_deterministic: simulated,
        bottleneck: prediction.bottleneck.clone(),
        utilisation: prediction.utilisation.clone(),
        buffers_mb: prediction.buffers_mb,
        knobs: knobs(&model, configuration, prediction.mb_s),
        schedules: schedules
            .iter()
            .map(|(s, rate)| (s.to_string(), rate / hash))
            .collect(),
        confidence: confidence(&model, configuration, prediction.mb_s, simulated),
        models: vec![
            "exact mean value analysis of a closed network (search, prediction, knobs)".into(),
            "event simulation with true routes and service times that do not scatter (the range)"
                .into(),
            "event simulation of the transfer policy on FIFO servers (schedules)".into(),
        ],
    })
}

fn methods(workload: &WorkloadDescription) -> &'static [Method] {
    if workload.collective {
        &[Method::Independent, Method::TwoPhase, Method::DiskDirected]
    } else {
        &[Method::Independent]
    }
}

fn server_steps(most: u32) -> Vec<u32> {
    let mut steps: Vec<u32> = (0..32).map(|k| 1 << k).take_while(|&n| n < most).collect();
    steps.push(most);
    steps
}

fn search(model: &Model<'_>) -> Option<(Configuration, Prediction)> {
    let mut all = Vec::new();
    for &method in methods(model.workload) {
        for servers in server_steps(model.machine.servers_max) {
            for unit in UNITS {
                for buffers in BUFFERS {
                    let configuration = Configuration {
                        unit,
                        servers,
                        buffers,
                        method,
                    };
                    if fits(model, configuration) {
                        all.push((configuration, model.predict(configuration)));
                    }
                }
            }
        }
    }
    let best = all
        .iter()
        .map(|(_, prediction)| prediction.mb_s)
        .fold(0.0, f64::max);
    all.into_iter()
        .filter(|(_, prediction)| prediction.mb_s >= GOOD_ENOUGH * best)
        .min_by(|(a, pa), (b, pb)| {
            // Fewest servers, then least memory, then the smaller unit, then what is simplest.
            (a.servers, pa.buffers_mb, a.unit, a.method)
                .partial_cmp(&(b.servers, pb.buffers_mb, b.unit, b.method))
                .expect("memory is a number")
        })
}

fn fits(model: &Model<'_>, configuration: Configuration) -> bool {
    model.buffers_mb(configuration) <= model.machine.buffers_mb
}

fn knobs(model: &Model<'_>, at: Configuration, mb_s: f64) -> Vec<Knob> {
    let mut steps: Vec<(&str, String, Configuration)> = Vec::new();
    for unit in [at.unit / 2, at.unit * 2] {
        steps.push((
            "stripe unit",
            format!("{} KiB", unit >> 10),
            Configuration { unit, ..at },
        ));
    }
    for servers in [at.servers.saturating_sub(1), at.servers + 1] {
        if servers > 0 {
            steps.push((
                "servers",
                servers.to_string(),
                Configuration { servers, ..at },
            ));
        }
    }
    for buffers in [at.buffers / 2, at.buffers * 2] {
        if buffers > 0 {
            steps.push((
                "buffers C",
                buffers.to_string(),
                Configuration { buffers, ..at },
            ));
        }
    }
    for &method in methods(model.workload) {
        if method != at.method {
            // C means something else to each method: the other one gets the C that suits it.
            let with = |buffers| Configuration {
                buffers,
                method,
                ..at
            };
            let best = BUFFERS
                .into_iter()
                .map(with)
                .filter(|&other| fits(model, other))
                .max_by(|&a, &b| model.predict(a).mb_s.total_cmp(&model.predict(b).mb_s))
                .unwrap_or_else(|| with(1));
            let value = format!("{}, C = {}", method.name(), best.buffers);
            steps.push(("method", value, best));
        }
    }
    steps
        .into_iter()
        .map(|(knob, value, configuration)| {
            let prediction = model.predict(configuration);
            let fits = fits(model, configuration);
            let over = configuration.servers > model.machine.servers_max;
            let bottleneck = match (fits, over) {
                (false, _) => "does not fit into the servers' buffers".into(),
                (true, true) => format!("{} (more servers than there are)", prediction.bottleneck),
                (true, false) => prediction.bottleneck,
            };
            Knob {
                knob: knob.into(),
                value,
                mb_s: fits.then_some(prediction.mb_s),
                change: fits.then_some(prediction.mb_s / mb_s - 1.0),
                bottleneck,
            }
        })
        .collect()
}

fn confidence(model: &Model<'_>, at: Configuration, analysis: f64, simulated: f64) -> String {
    let gap = (simulated / analysis - 1.0).abs();
    let (grade, meaning) = match gap {
        gap if gap < 0.05 => (
            "good",
            "the limit is a saturated resource, whatever its variation",
        ),
        gap if gap < 0.20 => ("fair", "how much service times scatter matters"),
        _ => ("rough", "queues are short, and their variation decides"),
    };
    let mut text = format!(
        "{grade}: analysis and simulation differ by {:.0} % ({meaning}); nothing was measured on the \
         machine, so figures are as good as its file",
        100.0 * gap
    );
    let pieces = at.unit / model.workload.piece_bytes.max(1);
    if pieces > 100 && at.method == Method::Independent {
        text += "; small independent pieces depend on caches that the model does not have";
    }
    if at.method == Method::DiskDirected {
        text += "; one block in ten is assumed to need a seek";
    }
    text
}

impl Advice {
    /// The advice as text for a terminal.
    pub fn render(&self) -> String {
        let c = self.configuration;
        let schedule = if c.method == Method::DiskDirected {
            "none needed (servers direct the transfer)".to_string()
        } else {
            self.schedule.clone()
        };
        let mut text = format!(
            "{} on {}\n\n  stripe unit  {} KiB\n  servers      {}\n  buffers C    {} ({} MB per \
             server)\n  schedule     {schedule}\n  method       {}\n\n",
            self.workload,
            self.machine,
            c.unit >> 10,
            c.servers,
            c.buffers,
            figure(self.buffers_mb),
            c.method.name(),
        );
        let low = self.mb_s.min(self.mb_s_deterministic);
        let high = self.mb_s.max(self.mb_s_deterministic);
        text += &format!(
            "expected: {} to {} MB/s; bottleneck: {}\n",
            figure(low),
            figure(high),
            self.bottleneck
        );
        let busy: Vec<String> = self
            .utilisation
            .iter()
            .map(|(name, busy)| format!("{name} {:.0} %", busy * 100.0))
            .collect();
        text += &format!("busy: {}\n\n", busy.join(", "));
        let mut table = Table::new(
            "",
            &["one step of", "to", "MB/s", "change", "then limited by"],
        );
        for knob in &self.knobs {
            table.row([
                knob.knob.clone(),
                knob.value.clone(),
                knob.mb_s.map_or_else(|| "-".into(), figure),
                knob.change
                    .map_or_else(|| "-".into(), |c| format!("{:+.1} %", c * 100.0)),
                knob.bottleneck.clone(),
            ]);
        }
        text += &crate::output::text::grid(&table);
        if c.method != Method::DiskDirected {
            let rates: Vec<String> = self
                .schedules
                .iter()
                .map(|(name, share)| format!("{name} {share:.2}"))
                .collect();
            text += &format!(
                "\nschedules over hash, with C blocks in flight per sender in all: {}\n",
                rates.join(", ")
            );
        }
        text += &format!(
            "\nhow sure: {}\nmodels: {}\n",
            self.confidence,
            self.models.join("; ")
        );
        text
    }
}

#[cfg(test)]
mod tests;
