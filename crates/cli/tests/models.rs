//! `trireme advise`, `queueing` and `pios` as users meet them: the documented examples, and errors.

use std::path::Path;
use std::process::{Command, Output};

fn trireme(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trireme"));
    command.args(args).env("RUST_BACKTRACE", "0");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.output().unwrap()
}

fn fine(args: &[&str]) -> String {
    let output = trireme(args);
    assert!(
        output.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

fn refused(args: &[&str]) -> String {
    let output = trireme(args);
    assert!(!output.status.success(), "{args:?} should be refused");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn both_documented_examples_of_advice_run() {
    for name in ["cluster", "nvme"] {
        let files =
            ["machine", "workload"].map(|kind| format!("examples/advise/{name}-{kind}.toml"));
        let text = fine(&["advise", &files[0], &files[1]]);
        for word in [
            "stripe unit",
            "bottleneck",
            "one step of",
            "how sure",
            "models",
        ] {
            assert!(text.contains(word), "{word} is missing in:\n{text}");
        }
        let json: serde_json::Value =
            serde_json::from_str(&fine(&["advise", &files[0], &files[1], "--json"])).unwrap();
        assert!(json["mb_s"].as_f64().unwrap() > 0.0);
        assert!(json["knobs"].as_array().unwrap().len() >= 5);
    }
    let swapped = refused(&[
        "advise",
        "examples/advise/cluster-workload.toml",
        "examples/advise/cluster-machine.toml",
    ]);
    assert!(swapped.contains("cluster-workload.toml") && swapped.contains("unknown field"));
}

#[test]
fn a_network_is_solved_and_simulated() {
    let text = fine(&[
        "queueing",
        "examples/queueing/two-disks.toml",
        "--simulate",
        "200000",
    ]);
    for word in [
        "exact",
        "readers",
        "asymptotic",
        "bottleneck: disk 1",
        "deterministic",
    ] {
        assert!(text.contains(word), "{word} is missing in:\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&fine(&[
        "queueing",
        "examples/queueing/two-disks.toml",
        "--json",
    ]))
    .unwrap();
    assert_eq!(json["method"], "exact");
    assert!(refused(&["queueing", "no-such-file.toml"]).contains("cannot read no-such-file.toml"));
}

#[test]
fn a_trace_and_a_topology_drive_the_network() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (trace, topology) = (file("trace.txt"), file("topology.toml"));
    fine(&[
        "pios",
        "--nodes",
        "16",
        "--io-nodes",
        "4",
        "--seconds",
        "0.05",
        "--write-trace",
        &trace,
        "--write-topology",
        &topology,
    ]);
    // The same traffic at random and from the file, the same machine built in and from the file.
    let from_files = fine(&["pios", "--topology", &topology, "--trace", &trace, "--json"]);
    let built_in = fine(&[
        "pios",
        "--nodes",
        "16",
        "--io-nodes",
        "4",
        "--seconds",
        "0.05",
        "--json",
    ]);
    assert_eq!(from_files, built_in);
    assert!(from_files.contains("read_request_us"));
    std::fs::write(&trace, "1 0 99 read 4096\n").unwrap();
    let error = refused(&["pios", "--nodes", "16", "--trace", &trace]);
    assert!(error.contains("trace.txt:1") && error.contains("`99` is not a node of 0 to 15"));
}
