//! Disks that are soon full, and such as containers have.

/// A small file system, unmounted at the end however the test ends.
pub struct Small {
    pub at: std::path::PathBuf,
    pub kind: &'static str,
    _image: Option<tempfile::NamedTempFile>,
}

fn succeeds(command: &mut std::process::Command) -> bool {
    let quiet = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

impl Small {
    /// ext4 on a loop device; where that cannot be had, a bounded tmpfs.
    pub fn mount(at: std::path::PathBuf, mib: u64) -> Option<Small> {
        use std::process::Command;
        std::fs::create_dir_all(&at).unwrap();
        let image = tempfile::NamedTempFile::new().unwrap();
        image.as_file().set_len(mib << 20).unwrap();
        let made = succeeds(
            Command::new("mkfs.ext4")
                .args(["-q", "-F", "-m", "0", "-J", "size=4"])
                .arg(image.path()),
        );
        let mut loop_mount = Command::new("mount");
        // Space comes back with the journal's commit: each second instead of every five.
        loop_mount
            .args(["-o", "loop,commit=1"])
            .arg(image.path())
            .arg(&at);
        if made && succeeds(&mut loop_mount) {
            return Some(Small {
                at,
                kind: "ext4",
                _image: Some(image),
            });
        }
        Small::in_memory(at, mib)
    }

    /// A bounded tmpfs: as fast full as empty.
    pub fn in_memory(at: std::path::PathBuf, mib: u64) -> Option<Small> {
        std::fs::create_dir_all(&at).unwrap();
        let mut memory = std::process::Command::new("mount");
        memory
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(&at);
        succeeds(&mut memory).then_some(Small {
            at,
            kind: "tmpfs",
            _image: None,
        })
    }
}

impl Small {
    /// A file system that is laid over others, all of whose own is in `base`.
    pub fn laid_over(at: std::path::PathBuf, base: &std::path::Path) -> Option<Small> {
        std::fs::create_dir_all(&at).unwrap();
        let parts = ["lower", "upper", "work"].map(|name| base.join(name));
        for part in &parts {
            std::fs::create_dir(part).unwrap();
        }
        let [lower, upper, work] = parts.map(|part| part.display().to_string());
        let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
        let mut overlay = std::process::Command::new("mount");
        overlay
            .args(["-t", "overlay", "-o", &options, "overlay"])
            .arg(&at);
        succeeds(&mut overlay).then_some(Small {
            at,
            kind: "overlay",
            _image: None,
        })
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        succeeds(std::process::Command::new("umount").arg("-l").arg(&self.at));
    }
}
