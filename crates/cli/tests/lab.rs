//! `trireme lab` as users meet it: the real binary, its output and its errors.

use std::path::Path;
use std::process::{Command, Output};

fn lab(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trireme"));
    command.arg("lab").args(args).env("RUST_BACKTRACE", "0");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn list_shows_every_experiment_and_explains_one() {
    let all = text(&lab(&["list"]).stdout);
    assert!(
        all.contains("ddio-table4") && all.contains("ionode-table3"),
        "{all}"
    );
    let one = text(&lab(&["list", "ddio-table4"]).stdout);
    assert!(
        one.contains("disks") && one.contains("from 1 to 4096"),
        "{one}"
    );
}

#[test]
fn run_writes_json_with_the_agreed_fields() {
    let output = lab(&["run", "ddio-table2", "ionode-table4", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let cells = json["cells"].as_array().unwrap();
    assert!(cells.len() > 40);
    for cell in cells {
        let mut keys: Vec<&str> = cell
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        keys.sort_unstable();
        let agreed = [
            "calibrated",
            "cell",
            "class",
            "error",
            "experiment",
            "ok",
            "published",
            "simulated",
        ];
        assert_eq!(keys, agreed);
    }
}

#[test]
fn a_table_shows_errors_classes_and_ends_with_a_verdict() {
    let output = text(&lab(&["run", "ionode-table4"]).stdout);
    for word in [
        "published",
        "simulated",
        "error",
        "class",
        "calibrated",
        "verdict: 4 of 4",
    ] {
        assert!(output.contains(word), "{word}: {output}");
    }
}

#[test]
fn settings_apply_and_are_named_in_the_output() {
    let set = [
        "run",
        "ddio-fig7",
        "--set",
        "disks=32",
        "--seeds",
        "1",
        "--jobs",
        "2",
    ];
    let output = text(&lab(&set).stdout);
    assert!(output.contains("changed: disks=32"), "{output}");
}

#[test]
fn wrong_names_and_values_are_refused_before_anything_runs() {
    for (args, parts) in [
        (
            &["run", "ddio-tabel4"][..],
            &["ddio-tabel4", "did you mean `ddio-table4`"][..],
        ),
        (
            &["run", "ddio-table4", "--set", "dsiks=3"],
            &["dsiks", "did you mean `disks`"],
        ),
        (
            &["run", "ddio-table4", "--set", "disks=0"],
            &["disks = 0", "1 to 4096"],
        ),
        (
            &["run", "ddio-table4", "--set", "disks"],
            &["disks", "NAME=VALUE"],
        ),
        (&["run", "no-such-file.toml"], &["no-such-file.toml"]),
        (
            &["trace", "--set", "patern=rb"],
            &["patern", "did you mean `pattern`"],
        ),
    ] {
        let output = lab(args);
        assert!(!output.status.success(), "{args:?}");
        let error = text(&output.stderr);
        for part in parts {
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }
}

#[test]
fn a_report_and_a_trace_are_written() {
    let folder = std::env::temp_dir().join(format!("trireme-lab-cli-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let path = folder.join("out");
    let output = lab(&[
        "report",
        "--html",
        path.to_str().unwrap(),
        "ionode-table4",
        "ddio-table2",
    ]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(path.join("index.html")).unwrap();
    assert!(page.contains("ionode-table4") && page.contains("</html>"));
    let trace = folder.join("trace.json");
    let set = "method=dds,pattern=rcc,file_mb=1";
    let output = lab(&["trace", "--set", set, "--out", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
    assert!(json["traceEvents"].as_array().unwrap().len() > 500);
    std::fs::remove_dir_all(folder).unwrap();
}
