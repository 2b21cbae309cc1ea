//! A file in memory: bytes are put into it and looked at without a slice, as others change them meanwhile.

use std::fs::File;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// The beginning of a file, shared with all who use it; goes when dropped.
pub struct Mapped {
    start: *mut u8,
    length: usize,
}

impl Mapped {
    pub fn of(file: &File, length: usize) -> Mapped {
        Mapped::with(file, length, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// The same of a file that is open for reading only.
    pub fn to_read(file: &File, length: usize) -> Mapped {
        Mapped::with(file, length, ProtFlags::READ)
    }

    fn with(file: &File, length: usize, access: ProtFlags) -> Mapped {
        let none = std::ptr::null_mut();
        // SAFETY: a fresh mapping, unmapped when dropped.
        let map = unsafe { rustix::mm::mmap(none, length, access, MapFlags::SHARED, file, 0) };
        Mapped {
            start: map.unwrap().cast(),
            length,
        }
    }

    /// The file must have that byte.
    pub fn put(&self, offset: usize, byte: u8) {
        assert!(offset < self.length);
        // SAFETY: within the mapping.
        unsafe { self.start.add(offset).write_volatile(byte) };
    }

    /// The file must have that byte.
    pub fn get(&self, offset: usize) -> u8 {
        assert!(offset < self.length);
        // SAFETY: within the mapping.
        unsafe { self.start.add(offset).read_volatile() }
    }

    /// Has the kernel write what was changed.
    pub fn sync(&self) {
        self.try_sync().unwrap();
    }

    /// The same where that may fail.
    pub fn try_sync(&self) -> rustix::io::Result<()> {
        // SAFETY: the whole mapping.
        unsafe { rustix::mm::msync(self.start.cast(), self.length, MsyncFlags::SYNC) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the whole mapping, which nobody uses after this.
        unsafe { rustix::mm::munmap(self.start.cast(), self.length).unwrap() };
    }
}
