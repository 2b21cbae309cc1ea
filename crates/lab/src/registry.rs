//! Every experiment that `trireme lab` knows: one line each.

use crate::error::Error;
use crate::experiment::Experiment;
use crate::papers;

/// All experiments, in the order in which `list` and `run all` show them.
pub static EXPERIMENTS: &[Experiment] = &[
    papers::ddio::patterns::TABLE_2,
    papers::ddio::tables::TABLE_3,
    papers::ddio::tables::TABLE_4,
    papers::ddio::sensitivity::CPS,
    papers::ddio::sensitivity::IOPS,
    papers::ddio::sensitivity::DISKS,
    papers::ddio::sensitivity::FILES,
    papers::ddio::sensitivity::RECORDS,
    papers::ddio::sensitivity::TRACKS,
    papers::ddio::two_phase::TWO_PHASE,
    papers::ionode::TABLE_2,
    papers::ionode::TABLE_3,
    papers::ionode::FIGURES,
    papers::ionode::TABLE_4,
    papers::ncube::tables::TABLES,
    papers::ncube::tables::SOLVERS,
    papers::ncube::figures::HYPERCUBE,
    papers::ncube::figures::PIO,
    papers::pios::figures::TABLE1,
    papers::pios::figures::IO_NODE,
    papers::pios::figures::IO_ONLY,
    papers::pios::figures::MIXED,
    papers::scheduling::law::LAW,
    papers::scheduling::law::WRITE,
    papers::scheduling::law::HEURISTICS,
    papers::scheduling::compare::COMPARE,
    papers::scheduling::compare::SCALE,
];

/// The experiment with this name.
pub fn find(name: &str) -> Result<&'static Experiment, Error> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
        .ok_or_else(|| Error::unknown("experiment", name, EXPERIMENTS.iter().map(|e| e.name)))
}
