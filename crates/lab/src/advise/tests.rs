//! The documented examples run, and advice moves the way the machine does.

use super::*;

fn example(name: &str) -> (MachineDescription, WorkloadDescription) {
    let path = |kind: &str| {
        let file = format!(
            "{}/../../examples/advise/{name}-{kind}.toml",
            env!("CARGO_MANIFEST_DIR")
        );
        std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"))
    };
    let machine = MachineDescription::from_toml("machine", &path("machine")).unwrap();
    (
        machine,
        WorkloadDescription::from_toml("workload", &path("workload")).unwrap(),
    )
}

#[test]
fn the_cluster_example_runs() {
    let (machine, workload) = example("cluster");
    let advice = advise(&machine, &workload).unwrap();
    assert_eq!(advice.configuration.method, Method::Independent);
    assert_eq!(advice.schedule, "hash");
    assert_eq!(advice.configuration.servers, 8);
    assert_eq!(advice.bottleneck, "disk");
    // Eight disks of 75 MB/s are the limit, and it should come near.
    assert!((300.0..600.0).contains(&advice.mb_s), "{}", advice.mb_s);
    assert!(advice.mb_s_deterministic >= 0.95 * advice.mb_s);
    let text = advice.render();
    for word in [
        "stripe unit",
        "servers",
        "buffers C",
        "schedule",
        "method",
        "how sure",
        "models",
    ] {
        assert!(text.contains(word), "{word} is missing in:\n{text}");
    }
}

#[test]
fn the_nvme_example_runs() {
    let (machine, workload) = example("nvme");
    let advice = advise(&machine, &workload).unwrap();
    // Millions of small pieces: whoever sends them one by one loses.
    assert_eq!(advice.configuration.method, Method::DiskDirected);
    let independent = advice
        .knobs
        .iter()
        .find(|knob| knob.value.starts_with("independent"))
        .unwrap();
    assert!(independent.change.unwrap() < -0.5, "{independent:?}");
    // Links of 12 GB/s and disks of 12 GB/s per server.
    let limit = 12_000.0 * f64::from(advice.configuration.servers);
    assert!(
        advice.mb_s < limit && advice.mb_s > 0.1 * limit,
        "{}",
        advice.mb_s
    );
    assert!(
        serde_json::to_string(&advice)
            .unwrap()
            .contains("\"bottleneck\"")
    );
}

#[test]
fn more_of_the_bottleneck_helps_and_more_of_anything_else_does_not() {
    let (mut machine, workload) = example("cluster");
    let before = advise(&machine, &workload).unwrap().mb_s;
    machine.disk.rate_mb_s *= 1.3;
    let faster_disks = advise(&machine, &workload).unwrap().mb_s;
    assert!(faster_disks > 1.1 * before, "{before} {faster_disks}");
    machine.disk.rate_mb_s /= 1.3;
    machine.copy_mb_s *= 10.0;
    let faster_copies = advise(&machine, &workload).unwrap().mb_s;
    assert!(faster_copies < 1.1 * before, "{before} {faster_copies}");
}

#[test]
fn knobs_include_every_neighbour() {
    let (machine, workload) = example("nvme");
    let advice = advise(&machine, &workload).unwrap();
    for knob in ["stripe unit", "servers", "buffers C", "method"] {
        assert!(advice.knobs.iter().any(|k| k.knob == knob), "{knob}");
    }
    // None of the neighbours that were searched (C up to 32, the machine's servers) is better than what was recommended by more than
    // the margin for which a smaller configuration is preferred.
    for knob in advice
        .knobs
        .iter()
        .filter(|k| !k.bottleneck.contains("more servers") && k.value != "64")
    {
        assert!(
            knob.change
                .is_none_or(|change| change < 1.0 / GOOD_ENOUGH - 1.0 + 1e-9),
            "{knob:?}"
        );
    }
}

#[test]
fn a_wrong_file_is_refused_by_key() {
    let (machine, workload) = example("cluster");
    let says = |edit: &dyn Fn(&mut MachineDescription)| {
        let mut machine = machine.clone();
        edit(&mut machine);
        let text = toml::to_string(&machine).unwrap();
        MachineDescription::from_toml("m.toml", &text)
            .unwrap_err()
            .to_string()
    };
    assert!(says(&|m| m.servers_max = 0).contains("servers_max = 0"));
    assert!(says(&|m| m.disk.rate_mb_s = -1.0).contains("disk.rate_mb_s"));
    assert!(says(&|m| m.latency_us = f64::NAN).contains("latency_us"));
    let error = WorkloadDescription::from_toml("w.toml", "nmae = 1")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("w.toml") && error.contains("nmae"),
        "{error}"
    );
    let tight = MachineDescription {
        buffers_mb: 0.001,
        ..machine.clone()
    };
    let error = advise(&tight, &workload).unwrap_err().to_string();
    assert!(error.contains("buffers_mb"), "{error}");
}
