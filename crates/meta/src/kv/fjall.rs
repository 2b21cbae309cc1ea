//! The default engine: fjall, a log-structured merge tree. One journal fdatasync per commit.

use super::ballast::Ballast;
use super::{
    Commit, Engine, EngineError, Key, Limits, Outcome, REVISION_KEY, Stored, make_whole, pack,
    unpack,
};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Room on the disk below which nothing is committed: several of the largest commits.
const ROOM: u64 = 4 << 20;

/// What is kept in memory before it is written as a table: the engine's own default.
const MEMTABLE: u64 = 64 << 20;

/// fjall under the contract of [`Engine`]. The directory is locked: one process at a time.
pub struct Fjall {
    database: Database,
    pairs: Keyspace,
    directory: PathBuf,
    ballast: Option<Ballast>,
    // Held while a commit compares and applies; its value is the newest revision.
    revision: Mutex<u64>,
}

impl Fjall {
    /// Opens or creates the engine in a directory of its own.
    pub fn open(directory: &Path) -> Result<Self, EngineError> {
        Self::open_with(directory, MEMTABLE)
    }

    /// The same with another limit of what is kept in memory before it is written as a table of its own.
    pub fn open_with(directory: &Path, memtable: u64) -> Result<Self, EngineError> {
        make_whole(directory, |new| {
            Self::open_there(new, memtable)?
                .database
                .persist(PersistMode::SyncAll)
                .map_err(fail)
        })?;
        Self::open_there(directory, memtable)
    }

    fn open_there(directory: &Path, memtable: u64) -> Result<Self, EngineError> {
        let database = Database::builder(directory)
            .worker_threads(1)
            .open()
            .map_err(fail)?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
        let pairs = database.keyspace("meta", options).map_err(fail)?;
        let revision = match pairs.get(REVISION_KEY).map_err(fail)? {
            Some(bytes) => unpack("fjall", &bytes)?.version,
            None => 0,
        };
        Ok(Self {
            database,
            pairs,
            directory: directory.to_owned(),
            ballast: None,
            revision: Mutex::new(revision),
        })
    }

    /// Keeps some room on the disk, by a file at `path`, for when others have filled it: commits go on until
    /// that is used up as well.
    #[must_use]
    pub fn with_ballast(mut self, path: &Path) -> Self {
        match Ballast::keep(path) {
            Ok(ballast) => self.ballast = Some(ballast),
            Err(error) => tracing::warn!("{}: {error}; a full disk stops it", path.display()),
        }
        // As much as there is to spare.
        let _ = self.require_room();
        self
    }

    /// Refuses before anything is written when the disk has hardly any room: a journal that could not
    /// be written to its end makes the engine useless until it is opened again.
    fn require_room(&self) -> Result<(), EngineError> {
        let mut free = self.free()?;
        if let Some(ballast) = &self.ballast {
            while free < ROOM && ballast.give() {
                free = self.free()?;
            }
            ballast.restore(free);
        }
        if free >= ROOM {
            return Ok(());
        }
        let full = std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error());
        Err(EngineError::new("fjall", full))
    }

    /// Bytes that are free on the disk.
    fn free(&self) -> Result<u64, EngineError> {
        let stat = rustix::fs::statvfs(&self.directory)
            .map_err(|error| EngineError::new("fjall", std::io::Error::from(error)))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }
}

fn fail(error: fjall::Error) -> EngineError {
    EngineError::new("fjall", error)
}

impl Engine for Fjall {
    fn name(&self) -> &'static str {
        "fjall"
    }

    fn limits(&self) -> Limits {
        Limits {
            writes: 16_384,
            exclusive: true,
        }
    }

    fn revision(&self) -> Result<u64, EngineError> {
        Ok(*self
            .revision
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, EngineError> {
        self.pairs
            .get(key)
            .map_err(fail)?
            .map(|bytes| unpack("fjall", &bytes))
            .transpose()
    }

    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<(Key, Stored)>, EngineError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for guard in self.pairs.range(from..to).take(limit) {
            let (key, value) = guard.into_inner().map_err(fail)?;
            found.push((key.to_vec(), unpack("fjall", &value)?));
        }
        Ok(found)
    }

    fn commit(&self, commit: &Commit) -> Result<Outcome, EngineError> {
        let mut newest = self
            .revision
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if commit.base != *newest {
            for (key, version) in &commit.reads {
                if self.get(key)?.map_or(0, |stored| stored.version) != *version {
                    return Ok(Outcome::Conflict { key: key.clone() });
                }
            }
        }
        self.require_room()?;
        let revision = *newest + 1;
        let mut batch = self.database.batch().durability(Some(if commit.soft {
            PersistMode::Buffer
        } else {
            PersistMode::SyncData
        }));
        for (key, value) in &commit.writes {
            match value {
                Some(value) => batch.insert(&self.pairs, key.as_slice(), pack(revision, value)),
                None => batch.remove(&self.pairs, key.as_slice()),
            }
        }
        batch.insert(&self.pairs, REVISION_KEY, pack(revision, &[]));
        batch.commit().map_err(fail)?;
        *newest = revision;
        Ok(Outcome::Done { revision })
    }
}
