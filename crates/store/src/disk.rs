//! One local directory: where its subfiles are, which are open, how much room is left.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::label::{self, Label};
use crate::{Event, Options, StoreError, Subfile};

/// Subfiles kept open per disk: well under the usual limit of 1024 descriptors per process is too
/// few for busy servers, which raise their limit at start.
const OPEN_SUBFILES: usize = 4096;

/// Folders under `data`: each stays small enough to list and sync quickly.
const FOLDERS: u64 = 256;

/// Bytes of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// All.
    pub total: u64,
    /// Free for this user.
    pub free: u64,
}

#[derive(Debug)]
pub(crate) struct Disk {
    dir: PathBuf,
    options: Options,
    label: Mutex<Label>,
    open: Mutex<HashMap<u64, Slot>>,
    clock: AtomicU64,
    /// Held for the life of the process: two servers on one directory would be two truths.
    lock: File,
}

#[derive(Debug)]
struct Slot {
    subfile: Arc<Subfile>,
    used: u64,
}

impl Disk {
    pub(crate) fn open(
        dir: &Path,
        server: u32,
        cluster: u64,
        options: &Options,
    ) -> Result<Disk, StoreError> {
        fs::create_dir_all(dir).map_err(StoreError::io("create", dir))?;
        let lock_path = dir.join("lock");
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(StoreError::io("open", &lock_path))?;
        let operation = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        if rustix::fs::flock(&lock, operation).is_err() {
            return Err(StoreError::Foreign {
                path: dir.into(),
                why: "another server uses this directory: stop it first (`trireme down`)".into(),
            });
        }
        if options.direct {
            crate::engine::probe_direct(dir).map_err(|source| StoreError::Foreign {
                path: dir.into(),
                why: format!(
                    "its file system takes no direct requests ({source}): leave --direct away"
                ),
            })?;
        }
        let path = dir.join("trireme-store");
        let boot = options.boot.clone().unwrap_or_else(label::boot);
        let label = match Label::read(&path)? {
            Some(found) => {
                let ours = found.server == server
                    && (found.cluster == cluster || found.cluster == 0 || cluster == 0);
                if !ours {
                    return Err(StoreError::Foreign {
                        path: dir.into(),
                        why: format!(
                            "belongs to server {} of cluster {}, not to server {server} of cluster {cluster}",
                            found.server, found.cluster
                        ),
                    });
                }
                let started = found.start(&boot, label::fresh());
                Label {
                    cluster: started.cluster.max(cluster),
                    ..started
                }
            }
            None => Label {
                server,
                cluster,
                incarnation: label::fresh(),
                boot,
                clean: false,
            },
        };
        for folder in 0..FOLDERS {
            let folder = dir.join(format!("data/{folder:02x}"));
            options
                .saw(Event::MakeFolder(&folder))
                .and_then(|()| fs::create_dir_all(&folder))
                .map_err(StoreError::io("create", &folder))?;
        }
        let data = dir.join("data");
        options
            .saw(Event::SyncFolder(&data))
            .and_then(|()| File::open(&data)?.sync_all())
            .map_err(StoreError::io("sync", &data))?;
        // Also makes the name of `data` itself durable.
        label.write(&path, options)?;
        Ok(Disk {
            dir: dir.into(),
            options: options.clone(),
            label: Mutex::new(label),
            open: Mutex::new(HashMap::new()),
            clock: AtomicU64::new(0),
            lock,
        })
    }

    pub(crate) fn label(&self) -> Label {
        self.label.lock().expect("no panic under this lock").clone()
    }

    fn folder(&self, file: u64) -> PathBuf {
        self.dir.join(format!("data/{:02x}", file % FOLDERS))
    }

    fn path(&self, file: u64) -> PathBuf {
        self.folder(file).join(format!("{file:016x}"))
    }

