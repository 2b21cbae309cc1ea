//! Every experiment that `trireme lab` knows: one line each.

use crate::error::Error;
use crate::experiment::Experiment;

/// All experiments, in the order in which `list` and `run all` show them.
pub static EXPERIMENTS: &[Experiment] = &[];

/// The experiment with this name.
pub fn find(name: &str) -> Result<&'static Experiment, Error> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
        .ok_or_else(|| Error::unknown("experiment", name, EXPERIMENTS.iter().map(|e| e.name)))
}
