//! An experiment: a named, documented, parameterised study, and the report that it gives.

use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::parameter::{Parameter, Settings};
use crate::progress::Progress;
use crate::table::Table;
use serde::Serialize;

/// A study that anybody can repeat by name. One line in the registry makes it known.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// The name on the command line, such as `ddio-table4`.
    pub name: &'static str,
    /// One sentence on what it shows.
    pub about: &'static str,
    /// The paper's title and the table or figure.
    pub paper: &'static str,
    /// What may be set with `--set`.
    pub parameters: &'static [Parameter],
    /// Runs the study.
    pub run: fn(&Settings, &Progress) -> Result<Report, Error>,
}

impl Experiment {
    /// Runs the study and stamps its name on report and cells.
    pub fn execute(&self, settings: &Settings, progress: &Progress) -> Result<Report, Error> {
        let mut report = (self.run)(settings, progress)?;
        report.experiment = self.name.into();
        report.about = self.about.into();
        report.paper = self.paper.into();
        for cell in &mut report.cells {
            cell.experiment = self.name.into();
        }
        Ok(report)
    }
}

/// What an experiment found.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// The experiment's name (filled in by [`Experiment::execute`]).
    pub experiment: String,
    /// What it shows (filled in likewise).
    pub about: String,
    /// The paper's title and item (filled in likewise).
    pub paper: String,
    /// What the paper claimed, in our words.
    pub claims: Vec<String>,
    /// Published numbers beside simulated ones.
    pub cells: Vec<Cell>,
    /// Further tables.
    pub tables: Vec<Table>,
    /// Figures.
    pub charts: Vec<Chart>,
    /// What to know when reading the numbers: what was fitted, what does not reproduce and why.
    pub notes: Vec<String>,
    /// Parameters that were changed from their defaults: comparisons may then be meaningless.
    pub changed: Vec<String>,
}

impl Report {
    /// One sentence: how many cells are within tolerance, and which are not.
    pub fn verdict(&self) -> String {
        let judged = self.cells.len();
        let failed: Vec<&str> = self
            .cells
            .iter()
            .filter(|cell| !cell.ok)
            .map(|cell| cell.cell.as_str())
            .collect();
        let against = self
            .cells
            .iter()
            .filter_map(|cell| cell.error.map(f64::abs))
            .collect::<Vec<_>>();
        let mut text = format!(
            "{} of {judged} cells within tolerance",
            judged - failed.len()
        );
        if !against.is_empty() {
            let ten = against.iter().filter(|error| **error <= 0.10).count();
            let worst = against.iter().copied().fold(0.0, f64::max);
            text += &format!(
                "; {ten} of {} published values within 10 %, worst {:.1} %",
                against.len(),
                worst * 100.0
            );
        }
        if !failed.is_empty() {
            text += &format!("; outside: {}", failed.join(", "));
        }
        text
    }

    /// Whether every cell is within its tolerance.
    pub fn ok(&self) -> bool {
        self.cells.iter().all(|cell| cell.ok)
    }
}
