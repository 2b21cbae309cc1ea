//! A transaction: reads that remember what they saw, writes that nobody sees yet.
//!
//! Also the read-only view ([`Reader`]) that answers `stat` without any queue. Namespace functions
//! that only read are written against the trait [`Read`] and work with both.

use crate::cache::Cache;
use crate::failure::{Errno, Failure};
use crate::kv::{Commit, EngineError, Key};
use crate::record;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::BTreeMap;
use std::sync::Arc;
use trireme_proto::message::meta::Time;

/// What a change of one key is while uncommitted; `None` removes.
pub type Writes = BTreeMap<Key, Option<Arc<[u8]>>>;

/// Keys and values of a range.
pub type Pairs = Vec<(Key, Arc<[u8]>)>;

/// Reading records.
pub trait Read {
    /// The bytes under a key.
    fn bytes(&mut self, key: &[u8]) -> Result<Option<Arc<[u8]>>, Failure>;
    /// Up to `limit` pairs in `from..to`.
    fn pairs(&mut self, from: &[u8], to: &[u8], limit: usize) -> Result<Pairs, Failure>;

    /// The record under a key.
    fn record<T: DeserializeOwned>(&mut self, key: &[u8]) -> Result<Option<T>, Failure> {
        match self.bytes(key)? {
            Some(bytes) => Ok(Some(record::decode(Described(key), &bytes)?)),
            None => Ok(None),
        }
    }
}

/// Turns an engine's failure into what a client sees.
pub fn engine_failure(error: &EngineError) -> Failure {
    let errno = if error.full { Errno::NoSpc } else { Errno::Io };
    Failure {
        errno,
        what: error.to_string(),
    }
}

/// A key in words, for messages.
struct Described<'a>(&'a [u8]);

impl std::fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = char::from(*self.0.first().unwrap_or(&b'?'));
        let number = crate::key::number(self.0).unwrap_or(0);
        write!(f, "metadata record {table}{number}")
    }
}

/// A read-only view of what is committed.
pub struct Reader<'a> {
    cache: &'a Cache,
    cached: bool,
}

impl<'a> Reader<'a> {
    /// Reads through the cache.
    pub fn new(cache: &'a Cache) -> Self {
        Self {
            cache,
            cached: true,
        }
    }

    /// Reads the engine itself: for the second look when two cached values did not fit together
    /// because a commit was just being published.
    pub fn uncached(cache: &'a Cache) -> Self {
        Self {
            cache,
            cached: false,
        }
    }
}

impl Read for Reader<'_> {
    fn bytes(&mut self, key: &[u8]) -> Result<Option<Arc<[u8]>>, Failure> {
        let found = if self.cached {
            self.cache.get(key)
        } else {
            self.cache.engine().get(key)
        };
        Ok(found
            .map_err(|e| engine_failure(&e))?
            .map(|stored| stored.value))
    }

    fn pairs(&mut self, from: &[u8], to: &[u8], limit: usize) -> Result<Pairs, Failure> {
        let found = self
            .cache
            .engine()
            .scan(from, to, limit)
            .map_err(|e| engine_failure(&e))?;
        Ok(found
            .into_iter()
            .map(|(key, stored)| (key, stored.value))
            .collect())
    }
}

/// What the transactions of one batch read and wrote so far.
#[derive(Default)]
pub struct Batch {
    /// Becomes one engine commit.
    pub commit: Commit,
    /// The commit before, if it may still be under way: what it writes counts as written.
    pub ahead: Option<Arc<Commit>>,
}

impl Batch {
    /// What is about to be under a key, if that is not what the engine has.
    fn find(&self, key: &[u8]) -> Option<&Option<Arc<[u8]>>> {
        let ahead = || self.ahead.as_ref()?.writes.get(key);
        self.commit.writes.get(key).or_else(ahead)
    }
}

/// One transaction on top of the batch it will be committed with.
pub struct Txn<'a> {
    cache: &'a Cache,
    batch: &'a mut Batch,
    writes: Writes,
    /// The time of this transaction, the same for all its stamps.
    pub now: Time,
}

impl<'a> Txn<'a> {
    /// Begins a transaction.
    pub fn new(cache: &'a Cache, batch: &'a mut Batch, now: Time) -> Self {
        Self {
            cache,
            batch,
            writes: Writes::new(),
            now,
        }
    }

    /// Writes bytes.
    pub fn put_bytes(&mut self, key: Key, value: Arc<[u8]>) {
        self.writes.insert(key, Some(value));
    }

    /// Writes a record.
    pub fn put<T: Serialize>(&mut self, key: Key, value: &T) {
        self.put_bytes(key, record::encode(value));
    }

    /// Removes a key.
    pub fn delete(&mut self, key: Key) {
        self.writes.insert(key, None);
    }

    /// Hands the writes to the batch. Dropping the transaction instead leaves no trace.
    pub fn keep(self) {
        self.batch.commit.writes.extend(self.writes);
    }

    fn pending(&self, key: &[u8]) -> Option<&Option<Arc<[u8]>>> {
        self.writes.get(key).or_else(|| self.batch.find(key))
    }
}

impl Read for Txn<'_> {
    fn bytes(&mut self, key: &[u8]) -> Result<Option<Arc<[u8]>>, Failure> {
        if let Some(value) = self.pending(key) {
            return Ok(value.clone());
        }
        let found = self.cache.get(key).map_err(|e| engine_failure(&e))?;
        let version = found.as_ref().map_or(0, |stored| stored.version);
        // The first read decides: had somebody else committed between two reads of one batch, the
        // commit finds the first version outdated and the batch runs again.
        if !self.cache.is_exclusive() && !self.batch.commit.reads.contains_key(key) {
            self.batch.commit.reads.insert(key.to_vec(), version);
        }
        Ok(found.map(|stored| stored.value))
    }

    // Ranges are not compared at commit: whoever needs "nothing else is there" also reads a record
    // that every addition changes (a directory's inode).
    fn pairs(&mut self, from: &[u8], to: &[u8], limit: usize) -> Result<Pairs, Failure> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = || (from.to_vec())..(to.to_vec());
        let ahead = self.batch.ahead.as_ref();
        let ours = ahead
            .into_iter()
            .flat_map(|ahead| ahead.writes.range(range()))
            .chain(self.batch.commit.writes.range(range()))
            .chain(self.writes.range(range()));
        let mut merged: Writes = ours.map(|(k, v)| (k.clone(), v.clone())).collect();
        let removed = merged.values().filter(|value| value.is_none()).count();
        let committed = self
            .cache
            .engine()
            .scan(from, to, limit.saturating_add(removed));
        for (key, stored) in committed.map_err(|e| engine_failure(&e))? {
            merged.entry(key).or_insert(Some(stored.value));
        }
        let there = merged
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        Ok(there.take(limit).collect())
    }
}
