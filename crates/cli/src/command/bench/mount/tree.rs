//! A git working tree that looks like a source tree, as an archive; and what is done with it.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Files in one directory of the tree.
const PER_DIRECTORY: usize = 20;

/// Makes the tree, commits it with git and packs everything into one archive.
pub fn archive(dir: &Path, files: usize) -> anyhow::Result<PathBuf> {
    let tree = dir.join("tree");
    for number in 0..files {
        let directory = tree.join(format!(
            "part{}/unit{}",
            number / PER_DIRECTORY / 16,
            number / PER_DIRECTORY
        ));
        if number % PER_DIRECTORY == 0 {
            std::fs::create_dir_all(&directory)?;
        }
        // Sizes as in source trees: most a few KiB, some large.
        let lines = 20 + number * 7919 % 200 + if number % 50 == 0 { 2000 } else { 0 };
        let mut text = String::new();
        for line in 0..lines {
            text += &format!("{number:05} {line:05} some line of text\n");
        }
        std::fs::write(directory.join(format!("file{number}.c")), text)?;
    }
    for arguments in [
        &["init", "-q"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=bench",
            "-c",
            "user.email=bench@localhost",
            "commit",
            "-q",
            "-m",
            "tree",
        ],
        &["gc", "-q"],
    ] {
        run("git", arguments, &tree)?;
    }
    let archive = dir.join("tree.tar");
    let name = archive.to_string_lossy().into_owned();
    run("tar", &["cf", &name, "tree"], dir)?;
    Ok(archive)
}

/// Unpacks it at `place`, asks git for its status, removes it.
pub fn measure(archive: &Path, place: &Path) -> anyhow::Result<[Duration; 3]> {
    let name = archive.to_string_lossy().into_owned();
    let untar = run("tar", &["xf", &name], place)?;
    let status = run("git", &["status", "--porcelain"], &place.join("tree"))?;
    let remove = run("rm", &["-r", "tree"], place)?;
    Ok([untar, status, remove])
}

fn run(program: &str, arguments: &[&str], dir: &Path) -> anyhow::Result<Duration> {
    rustix::fs::sync();
    let begin = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdout(Stdio::null())
        .status()
        .with_context(|| format!("start {program}"))?;
    anyhow::ensure!(
        status.success(),
        "{program} {arguments:?} failed in {}",
        dir.display()
    );
    Ok(begin.elapsed())
}
