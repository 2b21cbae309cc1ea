//! Subfiles on local disks: what one I/O server holds of each file, densely packed.
//!
//! A disk is a directory. In it are a label (`trireme-store`: format, server, incarnation) and
//! `data/XX/NNNNNNNNNNNNNNNN`, one ordinary file per subfile, named by the file's number in
//! hexadecimal and by nothing else: no client string ever becomes a path.
//!
//! Reads and writes go through the page cache unless told otherwise ([`Options`]): what was written
//! survives the death of the process, and a sync makes it survive the machine's.
//! All bytes pass through [`Subfile`], which is where checksums will be made and checked.

mod disk;
mod engine;
mod error;
mod label;
mod physical;
mod probe;
pub mod range_lock;
mod subfile;
mod uring;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use disk::Disk;
pub use disk::Space;
pub use engine::{Aligned, Engine};
pub use error::StoreError;
pub use physical::Positions;
pub use probe::{Event, Probe};
pub use subfile::{Allocation, Stat, Subfile};

/// How a store works with its disks; the default is what measured best (`trireme bench disk`).
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// What carries requests to the kernel.
    pub engine: Engine,
    /// Past the page cache: for devices that are faster than a copy, and data that nobody reads soon.
    pub direct: bool,
    /// Sees everything; for tests.
    pub probe: Option<Arc<dyn Probe>>,
    /// The name of this boot of the machine; for tests. `None`: ask the kernel.
    pub boot: Option<String>,
}

impl Options {
    pub(crate) fn saw(&self, event: Event<'_>) -> std::io::Result<()> {
        self.probe.as_ref().map_or(Ok(()), |probe| probe.saw(event))
    }
}

/// All disks of one I/O server.
#[derive(Debug)]
pub struct Store {
    disks: Vec<Disk>,
    incarnation: Arc<AtomicU64>,
}

impl Store {
    /// Opens the disks, making those that do not exist; a disk of another server or
    /// cluster, or one that another process uses, is refused.
    pub fn open(dirs: &[PathBuf], server: u32, cluster: u64) -> Result<Store, StoreError> {
        Store::open_with(dirs, server, cluster, &Options::default())
    }

    /// The same, working with the disks in another way.
    pub fn open_with(
        dirs: &[PathBuf],
        server: u32,
        cluster: u64,
        options: &Options,
    ) -> Result<Store, StoreError> {
        if dirs.is_empty() {
            return Err(StoreError::NoDisk);
        }
        if options.engine == Engine::Uring {
            uring::available().map_err(StoreError::NoRing)?;
        }
        let disks = dirs
            .iter()
            .map(|dir| Disk::open(dir, server, cluster, options))
            .collect::<Result<Vec<_>, _>>()?;
        // Any disk that may have lost something makes the whole server a new one.
        let incarnation = disks.iter().fold(0u64, |all, disk| {
            all.rotate_left(1).wrapping_add(disk.label().incarnation)
        });
        Ok(Store {
            disks,
            incarnation: Arc::new(AtomicU64::new(incarnation.max(1))),
        })
    }

    /// A number that changes whenever acknowledged bytes may have been lost: the machine went
    /// down without a clean stop, or the kernel could not write something back.
    pub fn incarnation(&self) -> Arc<AtomicU64> {
        self.incarnation.clone()
    }

    /// A subfile that exists.
    pub fn find(&self, file: u64) -> Result<Option<Arc<Subfile>>, StoreError> {
        self.disk(file).subfile(file, false)
    }

    /// A subfile, made if need be.
    pub fn find_or_make(&self, file: u64) -> Result<Arc<Subfile>, StoreError> {
        self.disk(file)
            .subfile(file, true)
            .map(|subfile| subfile.expect("made if missing"))
    }

    /// Refuses, with `EFBIG`, an end that a subfile cannot have on its disk; nothing is made or changed.
    pub fn check_end(&self, file: u64, end: u64) -> Result<(), StoreError> {
        self.disk(file).check_end(end)
    }

    /// Makes a subfile durable. When the kernel reports that it could not, everything not yet synced
    /// on this server counts as lost: the kernel says it once and then forgets.
    pub fn sync(&self, file: u64) -> Result<(), StoreError> {
        let Some(subfile) = self.find(file)? else {
            return Ok(());
        };
        subfile
            .sync(|| self.disk(file).sync_folder(file))
            .inspect_err(|error| {
                tracing::error!("{error}: what was not synced before counts as lost");
                let disk = self.disk(file);
                disk.mark_lost();
                self.incarnation.fetch_add(2, Ordering::SeqCst);
            })
    }

    /// Removes a subfile; one that does not exist is fine.
    pub fn remove(&self, file: u64) -> Result<(), StoreError> {
        self.disk(file).remove(file)
    }

    /// Up to `limit` numbers greater than `after`, ascending, each with its birth (ns since 1970).
    pub fn list(&self, after: u64, limit: usize) -> Result<Vec<(u64, i64)>, StoreError> {
        let mut all = Vec::new();
        for disk in &self.disks {
            disk.list(after, &mut all)?;
        }
        all.sort_unstable();
        all.truncate(limit);
        Ok(all)
    }

    /// Bytes over all disks.
    pub fn space(&self) -> Result<Space, StoreError> {
        let mut sum = Space { total: 0, free: 0 };
        for disk in &self.disks {
            let space = disk.space()?;
            sum.total += space.total;
            sum.free += space.free;
        }
        Ok(sum)
    }

    /// A name for each disk that no other disk has: other servers on the same one give it the same.
    pub fn disk_names(&self) -> Result<Vec<String>, StoreError> {
        self.disks.iter().map(Disk::name).collect()
    }

    /// Writes everything to the disks and marks them as cleanly stopped.
    pub fn stop(&self) -> Result<(), StoreError> {
        self.disks.iter().try_for_each(Disk::stop)
    }

    /// Which disk a file is on: fixed by its number, for ever.
    fn disk(&self, file: u64) -> &Disk {
        &self.disks[(file % self.disks.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests;
