//! The second engine: redb, a copy-on-write B-tree in one file. Slower commits, faster scans.

use super::{
    Commit, Engine, EngineError, Key, Limits, Outcome, REVISION_KEY, Stored, make_whole, pack,
    unpack,
};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::sync::Mutex;

const PAIRS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("meta");

/// redb under the contract of [`Engine`]. The file is locked: one process at a time.
pub struct Redb {
    database: Database,
    // Held while a commit compares and applies; its value is the newest revision.
    revision: Mutex<u64>,
}

impl Redb {
    /// Opens or creates the engine in a directory of its own.
    pub fn open(directory: &Path) -> Result<Self, EngineError> {
        make_whole(directory, |new| Self::open_there(new).map(drop))?;
        Self::open_there(directory)
    }

    fn open_there(directory: &Path) -> Result<Self, EngineError> {
        std::fs::create_dir_all(directory).map_err(fail)?;
        let database = Database::create(directory.join("meta.redb")).map_err(fail)?;
        let write = database.begin_write().map_err(fail)?;
        let revision = {
            let table = write.open_table(PAIRS).map_err(fail)?;
            let bytes = table.get(REVISION_KEY).map_err(fail)?;
            bytes.map_or(Ok(0), |bytes| {
                unpack("redb", bytes.value()).map(|s| s.version)
            })?
        };
        write.commit().map_err(fail)?;
        Ok(Self {
            database,
            revision: Mutex::new(revision),
        })
    }
}

fn fail(error: impl std::fmt::Display) -> EngineError {
    EngineError::new("redb", error)
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        "redb"
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
        let read = self.database.begin_read().map_err(fail)?;
        let table = read.open_table(PAIRS).map_err(fail)?;
        let found = table.get(key).map_err(fail)?;
        found.map(|bytes| unpack("redb", bytes.value())).transpose()
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
        let read = self.database.begin_read().map_err(fail)?;
        let table = read.open_table(PAIRS).map_err(fail)?;
        let mut found = Vec::new();
        for pair in table.range(from..to).map_err(fail)?.take(limit) {
            let (key, value) = pair.map_err(fail)?;
            found.push((key.value().to_vec(), unpack("redb", value.value())?));
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
        let revision = *newest + 1;
        let mut write = self.database.begin_write().map_err(fail)?;
        write.set_durability(Durability::Immediate).map_err(fail)?;
        {
            let mut table = write.open_table(PAIRS).map_err(fail)?;
            for (key, value) in &commit.writes {
                match value {
                    Some(value) => {
                        let bytes = pack(revision, value);
                        table
                            .insert(key.as_slice(), bytes.as_slice())
                            .map_err(fail)?;
                    }
                    None => {
                        table.remove(key.as_slice()).map_err(fail)?;
                    }
                }
            }
            let bytes = pack(revision, &[]);
            table.insert(REVISION_KEY, bytes.as_slice()).map_err(fail)?;
        }
        write.commit().map_err(fail)?;
        *newest = revision;
        Ok(Outcome::Done { revision })
    }
}
