//! `/dev/fuse`: getting it mounted, with or without root, and getting rid of the mount again.

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{Mode, OFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

/// Who may use a mount, and what it is called.
#[derive(Debug, Clone, Copy, Default)]
pub struct MountOptions<'a> {
    /// What `mount` shows as its source.
    pub source: &'a str,
    /// Also users other than the one who mounts.
    pub allow_other: bool,
    /// Nothing can be changed.
    pub read_only: bool,
    /// The kernel checks permissions with the attributes that we tell.
    pub default_permissions: bool,
    /// Reading leaves access times alone.
    pub no_atime: bool,
    /// Set-id bits count for nothing.
    pub no_suid: bool,
    /// Device nodes cannot be opened.
    pub no_dev: bool,
    /// Programs cannot be started.
    pub no_exec: bool,
}

impl MountOptions<'_> {
    /// What the kernel calls flags, each with its name and whether it is wanted.
    fn flags(&self) -> [(bool, libc::c_ulong, &'static str); 5] {
        [
            (self.read_only, libc::MS_RDONLY, "ro"),
            (self.no_atime, libc::MS_NOATIME, "noatime"),
            (self.no_suid, libc::MS_NOSUID, "nosuid"),
            (self.no_dev, libc::MS_NODEV, "nodev"),
            (self.no_exec, libc::MS_NOEXEC, "noexec"),
        ]
    }

    fn flag_bits(&self) -> libc::c_ulong {
        let wanted = self.flags().into_iter().filter(|(wanted, ..)| *wanted);
        wanted.fold(0, |all, (_, bit, _)| all | bit)
    }
}

/// The kernel's end of a mount.
#[derive(Debug)]
pub struct Device {
    fd: OwnedFd,
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Device {
    /// Mounts on `dir`: by the system call where that is allowed, else with fusermount3.
    pub fn mount(dir: &Path, options: MountOptions<'_>) -> io::Result<Device> {
        match mount_directly(dir, options) {
            Ok(fd) => Ok(Device { fd }),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let fd = mount_with_helper(dir, options)?;
                Ok(Device { fd })
            }
            Err(error) => Err(error),
        }
    }
}

fn mount_directly(dir: &Path, options: MountOptions<'_>) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())
        .map_err(|error| explain(error.into(), "cannot open /dev/fuse (is FUSE there?)"))?;
    let mut data = format!(
        "fd={},rootmode=40000,user_id={},group_id={}",
        fd.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw()
    );
    if options.default_permissions {
        data.push_str(",default_permissions");
    }
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let source = CString::new(options.source)?;
    let target = CString::new(dir.as_os_str().as_bytes())?;
    let data = CString::new(data)?;
    let flags = options.flag_bits();
    // SAFETY: all pointers are to strings that outlive the call.
    let result = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            c"fuse.trireme".as_ptr(),
            flags,
            data.as_ptr().cast(),
        )
    };
    if result == 0 {
        Ok(fd)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// fusermount3 opens the device, mounts it and passes it back over a socket.
fn mount_with_helper(dir: &Path, options: MountOptions<'_>) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    let (ours, theirs) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::empty(),
        None,
    )?;
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
    let mut words = format!("fsname={},subtype=trireme", options.source);
    for (wanted, word) in [
        (options.default_permissions, ",default_permissions"),
        (options.allow_other, ",allow_other"),
    ] {
        if wanted {
            words.push_str(word);
        }
    }
    for (wanted, _, word) in options.flags() {
        if wanted {
            words.push(',');
            words.push_str(word);
        }
    }
    let mut child = Command::new("fusermount3")
        .args(["-o", &words, "--"])
        .arg(dir)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .spawn()
        .map_err(|error| {
            explain(
                error,
                "mounting needs root or fusermount3 (Debian: package fuse3)",
            )
        })?;
    drop(theirs);
    let received = receive_descriptor(&ours);
    let status = child.wait()?;
    match received? {
        Some(fd) if status.success() => {
            rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
            Ok(fd)
        }
        _ => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "fusermount3 did not mount {} (its message is above)",
                dir.display()
            ),
        )),
    }
}

fn receive_descriptor(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0u8];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    rustix::net::recvmsg(
        socket,
        &mut [io::IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
            return Ok(descriptors.next());
        }
    }
    Ok(None)
}

fn explain(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Gives a mount that is there these flags and no others; who may use it stays.
pub fn remount(dir: &Path, options: MountOptions<'_>) -> io::Result<()> {
    let target = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::MS_REMOUNT | options.flag_bits();
    let nothing = std::ptr::null();
    // SAFETY: the pointer is to a string that outlives the call; this call does not look at the others.
    let result = unsafe { libc::mount(nothing, target.as_ptr(), nothing, flags, nothing.cast()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// How far the kernel reads ahead, where it can be told: enough to keep several servers busy.
pub const READ_AHEAD: usize = 4 << 20;

/// The kernel's own choice.
const READ_AHEAD_DEFAULT: usize = 128 << 10;

/// Tells the kernel how far to read ahead on a mount, which takes root; gives how far it does.
pub fn set_read_ahead(dir: &Path, bytes: usize) -> usize {
    use std::os::unix::fs::MetadataExt;
    let Ok(data) = std::fs::metadata(dir) else {
        return READ_AHEAD_DEFAULT;
    };
    let (major, minor) = (libc::major(data.dev()), libc::minor(data.dev()));
    let path = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    if let Err(error) = std::fs::write(&path, (bytes >> 10).to_string()) {
        tracing::debug!("{path}: {error}; the kernel reads 128 KiB ahead");
        return READ_AHEAD_DEFAULT;
    }
    bytes
}

/// Takes a mount away; `lazy` also when something is in use: it goes when its last user does.
pub fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let target = CString::new(dir.as_os_str().as_bytes())?;
    let flags = libc::UMOUNT_NOFOLLOW | if lazy { libc::MNT_DETACH } else { 0 };
    // SAFETY: the pointer is to a string that outlives the call.
    if unsafe { libc::umount2(target.as_ptr(), flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.kind() != io::ErrorKind::PermissionDenied {
        return Err(error);
    }
    let mut helper = Command::new("fusermount3");
    helper
        .arg(if lazy { "-uz" } else { "-u" })
        .arg("--")
        .arg(dir);
    let output = helper
        .output()
        .map_err(|error| explain(error, "unmounting needs root or fusermount3"))?;
    if output.status.success() {
        Ok(())
    } else {
        let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let kind = if text.contains("busy") {
            io::ErrorKind::ResourceBusy
        } else {
            io::ErrorKind::Other
        };
        Err(io::Error::new(kind, text))
    }
}
