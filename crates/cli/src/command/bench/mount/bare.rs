//! The bare FUSE file system that a mount is compared with, in a process of its own: one that serves the files
//! it has open cannot be killed, as they are closed when nobody is left to answer.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use trireme_fuse::bare::Answer;

/// What the process says when it is ready.
const READY: &str = "ready";

/// The process; it ends, and the mount with it, when this is dropped or whoever has it dies.
pub struct Bare(Child);

impl Bare {
    /// Mounts the files of `source` on `dir`.
    pub fn start(source: &Path, dir: &Path, answer: Answer) -> anyhow::Result<Bare> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "mount", "--serve-bare"])
            .args([source, dir])
            .args((answer == Answer::Anything).then_some("--serve-anything"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("its output")?;
        let bare = Bare(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        anyhow::ensure!(
            line.trim() == READY,
            "a bare FUSE file system could not be mounted on {}",
            dir.display()
        );
        Ok(bare)
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        // The end of its input tells it; it waits for its mount for 2 seconds at most.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// The process itself: serves until its input ends.
pub fn serve(places: &[PathBuf], answer: Answer) -> anyhow::Result<()> {
    let [source, dir] = places else {
        anyhow::bail!("--serve-bare takes two directories");
    };
    let mounted = trireme_fuse::bare::Bare::start(source, dir, answer)?;
    println!("{READY}");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    drop(mounted);
    Ok(())
}
