//! Space of a subfile: reserving it, punching holes, finding what is stored.

use std::os::unix::fs::FileExt;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;

use super::Subfile;
use crate::StoreError;

/// What becomes of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocation {
    /// Space is reserved.
    Reserve,
    /// Space is given back.
    Punch,
    /// Zeroed, with its space.
    Zero,
}

/// Zeros are written in pieces of this size where the disk's file system cannot do it by itself.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

impl Subfile {
    /// Reserves, frees or zeroes a range; with `keep_size` the end stays where it is.
    pub fn allocate(
        &self,
        what: Allocation,
        keep_size: bool,
        offset: u64,
        length: u64,
    ) -> Result<(), StoreError> {
        let mut flags = match what {
            Allocation::Reserve => FallocateFlags::empty(),
            Allocation::Punch => FallocateFlags::PUNCH_HOLE,
            Allocation::Zero => FallocateFlags::ZERO_RANGE,
        };
        if keep_size || what == Allocation::Punch {
            flags |= FallocateFlags::KEEP_SIZE;
        }
        if what == Allocation::Reserve {
            self.check_space(length)?;
        }
        // Alone: nobody's newer bytes are zeroed by the slow way below.
        let _alone = self.change.write().expect("no panic under this lock");
        match fallocate(self.file(), flags, offset, length) {
            Ok(()) => Ok(()),
            Err(Errno::OPNOTSUPP) if what != Allocation::Reserve => {
                self.write_zeros(keep_size || what == Allocation::Punch, offset, length)
            }
            Err(error) => Err(StoreError::io("allocate", &self.path)(error.into())),
        }
    }

    /// Refuses what cannot be had: file systems reserve until the disk is full before they say so, and
    /// keep it.
    fn check_space(&self, length: u64) -> Result<(), StoreError> {
        let named = StoreError::io("reserve space for", &self.path);
        let space = match rustix::fs::fstatvfs(self.file()) {
            Ok(space) => space.f_bavail.saturating_mul(space.f_frsize),
            Err(error) => return Err(named(error.into())),
        };
        let stored = match rustix::fs::fstat(self.file()) {
            Ok(stat) => (stat.st_blocks as u64).saturating_mul(512),
            Err(error) => return Err(named(error.into())),
        };
        if length.saturating_sub(stored) > space {
            return Err(named(Errno::NOSPC.into()));
        }
        Ok(())
    }

    fn write_zeros(&self, keep_size: bool, offset: u64, length: u64) -> Result<(), StoreError> {
        let mut end = offset + length;
        if keep_size {
            end = end.min(self.stat()?.size);
        }
        let mut at = offset;
        while at < end {
            let part = (end - at).min(ZEROS.len() as u64);
            self.file()
                .write_all_at(&ZEROS[..part as usize], at)
                .map_err(StoreError::io("zero", &self.path))?;
            at += part;
        }
        Ok(())
    }

    /// The next stored byte at or behind `offset`.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>, StoreError> {
        match seek(self.file(), SeekFrom::Data(offset)) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NXIO) => Ok(None),
            Err(error) => Err(StoreError::io("seek in", &self.path)(error.into())),
        }
    }

    /// The next byte at or behind `offset` that is not stored; the end counts as one.
    pub fn next_hole(&self, offset: u64) -> Result<u64, StoreError> {
        match seek(self.file(), SeekFrom::Hole(offset)) {
            Ok(found) => Ok(found),
            Err(Errno::NXIO) => Ok(offset),
            Err(error) => Err(StoreError::io("seek in", &self.path)(error.into())),
        }
    }
}
