//! Every documented example runs, and its comments are not all that it has.

use std::path::Path;
use trireme_lab::Progress;
use trireme_lab::parameter::Settings;
use trireme_lab::user::Description;

#[test]
fn every_example_runs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/lab");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            let description = Description::read(&path).unwrap();
            assert!(
                !description.about.is_empty(),
                "{} says what it asks",
                path.display()
            );
            let mut settings = Settings::new(&[]);
            settings.seeds = Some(1);
            let report = description.run(&settings, &Progress::silent()).unwrap();
            assert!(report.cells.len() >= 3, "{}", path.display());
            assert!(
                report.cells.iter().all(|cell| cell.simulated > 0.1),
                "{report:?}"
            );
            seen += 1;
        }
    }
    assert!(seen >= 4, "only {seen} examples");
}

#[test]
fn a_drive_file_stands_beside_its_experiment() {
    let folder = tempfile::tempdir().unwrap();
    let drive =
        include_str!("../../sim/drives/hp97560.toml").replace("rpm = 4002.0", "rpm = 8004.0");
    std::fs::write(folder.path().join("fast.toml"), drive).unwrap();
    let experiment = folder.path().join("experiment.toml");
    std::fs::write(
        &experiment,
        "[machine]\ndrive = \"fast.toml\"\n[access]\nmethod = \"dd\"\n",
    )
    .unwrap();
    let fast = Description::read(&experiment)
        .unwrap()
        .scenario()
        .run()
        .unwrap();
    assert!(fast.throughput() > 35.0, "{}", fast.throughput());

    std::fs::write(&experiment, "[machine]\ndrive = \"missing.toml\"\n").unwrap();
    let error = Description::read(&experiment).unwrap_err().to_string();
    assert!(error.contains("missing.toml"), "{error}");
}
