//! File pointers: the individual one in this process, the shared one in a small file beside the file.

use std::ffi::c_int;

use trireme::{File, OpenOptions};
use trireme_proto::message::meta::LockRange;

use crate::class::{Class, Failure, Result};
use crate::open::{Open, lock};

/// `MPI_SEEK_*`: the same numbers in every MPI.
const SEEK_SET: c_int = 600;
const SEEK_CUR: c_int = 602;
const SEEK_END: c_int = 604;

impl Open {
    /// Where a seek leads, in bytes of the view.
    pub fn target(&self, offset: i64, whence: c_int, current: u64) -> Result<u64> {
        let view = self.view();
        let bad = |why: String| Failure::new(Class::Arg, why);
        let base = match whence {
            SEEK_SET => 0,
            SEEK_CUR => current,
            SEEK_END => {
                // The first whole elementary item behind the end.
                view.unfold(u64::MAX, 0);
                let end = view.visible(self.file.size()?);
                end.next_multiple_of(view.unit)
            }
            other => return Err(bad(format!("{other} is no way to seek"))),
        };
        let place = i128::from(base) + i128::from(offset) * i128::from(view.unit);
        u64::try_from(place)
            .ok()
            .filter(|place| i64::try_from(*place).is_ok())
            .ok_or_else(|| bad(format!("seeking to byte {place} of the view")))
    }

    /// Reads the shared pointer and leaves what `next` makes of it.
    pub fn move_shared(&self, next: impl FnOnce(u64) -> Result<u64>) -> Result<u64> {
        let _mine = lock(&self.shared);
        let file = self.shared_file()?;
        let range = LockRange {
            inode: file.inode(),
            owner: u64::from(std::process::id()),
            flock: false,
            start: 0,
            end: 8,
            exclusive: true,
            pid: std::process::id(),
        };
        let patience = self.cluster.options().deadline;
        let _held = self.cluster.namespace().lock(range, patience)?;
        let mut bytes = [0; 8];
        file.read_at(&mut bytes, 0)?;
        let old = u64::from_le_bytes(bytes);
        let new = next(old)?;
        if new != old {
            file.write_at(&new.to_le_bytes(), 0)?;
        }
        Ok(old)
    }

    /// Sets the shared pointer; for one process on behalf of all.
    pub fn store_shared(&self, value: u64) -> Result<()> {
        self.move_shared(|_| Ok(value)).map(drop)
    }

    /// The shared pointer stands at 0 again if it was ever used; for one process on behalf of all.
    pub fn reset_shared(&self) -> Result<()> {
        match self.cluster.namespace().stat(self.shared_path()) {
            Ok(_) => self.store_shared(0),
            Err(error) if error.errno() == libc::ENOENT => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the shared pointer when the file is closed.
    pub fn forget_shared(&self) -> Result<()> {
        // Others may still be using it.
        self.comm.meet()?;
        if self.comm.rank != 0 {
            return Ok(());
        }
        match self.cluster.namespace().unlink(self.shared_path()) {
            Err(error) if error.errno() != libc::ENOENT => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn shared_path(&self) -> String {
        format!("{}.shared-{:016x}", self.path, self.number)
    }

    fn shared_file(&self) -> Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        Ok(options.open(&self.cluster, self.shared_path())?)
    }

    /// Where this process's bytes go in an operation in the order of ranks; all processes call it.
    pub fn ordered(&self, bytes: u64) -> Result<u64> {
        let all = self.comm.gather(bytes.to_le_bytes())?;
        let sizes = all.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let total: u64 = sizes.clone().sum();
        let before: u64 = sizes.take(self.comm.rank as usize).sum();
        let moved = if self.comm.rank == 0 {
            self.move_shared(|old| Ok(old + total))
        } else {
            Ok(0)
        };
        let base = *moved.as_ref().unwrap_or(&0);
        self.comm.agree(moved)?;
        let base = u64::from_le_bytes(self.comm.broadcast(base.to_le_bytes())?);
        Ok(base + before)
    }
}