    pub(crate) fn subfile(
        &self,
        file: u64,
        make: bool,
    ) -> Result<Option<Arc<Subfile>>, StoreError> {
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock().expect("no panic under this lock");
        if let Some(slot) = open.get_mut(&file) {
            slot.used = now;
            return Ok(Some(slot.subfile.clone()));
        }
        let path = self.path(file);
        let mut how = OpenOptions::new();
        how.read(true).write(true);
        let opened = match how.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if !make {
                    return Ok(None);
                }
                self.options
                    .saw(Event::Make(&path))
                    .and_then(|()| how.create(true).truncate(false).open(&path))
            }
            opened => opened,
        };
        let subfile = opened
            .and_then(|file| Subfile::new(file, path.clone(), &self.options))
            .map_err(StoreError::io("open", &path))?;
        let subfile = Arc::new(subfile);
        if open.len() >= OPEN_SUBFILES {
            // The older half goes, but for those in use: two of one file would not know of each other's
            // locks.
            let mut ages: Vec<u64> = open.values().map(|slot| slot.used).collect();
            let middle = ages.len() / 2;
            let age = *ages.select_nth_unstable(middle).1;
            open.retain(|_, slot| slot.used > age || Arc::strong_count(&slot.subfile) > 1);
        }
        open.insert(
            file,
            Slot {
                subfile: subfile.clone(),
                used: now,
            },
        );
        Ok(Some(subfile))
    }

    pub(crate) fn sync_folder(&self, file: u64) -> io::Result<()> {
        let folder = self.folder(file);
        self.options.saw(Event::SyncFolder(&folder))?;
        File::open(folder)?.sync_all()
    }

    pub(crate) fn remove(&self, file: u64) -> Result<(), StoreError> {
        let mut open = self.open.lock().expect("no panic under this lock");
        if let Some(slot) = open.remove(&file) {
            slot.subfile.mark_removed();
        }
        let path = self.path(file);
        let removed = self
            .options
            .saw(Event::Remove(&path))
            .and_then(|()| fs::remove_file(&path));
        match removed {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.map_err(StoreError::io("remove", &path)),
        }
    }

    pub(crate) fn list(&self, after: u64, into: &mut Vec<(u64, i64)>) -> Result<(), StoreError> {
        use std::os::unix::fs::MetadataExt;
        for folder in 0..FOLDERS {
            let folder = self.dir.join(format!("data/{folder:02x}"));
            let entries = fs::read_dir(&folder).map_err(StoreError::io("list", &folder))?;
            for entry in entries {
                let entry = entry.map_err(StoreError::io("list", &folder))?;
                let name = entry.file_name();
                let Some(file) = name
                    .to_str()
                    .filter(|name| name.len() == 16)
                    .and_then(|name| u64::from_str_radix(name, 16).ok())
                else {
                    continue;
                };
                if file > after {
                    let born = match entry.metadata() {
                        Ok(data) => data.ctime() * 1_000_000_000 + data.ctime_nsec(),
                        Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                        Err(error) => return Err(StoreError::io("stat", &folder)(error)),
                    };
                    into.push((file, born));
                }
            }
        }
        Ok(())
    }

    /// `EFBIG` where the file system has no files as long as `end`, without trying to make one: it tells by
    /// where it lets one seek to.
    pub(crate) fn check_end(&self, end: u64) -> Result<(), StoreError> {
        match rustix::fs::seek(&self.lock, SeekFrom::Start(end)) {
            Err(Errno::INVAL) => {
                let named = StoreError::io("keep a file that long in", &self.dir);
                Err(named(Errno::FBIG.into()))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn space(&self) -> Result<Space, StoreError> {
        let stat = rustix::fs::statvfs(&self.dir)
            .map_err(|error| StoreError::io("statvfs", &self.dir)(error.into()))?;
        Ok(Space {
            total: stat.f_blocks * stat.f_frsize,
            free: stat.f_bavail * stat.f_frsize,
        })
    }

    /// The host, as long as it runs, and the file system.
    pub(crate) fn name(&self) -> Result<String, StoreError> {
        use std::os::unix::fs::MetadataExt;
        let data = std::fs::metadata(&self.dir).map_err(StoreError::io("stat", &self.dir))?;
        Ok(format!("{} {:x}", label::boot(), data.dev()))
    }

    /// Unsynced bytes are gone: the next run must not pretend otherwise either.
    pub(crate) fn mark_lost(&self) {
        let mut label = self.label.lock().expect("no panic under this lock");
        label.incarnation = label::fresh();
        if let Err(error) = label.write(&self.dir.join("trireme-store"), &self.options) {
            tracing::error!("{error}");
        }
    }

    pub(crate) fn stop(&self) -> Result<(), StoreError> {
        let data = self.dir.join("data");
        let failed = StoreError::io("sync", &data);
        let folder = File::open(&data).map_err(StoreError::io("open", &data))?;
        let synced = self
            .options
            .saw(Event::SyncAll(&self.dir))
            .and_then(|()| Ok(rustix::fs::syncfs(folder.as_fd())?));
        if let Err(error) = synced {
            // Whoever wrote and did not sync must hear of it from the next run.
            self.mark_lost();
            return Err(failed(error));
        }
        let mut label = self.label.lock().expect("no panic under this lock");
        label.clean = true;
        label.write(&self.dir.join("trireme-store"), &self.options)
    }
}
