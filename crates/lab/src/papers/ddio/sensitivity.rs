//! The sensitivity studies, Figures 6 to 12, and the random-tracks layout.
//!
//! The paper plots these without printing values, so the curves are ours and only the sentences
//! about them can be checked.

use super::PAPER;
use crate::cell::Cell;
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use crate::machine;
use crate::parameter::Settings;
use crate::progress::Progress;
use crate::study::{Measured, Study};
use trireme_sim::fs::{Layout, Method, Scenario};

/// Figure 6.
pub const CPS: Experiment = Experiment {
    name: "ddio-fig6",
    about: "number of compute processors, 16 I/O processors and disks, contiguous layout",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: cps,
};

/// Figure 7.
pub const IOPS: Experiment = Experiment {
    name: "ddio-fig7",
    about: "number of I/O processors and buses for 16 disks, contiguous layout",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: iops,
};

/// Figures 8 and 9.
pub const DISKS: Experiment = Experiment {
    name: "ddio-fig8-9",
    about: "number of disks on one I/O processor, contiguous and random-blocks layouts",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: disks,
};

/// Figures 10 and 11.
pub const FILES: Experiment = Experiment {
    name: "ddio-fig10-11",
    about: "file sizes of 10, 100 and 1000 MB, contiguous and random-blocks layouts",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: files,
};

/// Figure 12.
pub const RECORDS: Experiment = Experiment {
    name: "ddio-fig12",
    about: "record sizes from 8 to 8192 bytes, traditional caching on rc, both layouts",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: records,
};

/// The random-tracks layout of section 5.
pub const TRACKS: Experiment = Experiment {
    name: "ddio-tracks",
    about: "random-tracks layout: between contiguous and random-blocks",
    paper: PAPER,
    parameters: machine::PARAMETERS,
    run: tracks,
};

const METHODS: [(&str, Method); 2] = [("TC", Method::Traditional), ("DD", Method::Directed)];
const PATTERNS: [&str; 4] = ["ra", "rn", "rb", "rc"];
const LAYOUTS: [(&str, Layout); 2] = [
    ("contiguous", Layout::Contiguous),
    ("random", Layout::RandomBlocks),
];

/// Both methods on the four patterns of section 6.1, at one x.
fn add_patterns(study: &mut Study, suffix: &str, x: f64, base: &Scenario) {
    for (name, method) in METHODS {
        for pattern in PATTERNS {
            let scenario = Scenario {
                method,
                pattern: pattern.into(),
                ..base.clone()
            };
            study.point(format!("{name} {pattern}{suffix}"), x, scenario);
        }
    }
}

