//! The sentences of the sensitivity studies, on a small number of seeds.

use trireme_lab::parameter::Settings;
use trireme_lab::{Progress, registry};

#[track_caller]
fn claims_hold(name: &str) {
    let experiment = registry::find(name).unwrap();
    let mut settings = Settings::new(experiment.parameters);
    settings.quick = true;
    settings.seeds = Some(1);
    let report = experiment.execute(&settings, &Progress::silent()).unwrap();
    assert!(report.ok(), "{name}: {}", report.verdict());
    assert!(!report.charts.is_empty());
}

#[test]
fn number_of_compute_processors() {
    claims_hold("ddio-fig6");
}

#[test]
fn number_of_io_processors() {
    claims_hold("ddio-fig7");
}

#[test]
fn number_of_disks_on_one_bus() {
    claims_hold("ddio-fig8-9");
}

#[test]
fn size_of_the_file() {
    claims_hold("ddio-fig10-11");
}

#[test]
fn size_of_the_record() {
    claims_hold("ddio-fig12");
}

#[test]
fn random_tracks() {
    claims_hold("ddio-tracks");
}
