//! Memory that a client shares with a server on the same host: payloads lie there instead of
//! going through the socket, which saves one copy and most of the system's work per byte.
//!
//! A sealed memfd: it cannot shrink under the server's hands. The client may change the bytes while
//! the server reads them, which only spoils the client's own data; so the server never
//! makes a Rust slice of it but hands the address to the kernel.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Largest window that a server maps for one connection. It costs the server address space only:
/// the memory is the client's.
pub const WINDOW_BYTES: u64 = 1 << 30;

/// A mapped window.
#[derive(Debug)]
pub struct Window {
    fd: OwnedFd,
    address: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is plain memory that stays until drop; access is through raw addresses only,
// and callers say in which ranges they write.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// A new window, to be shared.
    pub fn create(length: usize) -> io::Result<Window> {
        let fd = rustix::fs::memfd_create(
            "trireme-window",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        rustix::fs::ftruncate(&fd, length as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
        Window::map(fd, length)
    }

    /// Maps what a client shares; refused unless it can never shrink.
    pub fn open(fd: OwnedFd, length: u64) -> io::Result<Window> {
        let seals = rustix::fs::fcntl_get_seals(&fd)?;
        let size = rustix::fs::fstat(&fd)?.st_size as u64;
        if !seals.contains(SealFlags::SHRINK) || length == 0 || length > size.min(WINDOW_BYTES) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a window must be sealed against shrinking and not larger than the limit",
            ));
        }
        Window::map(fd, length as usize)
    }

    fn map(fd: OwnedFd, length: usize) -> io::Result<Window> {
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )?
        };
        let address = NonNull::new(address.cast()).expect("a mapping is never at zero");
        Ok(Window {
            fd,
            address,
            length,
        })
    }

    /// Where `bytes` lie in the window, if all of them do.
    pub fn place_of(&self, bytes: &[u8]) -> Option<u64> {
        let place = (bytes.as_ptr() as usize).checked_sub(self.address.as_ptr() as usize)?;
        self.at(place as u64, bytes.len() as u64)?;
        Some(place as u64)
    }

    /// Bytes of the window.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Address of `length` bytes at `place`; `None` if they are not all inside.
    pub fn at(&self, place: u64, length: u64) -> Option<*mut u8> {
        let end = place.checked_add(length)?;
        if end > self.length as u64 {
            return None;
        }
        // SAFETY: `place` is inside the mapping.
        Some(unsafe { self.address.as_ptr().add(place as usize) })
    }

    /// Copies `bytes` to `place`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn put(&mut self, place: usize, bytes: &[u8]) {
        let to = self
            .at(place as u64, bytes.len() as u64)
            .expect("inside the window");
        // SAFETY: the range is inside the mapping, `bytes` is not (nobody else has a slice of it).
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }
}

impl AsFd for Window {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: mapped by us with this length, and nobody keeps an address beyond our life.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_see_the_same_bytes() {
        let mut ours = Window::create(8192).unwrap();
        ours.put(100, b"hello");
        let theirs = Window::open(ours.fd.try_clone().unwrap(), 8192).unwrap();
        let at = theirs.at(100, 5).unwrap();
        // SAFETY: inside the mapping, nobody writes now.
        assert_eq!(unsafe { std::slice::from_raw_parts(at, 5) }, b"hello");
        assert!(theirs.at(8190, 3).is_none());
        assert!(theirs.at(u64::MAX, 3).is_none());
    }

    #[test]
    fn memory_that_could_shrink_is_refused() {
        let fd = rustix::fs::memfd_create("x", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(Window::open(fd, 4096).is_err());
        let ours = Window::create(4096).unwrap();
        assert!(Window::open(ours.fd.try_clone().unwrap(), 8192).is_err());
        let file = tempfile::tempfile().unwrap();
        file.set_len(4096).unwrap();
        assert!(Window::open(file.into(), 4096).is_err(), "an ordinary file");
    }
}