fn spread(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(0.0, f64::max);
    most / values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn report(
    measured: &Measured,
    unit: &str,
    claims: &[&str],
    mut judged: Vec<Cell>,
    charts: Vec<crate::chart::Chart>,
    settings: &Settings,
) -> Report {
    judged.extend(measured.cells(unit));
    Report {
        claims: claims.iter().map(ToString::to_string).collect(),
        cells: judged,
        charts,
        changed: settings.changed(),
        notes: vec!["The paper plots these curves without values; ours are predictions.".into()],
        ..Report::default()
    }
}

fn cps(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut study = Study::default();
    for cps in [1, 2, 4, 8, 16] {
        let mut at = base.clone();
        at.machine.cps = cps;
        at.cache_buffers = 2 * cps;
        add_patterns(&mut study, "", cps as f64, &at);
    }
    let m = study.run(settings, progress)?;
    let dd = spread(&m.values("DD rc"));
    let drop = m.at("TC rc", 2.0) / m.at("TC rc", 16.0);
    let judged = vec![
        Cell::claim("DD is unaffected: largest over smallest, rc", dd, dd < 1.05),
        Cell::claim("TC rc with 2 CPs falls: share of 16 CPs", drop, drop < 0.8),
        Cell::claim(
            "TC rb suffers from localities: rb over rc, 16 CPs",
            m.at("TC rb", 16.0) / m.at("TC rc", 16.0),
            m.at("TC rb", 16.0) < 0.5 * m.at("TC rc", 16.0),
        ),
    ];
    let claims = [
        "disk-directed I/O is unaffected by the number of compute processors",
        "traditional caching on rc cannot use all disks with fewer compute than I/O processors",
    ];
    let charts = vec![m.chart(
        "Figure 6: number of compute processors",
        "compute processors",
    )];
    Ok(report(&m, "CPs", &claims, judged, charts, settings))
}

fn iops(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut study = Study::default();
    for iops in [1, 2, 4, 8, 16] {
        let mut at = base.clone();
        at.machine.iops = iops;
        add_patterns(&mut study, "", iops as f64, &at);
    }
    let m = study.run(settings, progress)?;
    // 10 * 10^6 bytes per second are 9.54 MB/s.
    let one = m.at("DD rc", 1.0);
    let two_per_bus = m.at("DD rc", 8.0) / m.at("DD rc", 16.0);
    let four_per_bus = m.at("DD rc", 4.0) / m.at("DD rc", 16.0);
    let judged = vec![
        Cell::claim(
            "one bus limits DD rc to 10 MB/s",
            one,
            (8.0..=9.54).contains(&one),
        ),
        Cell::claim(
            "two disks per bus still reach 90 %",
            two_per_bus,
            two_per_bus > 0.9,
        ),
        Cell::claim(
            "beyond two disks per bus contention shows",
            four_per_bus,
            four_per_bus < two_per_bus,
        ),
    ];
    let claims = [
        "performance falls with fewer I/O processors, particularly beyond two disks per bus, down \
         to the 10 MB/s of one bus",
    ];
    let charts = vec![m.chart("Figure 7: number of I/O processors", "I/O processors")];
    Ok(report(&m, "IOPs", &claims, judged, charts, settings))
}

fn disks(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut contiguous = Study::default();
    let mut random = Study::default();
    for disks in [1, 2, 4, 8, 16, 32] {
        let mut at = base.clone();
        at.machine.iops = 1;
        at.machine.disks = disks;
        add_patterns(&mut contiguous, "", disks as f64, &at);
        at.layout = Layout::RandomBlocks;
        add_patterns(&mut random, " random", disks as f64, &at);
    }
    let a = contiguous.run(settings, progress)?;
    let b = random.run(settings, progress)?;
    let limit = a.at("DD rc", 32.0);
    let scaling = b.at("DD rc random", 8.0) / b.at("DD rc random", 1.0);
    let judged = vec![
        Cell::claim(
            "DD rc approaches the bus limit of 10 MB/s",
            limit,
            (8.0..=9.54).contains(&limit),
        ),
        Cell::claim(
            "random layout scales with disks: 8 over 1",
            scaling,
            scaling > 6.0,
        ),
    ];
    let claims = ["performance scales with the disks and approaches the bus limit of 10 MB/s"];
    let charts = vec![
        a.chart("Figure 8: disks on one I/O processor, contiguous", "disks"),
        b.chart(
            "Figure 9: disks on one I/O processor, random-blocks",
            "disks",
        ),
    ];
    let mut report = report(&a, "disks", &claims, judged, charts, settings);
    report.cells.extend(b.cells("disks"));
    Ok(report)
}

fn files(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut study = Study::default();
    let mut random = Study::default();
    let sizes: &[u64] = if settings.quick {
        &[10, 100]
    } else {
        &[10, 100, 1000]
    };
    for mb in sizes {
        let mut at = Scenario {
            file_bytes: mb << 20,
            ..base.clone()
        };
        add_patterns(&mut study, "", *mb as f64, &at);
        for (name, method) in METHODS {
            let scenario = Scenario {
                method,
                pattern: "wb".into(),
                ..at.clone()
            };
            study.point(format!("{name} wb"), *mb as f64, scenario);
        }
        at.layout = Layout::RandomBlocks;
        add_patterns(&mut random, " random", *mb as f64, &at);
    }
    let m = study.run(settings, progress)?;
    let r = random.run(settings, progress)?;
    let large = m.at("DD rc", 100.0);
    // The paper means rb on the random layout here: on the contiguous one prefetching mistakes
    // matter less than lost rotations.
    let gain = r.at("TC rb random", 100.0) / r.at("TC rb random", 10.0);
    let judged = vec![
        Cell::claim(
            "DD rc at 100 MB is within 1 % of the asymptote 33.55",
            large,
            (large / 33.55 - 1.0).abs() < 0.01,
        ),
        Cell::claim(
            "TC rb gains when mistakes at the end weigh less: 100 over 10 MB",
            gain,
            gain > 1.05,
        ),
        Cell::claim(
            "order at 100 MB as at 10 MB: DD rc over TC rb",
            large / m.at("TC rb", 100.0),
            large > 3.0 * m.at("TC rb", 100.0),
        ),
    ];
    let claims = [
        "throughput is highest with files of 100 MB or larger",
        "the order of the cases stays, except that rb is much lower with 10 MB",
    ];
    let charts = vec![
        m.chart("Figure 10: file size, contiguous", "file size in MB"),
        r.chart("Figure 11: file size, random-blocks", "file size in MB"),
    ];
    let mut report = report(&m, "MB", &claims, judged, charts, settings);
    report.cells.extend(r.cells("MB"));
    Ok(report)
}

fn records(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut study = Study::default();
    for record in [8, 32, 128, 512, 1024, 4096, 8192] {
        for (name, layout) in LAYOUTS {
            let scenario = Scenario {
                layout,
                record,
                pattern: "rc".into(),
                ..base.clone()
            };
            study.point(format!("TC rc {name}"), record as f64, scenario);
        }
    }
    let m = study.run(settings, progress)?;
    let contiguous = m.values("TC rc contiguous");
    let rising = contiguous.windows(2).all(|pair| pair[1] > pair[0] * 0.97);
    let random = m.values("TC rc random");
    let plateau = random[random.len() - 1] / random[random.len() - 2];
    let judged = vec![
        Cell::claim(
            "throughput rises with the record, contiguous",
            contiguous[contiguous.len() - 1],
            rising,
        ),
        Cell::claim(
            "the disks limit large records, random: 8192 over 4096",
            plateau,
            (0.95..1.1).contains(&plateau),
        ),
    ];
    let claims = [
        "8-byte records are limited by overhead, 8192-byte records by the disks; others lie between",
    ];
    let charts = vec![m.chart(
        "Figure 12: record size, traditional caching on rc",
        "record in bytes",
    )];
    Ok(report(&m, "B", &claims, judged, charts, settings))
}

fn tracks(settings: &Settings, progress: &Progress) -> Result<Report, Error> {
    let base = machine::scenario(settings)?;
    let mut study = Study::default();
    let methods = [
        ("TC", Method::Traditional),
        ("DD", Method::Directed),
        ("DDs", Method::DirectedSorted),
    ];
    let layouts = [
        Layout::RandomBlocks,
        Layout::RandomTracks,
        Layout::Contiguous,
    ];
    for (name, method) in methods {
        for pattern in ["rb", "rc", "wb", "wc"] {
            for (x, layout) in layouts.into_iter().enumerate() {
                let scenario = Scenario {
                    method,
                    layout,
                    pattern: pattern.into(),
                    ..base.clone()
                };
                study.point(format!("{name} {pattern}"), x as f64, scenario);
            }
        }
    }
    let m = study.run(settings, progress)?;
    let mut judged = vec![];
    let mut series = vec![];
    for (name, _) in methods {
        for pattern in ["rb", "rc", "wb", "wc"] {
            let key = format!("{name} {pattern}");
            let [random, tracks, contiguous] = [0.0, 1.0, 2.0].map(|x| m.at(&key, x));
            // With many localities the tracks are never used in full: a tie with random blocks,
            // up to the noise of a few layouts.
            let between = random * 0.94 <= tracks && tracks <= contiguous * 1.03;
            judged.push(Cell::claim(
                format!("{key} on random tracks lies between"),
                tracks,
                between,
            ));
            series.push((key, [random, tracks, contiguous]));
        }
    }
    let groups = series.iter().map(|(key, _)| key.clone()).collect();
    let bars = ["random-blocks", "random-tracks", "contiguous"]
        .iter()
        .enumerate();
    let bars = bars
        .map(|(i, name)| {
            (
                name.to_string(),
                series.iter().map(|(_, v)| Some(v[i])).collect(),
            )
        })
        .collect();
    let chart =
        crate::chart::Chart::bars("Three layouts, 8 KB records", "MB/s", groups, bars).ours();
    Ok(Report {
        claims: vec!["results on random tracks lie between the two other layouts".into()],
        cells: judged,
        charts: vec![chart],
        changed: settings.changed(),
        ..Report::default()
    })
}
