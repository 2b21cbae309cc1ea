//! Other people's test suites on real mounts: they score what they score on the local file system.
//!
//! `./test` installs the suites into `target/tools`; without them the tests are skipped, aloud.

mod mount_support;
mod support;

use mount_support::sea;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a suite's program is called where `./test` puts it.
fn tool(test: &str, name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/tools/bin")
        .join(name);
    if path.exists() {
        return path.canonicalize().ok();
    }
    let why = format!("{name} is not installed in target/tools (./test does it)");
    support::skip(test, &why);
    None
}

/// Cases that the mount may end otherwise than the local file system, and why.
const OTHERWISE: &[(&str, &str)] = &[
    // C's pathconf knows the limit of a few file systems by name, and gives 127 for all others.
    ("link::link_count_max", "skipped"),
];

const PJDFSTEST: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// How each case of pjdfstest ends in a directory.
fn pjdfstest(program: &Path, configuration: &Path, dir: &Path) -> BTreeMap<String, String> {
    // The suite cannot make the longest path where what is left of it is whole names (its own overflow).
    let mut dir = dir.join("suite");
    while (4095 - 22 - dir.as_os_str().len()) % 127 < 2 {
        let longer = format!("{}x", dir.display());
        dir = longer.into();
    }
    std::fs::create_dir(&dir).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(&dir, everybody).unwrap();
    let output = Command::new("timeout")
        .arg("300")
        .arg(program)
        .args(["-c".as_ref(), configuration, "-p".as_ref(), &dir])
        .env("NO_COLOR", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ends = text.lines().filter_map(|line| {
        let (name, end) = line.split_once(char::is_whitespace)?;
        let end = end.trim();
        (name.contains("::") && matches!(end, "ok" | "FAILED" | "skipped"))
            .then(|| (name.to_owned(), end.to_owned()))
    });
    let ends: BTreeMap<_, _> = ends.collect();
    assert!(text.contains("Summary:"), "it did not end: {text}");
    ends
}

#[test]
fn pjdfstest_ends_as_it_does_locally() {
    let test = "pjdfstest_ends_as_it_does_locally";
    let Some(program) = tool(test, "pjdfstest") else {
        return;
    };
    if !rustix::process::geteuid().is_root() {
        support::skip(test, "not root: users cannot be switched");
        return;
    }
    let Some(mut sea) = sea(test, 3) else { return };
    let everybody = || std::os::unix::fs::PermissionsExt::from_mode(0o755);
    let local = sea.local_dir("local");
    std::fs::set_permissions(local.parent().unwrap(), everybody()).unwrap();
    let configuration = local.parent().unwrap().join("pjdfstest.toml");
    std::fs::write(&configuration, PJDFSTEST).unwrap();
    let theirs = pjdfstest(&program, &configuration, &local);
    assert!(theirs.len() > 350, "{} cases", theirs.len());
    for options in [&[][..], &["--no-cache"]] {
        let place = sea.mount(options);
        let work = place.join(format!("work{}", options.len()));
        std::fs::create_dir(&work).unwrap();
        let ours = pjdfstest(&program, &configuration, &work);
        let different: Vec<String> = theirs
            .iter()
            .filter(|(name, end)| {
                let ours = ours.get(*name).map_or("missing", String::as_str);
                ours != end.as_str() && !OTHERWISE.contains(&(name.as_str(), ours))
            })
            .map(|(name, end)| format!("{name}: {:?} here, {end} locally", ours.get(name)))
            .collect();
        assert!(different.is_empty(), "{options:?}: {different:#?}");
    }
    sea.check();
}

const FSX: &str = "
flen = 1500000
[opsize]
max = 300000
min = 0
align = 1
[weights]
close_open = 3
read = 10
write = 10
mapread = 10
mapwrite = 10
invalidate = 1
truncate = 4
fsync = 1
fdatasync = 1
posix_fallocate = 2
punch_hole = 3
sendfile = 3
posix_fadvise = 2
copy_file_range = 4
";

/// Reads, writes, maps, cuts, punches and copies one file at random, comparing every byte with a model.
#[test]
fn fsx_finds_every_byte_where_it_should_be() {
    let test = "fsx_finds_every_byte_where_it_should_be";
    let Some(program) = tool(test, "fsx") else {
        return;
    };
    let Some(mut sea) = sea(test, 3) else { return };
    let configuration = sea.local_dir("fsx");
    std::fs::write(configuration.join("fsx.toml"), FSX).unwrap();
    let places = [sea.mount(&[]), sea.mount(&["--no-cache"])];
    let count = support::times(2500).to_string();
    std::thread::scope(|scope| {
        for (number, place) in places.iter().enumerate() {
            let (program, configuration, count) = (&program, &configuration, &count);
            scope.spawn(move || {
                let seed = (support::seed() + 1 + number as u64).to_string();
                let output = Command::new("timeout")
                    .arg("600")
                    .arg(program)
                    .args(["-N", count, "-S", &seed, "-f"])
                    .arg(configuration.join("fsx.toml"))
                    .arg("-P")
                    .arg(configuration)
                    .arg(place.join(format!("fsx{number}")))
                    .output()
                    .unwrap();
                assert!(
                    output.status.success(),
                    "seed {seed}: {}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
            });
        }
    });
    sea.check();
}
