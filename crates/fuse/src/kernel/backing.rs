//! Files of this host that the kernel reads by itself in place of a file of the mount.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use super::abi::BackingMap;
use super::request::Notifier;
use super::session::Shared;

/// `FUSE_DEV_IOC_BACKING_OPEN` and `FUSE_DEV_IOC_BACKING_CLOSE`, as `linux/fuse.h` makes them.
const OPEN: libc::c_ulong = to_kernel(1, size_of::<BackingMap>());
const CLOSE: libc::c_ulong = to_kernel(2, size_of::<u32>());

const fn to_kernel(number: libc::c_ulong, size: usize) -> libc::c_ulong {
    const WRITE: libc::c_ulong = 1;
    const FUSE: libc::c_ulong = 229;
    WRITE << 30 | (size as libc::c_ulong) << 16 | FUSE << 8 | number
}

/// A file that the kernel knows under a number; it forgets the number when this is dropped, and the file when
/// nobody has it open any more.
#[derive(Debug)]
pub struct Backing {
    shared: Arc<Shared>,
    /// What `OPEN` is answered with.
    pub number: i32,
}

/// Whether whoever looks at a local file's times can tell whether it was written since the last look, however
/// soon that was: before Linux 6.13 they moved a few times in a hundredth of a second only.
pub fn times_tell_all() -> bool {
    let release = rustix::system::uname();
    is_from(&release.release().to_string_lossy(), (6, 13))
}

fn is_from(release: &str, least: (u32, u32)) -> bool {
    let mut numbers = release.split(['.', '-']).map(|word| word.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    (next(), next()) >= least
}

impl Notifier {
    /// Whether the kernel takes files from this process at all: it must be able to, and this be root.
    pub fn takes_files(&self) -> bool {
        let nothing = self.map(-1);
        matches!(nothing, Err(error) if error.raw_os_error() == Some(libc::EBADF))
    }

    /// Has the kernel know a file.
    pub fn back(&self, file: BorrowedFd<'_>) -> io::Result<Backing> {
        Ok(Backing {
            number: self.map(file.as_raw_fd())?,
            shared: self.shared.clone(),
        })
    }

    fn map(&self, fd: i32) -> io::Result<i32> {
        let what = BackingMap {
            fd,
            ..BackingMap::default()
        };
        let device = self.shared.device.as_fd().as_raw_fd();
        // SAFETY: an open descriptor, and a structure of the size that the request's number says, which is read.
        let number = unsafe { libc::ioctl(device, OPEN, &raw const what) };
        if number > 0 {
            Ok(number)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        let device = self.shared.device.as_fd().as_raw_fd();
        // SAFETY: as above.
        let gone = unsafe { libc::ioctl(device, CLOSE, &raw const self.number) };
        if gone != 0 {
            tracing::debug!(
                "backing file {}: {}",
                self.number,
                io::Error::last_os_error()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_number_by_number() {
        for (release, from) in [
            ("6.13.0-rc1", true),
            ("6.13-arch", true),
            ("7.0.1", true),
            ("6.9.12", false),
            ("5.19.0-generic", false),
            ("what", false),
        ] {
            assert_eq!(is_from(release, (6, 13)), from, "{release}");
        }
    }
}
