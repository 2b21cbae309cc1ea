//! The registry covers all five papers, and the report names what does not reproduce.

use trireme_lab::parameter::Settings;
use trireme_lab::{Progress, output, registry};

const TITLES: [&str; 5] = [
    "Disk-directed I/O for MIMD Multiprocessors",
    "Exploring the use of I/O Nodes for Computation",
    "User-Level Parallel File I/O",
    "Performance Evaluation of a Parallel I/O Architecture",
    "On evaluating decentralized parallel I/O scheduling strategies",
];

#[test]
fn every_paper_has_experiments() {
    for title in TITLES {
        let lower = title.to_lowercase();
        let count = registry::EXPERIMENTS
            .iter()
            .filter(|experiment| experiment.paper.to_lowercase().contains(&lower))
            .count();
        assert!(count >= 4, "{title}: {count} experiments");
    }
}

/// The quick experiments of the last three papers on one page, with what they do not reproduce.
#[test]
fn the_report_lists_known_gaps() {
    let reports: Vec<_> = [
        "ncube-tables",
        "ncube-hypercube",
        "ncube-pio",
        "pios-table1",
        "pios-io-node",
        "sched-write",
    ]
    .into_iter()
    .map(|name| {
        let experiment = registry::find(name).unwrap();
        let mut settings = Settings::new(experiment.parameters);
        settings.quick = true;
        experiment.execute(&settings, &Progress::silent()).unwrap()
    })
    .collect();
    for report in &reports {
        assert!(report.ok(), "{}: {}", report.experiment, report.verdict());
    }
    let page = output::html::render(&reports);
    let gaps = page.split("What does not reproduce").nth(1).unwrap();
    for gap in [
        "speed-ups are relative to the vendor",
        "begin to saturate",
        "optimum at b = 64 KB",
    ] {
        assert!(gaps.contains(gap), "{gap} is not named");
    }
    assert_eq!(page.matches("class=\"paper\"").count(), 3);
}
