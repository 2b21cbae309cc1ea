//! The kernel's own view of a mount (fusectl): how many requests wait, and a way out when nothing else ends.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// A mount as the kernel sees it.
pub struct Control {
    abort: File,
    waiting: File,
}

impl Control {
    /// `None` where it cannot be had.
    pub fn of(place: &Path) -> Option<Control> {
        let mount = rustix::fs::minor(rustix::fs::stat(place).unwrap().st_dev);
        let control = tempfile::tempdir().unwrap();
        let run = |program: &str, words: &[&str]| {
            let mut command = Command::new(program);
            command.args(words).arg(control.path());
            command.status().is_ok_and(|status| status.success())
        };
        if !run("mount", &["-t", "fusectl", "none"]) {
            return None;
        }
        let dir = control.path().join(mount.to_string());
        // Opened now: who is stuck may hold the memory of this process, and nothing can be started then.
        let abort = OpenOptions::new().write(true).open(dir.join("abort"));
        let waiting = File::open(dir.join("waiting"));
        assert!(run("umount", &["-l"]));
        Some(Control {
            abort: abort.ok()?,
            waiting: waiting.ok()?,
        })
    }

    /// Requests that are not answered.
    pub fn waiting(&self) -> usize {
        // It can be read once only, and its directory is nowhere any more.
        let again = format!("/proc/self/fd/{}", self.waiting.as_raw_fd());
        let text = std::fs::read_to_string(again).unwrap();
        text.trim().parse().unwrap()
    }

    /// Everybody who waits for the mount gets an error, and it serves nobody any more.
    pub fn abort(&mut self) {
        self.abort.write_all(b"1").unwrap();
    }

    /// The same for a mount that may have ended.
    pub fn abort_if_there(&mut self) {
        let _ = self.abort.write_all(b"1");
    }

    /// Runs something that may never end, in which case the mount is ended: else this process could not end,
    /// either.
    pub fn in_time(&mut self, what: &str, act: impl FnOnce() + Send + 'static) {
        let (done, wait) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            act();
            let _ = done.send(());
        });
        let waited = wait.recv_timeout(Duration::from_mins(1));
        if waited == Err(RecvTimeoutError::Timeout) {
            self.abort();
            panic!("{what} does not end");
        }
        thread.join().unwrap();
    }
}

/// The same for who needs nothing else. False: that cannot be had here, and nothing was done.
pub fn in_time(place: &Path, what: &str, act: impl FnOnce() + Send + 'static) -> bool {
    let Some(mut control) = Control::of(place) else {
        return false;
    };
    control.in_time(what, act);
    true
}
