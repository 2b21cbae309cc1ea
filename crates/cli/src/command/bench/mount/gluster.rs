//! A GlusterFS volume for comparison: plain distribution over bricks on one disk, mounted with FUSE.

use anyhow::Context as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long its daemons may take for one step.
const STEP: Duration = Duration::from_secs(30);

/// A mounted volume; gone when dropped.
pub struct Gluster {
    volume: String,
    place: PathBuf,
    daemon: Option<Child>,
}

impl Gluster {
    /// Makes a volume of `bricks` directories below `dir` and mounts it.
    pub fn start(dir: &Path, bricks: u32) -> anyhow::Result<Gluster> {
        anyhow::ensure!(
            rustix::process::geteuid().is_root(),
            "its daemon needs root"
        );
        let place = dir.join("mount");
        std::fs::create_dir_all(&place)?;
        let mut gluster = Gluster {
            volume: format!("trireme-bench-{}", std::process::id()),
            place,
            daemon: None,
        };
        if !quiet("gluster", &["pool", "list"]) {
            let daemon = Command::new("glusterd")
                .arg("-N")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .context("glusterd did not start (Debian: package glusterfs-server)")?;
            gluster.daemon = Some(daemon);
            wait_for("glusterd", || quiet("gluster", &["pool", "list"]))?;
        }
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().into_owned();
        let mut create = vec!["volume".to_owned(), "create".into(), gluster.volume.clone()];
        for brick in 0..bricks {
            let path = dir.join(format!("brick{brick}"));
            std::fs::create_dir(&path)?;
            create.push(format!("{host}:{}", path.display()));
        }
        create.push("force".into());
        let create: Vec<&str> = create.iter().map(String::as_str).collect();
        anyhow::ensure!(quiet("gluster", &create), "its volume could not be made");
        anyhow::ensure!(
            quiet("gluster", &["volume", "start", &gluster.volume]),
            "its volume could not be started"
        );
        let server = format!("--volfile-server={host}");
        let volume = format!("--volfile-id={}", gluster.volume);
        let place = gluster.place.to_string_lossy().into_owned();
        anyhow::ensure!(
            quiet("glusterfs", &[&server, &volume, &place]),
            "its volume could not be mounted"
        );
        let probe = gluster.place.join("probe");
        wait_for("the volume", || std::fs::write(&probe, b"x").is_ok())?;
        std::fs::remove_file(&probe)?;
        Ok(gluster)
    }

    /// Where it is mounted.
    pub fn place(&self) -> &Path {
        &self.place
    }
}

impl Drop for Gluster {
    fn drop(&mut self) {
        let _ = trireme_fuse::kernel::unmount(&self.place, true);
        quiet("gluster", &["volume", "stop", &self.volume, "force"]);
        quiet("gluster", &["volume", "delete", &self.volume]);
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn quiet(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    if program == "gluster" {
        command.arg("--mode=script");
    }
    command
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn wait_for(what: &str, ready: impl Fn() -> bool) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !ready() {
        anyhow::ensure!(begin.elapsed() < STEP, "{what} is not ready after {STEP:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}
