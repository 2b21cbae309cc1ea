//! Dependencies point downwards only: the table of ARCHITECTURE.md, checked against cargo.

use anyhow::Context;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// What each crate may depend on among ours, apart from tests.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("trireme-partition", &[]),
    ("trireme-policy", &["trireme-partition"]),
    ("trireme-proto", &["trireme-partition"]),
    ("trireme-store", &["trireme-policy", "trireme-partition"]),
    ("trireme-meta", &["trireme-proto", "trireme-partition"]),
    ("trireme-net", &["trireme-proto", "trireme-partition"]),
    (
        "trireme-server",
        &[
            "trireme-store",
            "trireme-meta",
            "trireme-net",
            "trireme-proto",
            "trireme-policy",
            "trireme-partition",
        ],
    ),
    (
        "trireme",
        &[
            "trireme-server",
            "trireme-store",
            "trireme-net",
            "trireme-proto",
            "trireme-policy",
            "trireme-partition",
        ],
    ),
    ("trireme-sim", &["trireme-policy", "trireme-partition"]),
    (
        "trireme-lab",
        &["trireme-sim", "trireme-policy", "trireme-partition"],
    ),
    ("trireme-fuse", &["trireme", "trireme-net", "trireme-proto"]),
    (
        "trireme-cli",
        &[
            "trireme",
            "trireme-fuse",
            "trireme-lab",
            "trireme-server",
            "trireme-net",
            "trireme-proto",
            "trireme-policy",
            "trireme-partition",
        ],
    ),
    (
        "trireme-mpiio",
        &[
            "trireme",
            "trireme-net",
            "trireme-proto",
            "trireme-partition",
        ],
    ),
    ("xtask", &[]),
];

/// The pure crates: they may not use a crate that does I/O, keeps time or starts threads.
const PURE: [&str; 3] = ["trireme-partition", "trireme-policy", "trireme-proto"];
const IMPURE: [&str; 8] = [
    "tokio",
    "rustix",
    "libc",
    "socket2",
    "fjall",
    "redb",
    "indicatif",
    "tempfile",
];

/// Every dependency that the table does not allow.
pub fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata's JSON")?;
    let packages = metadata["packages"]
        .as_array()
        .context("cargo metadata has no packages")?;
    Ok(offences(packages))
}

fn offences(packages: &[Value]) -> Vec<String> {
    let ours: Vec<&str> = packages.iter().filter_map(|p| p["name"].as_str()).collect();
    let mut offences = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some((_, allowed)) = MAY_USE.iter().find(|(crate_name, _)| *crate_name == name) else {
            offences.push(format!("{name} has no row in xtask/src/layers.rs"));
            continue;
        };
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let used = dependency["name"].as_str().unwrap_or_default();
            if dependency["kind"].as_str() == Some("dev") {
                continue;
            }
            if ours.contains(&used) && !allowed.contains(&used) {
                offences.push(format!(
                    "{name} must not depend on {used}: see ARCHITECTURE.md"
                ));
            }
            if PURE.contains(&name) && IMPURE.contains(&used) {
                offences.push(format!("{name} is pure and must not depend on {used}"));
            }
        }
    }
    offences
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_upward_dependency_is_an_offence() {
        let packages = [
            json!({"name": "trireme-partition", "dependencies": [
                {"name": "trireme-policy", "kind": null}, {"name": "libc", "kind": null}]}),
            json!({"name": "trireme-policy", "dependencies": [
                {"name": "trireme-partition", "kind": null}]}),
        ];
        let found = offences(&packages);
        assert_eq!(found.len(), 2, "{found:?}");
    }
}
