//! One subfile: exact reads and writes at offsets, size, durability.

mod sparse;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::StoreError;
pub use sparse::Allocation;

/// What is known of a subfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// Bytes, holes included.
    pub size: u64,
    /// Bytes on disk.
    pub stored: u64,
    /// Last change, nanoseconds since 1970.
    pub modified_ns: i64,
}

/// An open subfile.
#[derive(Debug)]
pub struct Subfile {
    file: File,
    path: PathBuf,
    /// Its directory entry is known to be durable.
    named: AtomicBool,
    removed: AtomicBool,
    /// Writers share it; who reads, changes and writes back has it alone, so that nobody's bytes are
    /// put back over newer ones.
    change: RwLock<()>,
}

impl Subfile {
    pub(crate) fn new(file: File, path: PathBuf) -> Subfile {
        Subfile {
            file,
            path,
            named: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            change: RwLock::new(()),
        }
    }

    /// Reads up to the end of the subfile; gives the number of bytes read.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, StoreError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self
                .file
                .read_at(&mut buffer[filled..], offset + filled as u64)
            {
                Ok(0) => break,
                Ok(got) => filled += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StoreError::io("read", &self.path)(error)),
            }
        }
        Ok(filled)
    }

    /// Writes all bytes.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<(), StoreError> {
        let _with_others = self.change.read().expect("no panic under this lock");
        self.file
            .write_all_at(buffer, offset)
            .map_err(StoreError::io("write", &self.path))
    }

    /// Writes runs of bytes, one after the other, from memory that others may change meanwhile: one
    /// system call, so that other writers of the subfile wait once and not once per run.
    ///
    /// # Safety
    /// Each address must be mapped and readable for its length while this runs.
    pub unsafe fn write_raw_at(
        &self,
        runs: &[(*const u8, usize)],
        mut offset: u64,
    ) -> Result<(), StoreError> {
        use std::os::fd::AsRawFd;
        let _with_others = self.change.read().expect("no panic under this lock");
        let mut slices: Vec<libc::iovec> = runs
            .iter()
            .map(|&(address, length)| libc::iovec {
                iov_base: address.cast_mut().cast(),
                iov_len: length,
            })
            .collect();
        let mut rest = &mut slices[..];
        while let Some(first) = rest.first_mut() {
            if first.iov_len == 0 {
                rest = &mut rest[1..];
                continue;
            }
            let count = rest.len().min(libc::UIO_MAXIOV as usize);
            // SAFETY: the caller's promise; the kernel copies and checks every access itself.
            let wrote = unsafe {
                libc::pwritev(
                    self.file.as_raw_fd(),
                    rest.as_ptr(),
                    count as libc::c_int,
                    offset as libc::off_t,
                )
            };
            if wrote < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(StoreError::io("write", &self.path)(error));
                }
                continue;
            }
            if wrote == 0 {
                let error = io::ErrorKind::WriteZero.into();
                return Err(StoreError::io("write", &self.path)(error));
            }
            offset += wrote as u64;
            let mut wrote = wrote as usize;
            while wrote > 0 {
                let step = wrote.min(rest[0].iov_len);
                rest[0].iov_base = rest[0].iov_base.wrapping_byte_add(step);
                rest[0].iov_len -= step;
                wrote -= step;
                if rest[0].iov_len == 0 {
                    rest = &mut rest[1..];
                }
            }
        }
        Ok(())
    }

    /// Fills runs of memory, one after the other, from `offset` on; zeros where the subfile ends. One
    /// system call when it can.
    ///
    /// # Safety
    /// Each address must be mapped and writable for its length while this runs, and nobody may hold
    /// a slice of it.
    pub unsafe fn read_raw_at(
        &self,
        runs: &[(*mut u8, usize)],
        mut offset: u64,
    ) -> Result<(), StoreError> {
        use std::os::fd::AsRawFd;
        let mut slices: Vec<libc::iovec> = runs
            .iter()
            .map(|&(address, length)| libc::iovec {
                iov_base: address.cast(),
                iov_len: length,
            })
            .collect();
        let mut rest = &mut slices[..];
        loop {
            while rest.first().is_some_and(|first| first.iov_len == 0) {
                rest = &mut std::mem::take(&mut rest)[1..];
            }
            if rest.is_empty() {
                return Ok(());
            }
            let count = rest.len().min(libc::UIO_MAXIOV as usize);
            // SAFETY: the caller's promise; the kernel copies and checks every access itself.
            let got = unsafe {
                libc::preadv(
                    self.file.as_raw_fd(),
                    rest.as_ptr(),
                    count as libc::c_int,
                    offset as libc::off_t,
                )
            };
            if got < 0 {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(StoreError::io("read", &self.path)(error));
                }
                continue;
            }
            if got == 0 {
                for slice in rest {
                    // SAFETY: the caller's promise.
                    unsafe { slice.iov_base.cast::<u8>().write_bytes(0, slice.iov_len) };
                }
                return Ok(());
            }
            offset += got as u64;
            let mut got = got as usize;
            for slice in &mut *rest {
                let step = got.min(slice.iov_len);
                slice.iov_base = slice.iov_base.wrapping_byte_add(step);
                slice.iov_len -= step;
                got -= step;
            }
        }
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Whether the subfile still has its name; a removed one takes no more bytes for anybody.
    pub fn is_linked(&self) -> bool {
        !self.removed.load(Ordering::Acquire)
    }

    pub(crate) fn mark_removed(&self) {
        self.removed.store(true, Ordering::Release);
    }

    /// Reads `window` from `offset`, lets `change` put its bytes in, and writes it back, with no other
    /// writer in between. Bytes beyond the subfile's end are zero before.
    pub fn change_at(
        &self,
        window: &mut [u8],
        offset: u64,
        change: impl FnOnce(&mut [u8]),
    ) -> Result<(), StoreError> {
        let _alone = self.change.write().expect("no panic under this lock");
        let got = self.read_at(window, offset)?;
        window[got..].fill(0);
        change(window);
        self.file
            .write_all_at(window, offset)
            .map_err(StoreError::io("write", &self.path))
    }

    /// Sets the size; new bytes are zero.
    pub fn truncate(&self, size: u64) -> Result<(), StoreError> {
        let _with_others = self.change.read().expect("no panic under this lock");
        self.file
            .set_len(size)
            .map_err(StoreError::io("truncate", &self.path))
    }

    /// Size and times.
    pub fn stat(&self) -> Result<Stat, StoreError> {
        let data = self
            .file
            .metadata()
            .map_err(StoreError::io("stat", &self.path))?;
        Ok(Stat {
            size: data.size(),
            stored: data.blocks() * 512,
            modified_ns: data.mtime() * 1_000_000_000 + data.mtime_nsec(),
        })
    }

    /// Bytes and size to the disk, and the first time also the name.
    pub(crate) fn sync(
        &self,
        sync_folder: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(StoreError::io("sync", &self.path))?;
        if !self.named.load(Ordering::Acquire) {
            sync_folder().map_err(StoreError::io("sync the folder of", &self.path))?;
            self.named.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl AsFd for Subfile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
