//! A mount from its beginning to its end.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use trireme::Cluster;

use crate::fs::Fs;
use crate::kernel::{self, Device, MountOptions, SLOT, Session, THREADS};

/// How a mount behaves. The defaults keep what one mount closed visible to others that open.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long the kernel may believe attributes and names without asking.
    pub ttl: Duration,
    /// Bypass the kernel's page cache for all files: every read asks the servers.
    pub direct: bool,
    /// Users other than the one who mounts may use it; needs root or `user_allow_other`.
    pub allow_other: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Reading leaves access times alone.
    pub no_atime: bool,
    /// Set-id bits of programs count for nothing.
    pub no_suid: bool,
    /// Device nodes cannot be opened.
    pub no_dev: bool,
    /// Programs cannot be started from it.
    pub no_exec: bool,
    /// How far the kernel reads ahead, in bytes; more than 128 KiB needs root.
    pub read_ahead: usize,
    /// New files are spread over all servers also where these share a disk of this host.
    pub striped: bool,
    /// Requests come through io_uring where the kernel can do that and this is root; else through `/dev/fuse`.
    pub io_uring: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ttl: Duration::from_secs(1),
            direct: false,
            allow_other: rustix::process::geteuid().is_root(),
            read_only: false,
            no_atime: false,
            no_suid: false,
            no_dev: false,
            no_exec: false,
            read_ahead: kernel::READ_AHEAD,
            striped: false,
            io_uring: true,
        }
    }
}

impl Options {
    fn for_kernel(&self) -> MountOptions<'static> {
        MountOptions {
            source: "trireme",
            allow_other: self.allow_other,
            default_permissions: true,
            read_only: self.read_only,
            no_atime: self.no_atime,
            no_suid: self.no_suid,
            no_dev: self.no_dev,
            no_exec: self.no_exec,
        }
    }

    /// Changes what the kernel knows of a mount that is there, whichever process serves it: whether it is
    /// read-only, and what it does not let programs do. Needs root.
    pub fn change(&self, dir: &Path) -> io::Result<()> {
        kernel::remount(dir, self.for_kernel())
    }
}

/// A mounted cluster; unmounted when dropped.
#[derive(Debug)]
pub struct Mount {
    session: Session,
    dir: PathBuf,
}

impl Mount {
    /// Mounts `cluster` on `dir` and serves it from threads of this process.
    pub fn start(cluster: &Cluster, dir: &Path, options: Options) -> io::Result<Mount> {
        let dir = dir.canonicalize()?;
        if !dir.is_dir() {
            let why = format!("{} is not a directory", dir.display());
            return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
        }
        // Servers of this host take the bytes of a write from here by themselves. It lives as long
        // as the process: threads that wait for a server may outlive the mount.
        let buffer = Box::leak(Box::new(cluster.buffer(SLOT * THREADS)?));
        // What a local file system promises of names before fsync, and no more.
        let cluster = cluster.with_options(trireme::Options {
            soft_names: true,
            transfer: trireme::TransferOptions {
                second: true,
                ..cluster.options().transfer
            },
            ..*cluster.options()
        });
        let fs = Arc::new(Fs::new(&cluster, &options).map_err(io::Error::from)?);
        let permit = options.io_uring.then(kernel::Permit::get).flatten();
        let device = Device::mount(&dir, options.for_kernel())?;
        let session = Session::start(device, &dir, fs.clone(), buffer, permit.is_some())?;
        let mount = Mount { session, dir };
        if !mount.session.wait_ready() {
            return Err(io::Error::other("the mount went away before it was ready"));
        }
        drop(permit);
        if let Ok(data) = std::fs::metadata(&mount.dir) {
            fs.has_device(data.dev());
        }
        fs.reads_ahead(kernel::set_read_ahead(&mount.dir, options.read_ahead));
        Ok(mount)
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Waits until somebody unmounts it.
    pub fn wait(&self) {
        while !self.wait_for(Duration::from_hours(1)) {}
    }

    /// Waits at most `time`; true when it has been unmounted.
    pub fn wait_for(&self, time: Duration) -> bool {
        self.session.wait_over(time)
    }

    /// Takes it away, also when in use: then it goes when its last user does.
    pub fn unmount(&self) -> io::Result<()> {
        if self.session.wait_over(Duration::ZERO) {
            return Ok(());
        }
        kernel::unmount(&self.dir, true)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            tracing::warn!("unmounting {}: {error}", self.dir.display());
        }
    }
}
