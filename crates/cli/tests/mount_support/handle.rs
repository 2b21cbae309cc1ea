//! File handles, by which programs come back to a file without its name: two system calls that the
//! libraries do not wrap.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The kernel's `struct file_handle` with room for any.
#[repr(C)]
#[derive(Clone)]
pub struct Handle {
    bytes: u32,
    kind: i32,
    content: [u8; ROOM],
}

/// `MAX_HANDLE_SZ`.
const ROOM: usize = 128;

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_raw_os_error(error.raw_os_error().unwrap_or(5))
}

/// The handle of what a path names; a symbolic link is itself.
pub fn of(path: &Path) -> Result<Handle, Errno> {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let mut handle = Handle {
        bytes: ROOM as u32,
        kind: 0,
        content: [0; ROOM],
    };
    let mut mount = 0;
    // SAFETY: the string outlives the call, and the handle has the room that it says.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    };
    if result == 0 {
        Ok(handle)
    } else {
        Err(last_error())
    }
}

/// Opens what a handle names, on the file system of `place`.
pub fn open(place: &Path, handle: &Handle, flags: OFlags) -> Result<OwnedFd, Errno> {
    let place = rustix::fs::open(place, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the descriptor and the handle outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_open_by_handle_at,
            place.as_raw_fd(),
            std::ptr::from_ref(handle),
            flags.bits(),
        )
    };
    if result < 0 {
        return Err(last_error());
    }
    // SAFETY: the call gave it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}
