//! The kernel's switch that ends a mount for everybody at once (fusectl).
//!
//! When a mount's process is killed, the kernel ends the mount as soon as the last of its threads is gone. But one
//! that has the kernel forget pages waits for those that are being written, by requests that nobody will answer any
//! more, and does not hear that it was killed. Somebody else has to end the mount then.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where administrators have the switches; whoever made a mount may use its switch there.
const USUAL: &str = "/sys/fs/fuse/connections";

/// The switch of one mount, and of no other that comes to the same place later.
#[derive(Debug)]
pub struct AbortSwitch(File);

impl AbortSwitch {
    /// Of what is mounted on `dir`. Takes root where the switches are nowhere to be seen.
    pub fn of(dir: &Path) -> io::Result<AbortSwitch> {
        let mount = libc::minor(std::fs::metadata(dir)?.dev());
        let name = format!("{mount}/abort");
        let usual = Path::new(USUAL).join(&name);
        let switch = File::options().write(true).open(usual);
        switch.or_else(|_| open_unseen(&name)).map(AbortSwitch)
    }

    /// What it was given to somebody else as.
    pub fn from_file(file: File) -> AbortSwitch {
        AbortSwitch(file)
    }

    /// To give it to somebody else.
    pub fn into_file(self) -> File {
        self.0
    }

    /// Everybody who waits for the mount gets an error, and it serves nobody any more. An error: it had ended.
    pub fn abort(&self) -> io::Result<()> {
        rustix::io::write(&self.0, b"1")?;
        Ok(())
    }
}

/// Opens a switch without mounting them anywhere.
fn open_unseen(name: &str) -> io::Result<File> {
    let context = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(context.as_fd())?;
    let none = MountAttrFlags::empty();
    let tree = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, none)?;
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    let switch = rustix::fs::openat(&tree, name, flags, Mode::empty())?;
    Ok(File::from(switch))
}
