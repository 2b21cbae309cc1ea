//! For tests of files that the kernel reads and writes by itself.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Sea;

/// The kernel's mark of overlayfs.
const OVERLAY: u64 = 0x794c_7630;

/// A cluster, and mounts of it with these options; `None`, said aloud, where kernels pass nothing on.
pub fn passing(test: &str, mounts: usize, options: &[&str]) -> Option<(Sea, Vec<PathBuf>)> {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .map(|word| word.parse().unwrap_or(0u32));
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < (6, 13) || !rustix::process::geteuid().is_root() {
        crate::support::skip(test, "needs Linux 6.13 and root");
        return None;
    }
    // It would take that away again.
    if std::env::var("TRIREME_TEST_MOUNT").is_ok_and(|more| more.contains("--striped")) {
        crate::support::skip(test, "the mounts are told to spread files");
        return None;
    }
    // As containers have it.
    let disk = rustix::fs::statfs(std::env::temp_dir()).unwrap();
    if disk.f_type as u64 == OVERLAY {
        crate::support::skip(test, "files are on a file system that is laid over others");
        return None;
    }
    let mut sea = super::sea(test, 3)?;
    let places = (0..mounts).map(|_| sea.mount(options)).collect();
    Some((sea, places))
}

/// A process that does nothing while this lives.
pub struct Stopped(Pid);

impl Stopped {
    pub fn new(child: &Child) -> Stopped {
        let pid = Pid::from_child(child);
        kill_process(pid, Signal::STOP).unwrap();
        super::wait_until("it has stopped", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).unwrap();
            stat.rsplit_once(") ").unwrap().1.starts_with('T')
        });
        Stopped(pid)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        kill_process(self.0, Signal::CONT).unwrap();
    }
}

/// What `act` gives, if that takes less than some seconds.
pub fn soon<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || tell.send(act()));
    told.recv_timeout(Duration::from_secs(10)).ok()
}

/// Up to `length` bytes from the beginning.
pub fn read_all(file: &File, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut at = 0;
    while at < length {
        match file.read_at(&mut bytes[at..], at as u64).unwrap() {
            0 => break,
            got => at += got,
        }
    }
    bytes.truncate(at);
    bytes
}

/// When a file was last written.
pub fn written(data: &Metadata) -> (i64, i64) {
    (data.mtime(), data.mtime_nsec())
}

/// Opening for reading and writing.
pub trait OpenBoth {
    fn open_with(&self, path: &str) -> trireme::Result<trireme::File>;
}

impl OpenBoth for trireme::Cluster {
    fn open_with(&self, path: &str) -> trireme::Result<trireme::File> {
        let mut options = trireme::OpenOptions::new();
        options.read(true).write(true).open(self, path)
    }
}
