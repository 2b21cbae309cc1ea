//! Committed values kept in memory, so that a `stat` does not search the engine.
//!
//! Only over engines that nobody else writes to ([`crate::kv::Limits::exclusive`]). Bounded: two
//! generations per shard; what was not used during a whole generation is forgotten.

use crate::kv::{Commit, Engine, EngineError, Key, Outcome, Stored};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SHARDS: usize = 32;
/// Values in one generation of one shard: 32 shards x 2 generations x 4096 x ~300 B is ~80 MB.
const GENERATION: usize = 4096;

/// An engine with its recently used values in memory.
pub struct Cache {
    engine: Arc<dyn Engine>,
    shards: Option<Vec<Mutex<Shard>>>,
    hasher: RandomState,
}

#[derive(Default)]
struct Shard {
    young: HashMap<Key, Option<Stored>>,
    old: HashMap<Key, Option<Stored>>,
    // Counts commits, so that a reader who fetched before one does not insert after it.
    changes: u64,
}

impl Shard {
    // Outer: known at all; inner: known to be absent.
    #[allow(clippy::option_option)]
    fn find(&mut self, key: &[u8]) -> Option<Option<Stored>> {
        if let Some(found) = self.young.get(key) {
            return Some(found.clone());
        }
        let (key, found) = self.old.remove_entry(key)?;
        self.insert(key, found.clone());
        Some(found)
    }

    fn insert(&mut self, key: Key, value: Option<Stored>) {
        if self.young.len() >= GENERATION {
            // Their memory stays: growing again would hash everything several times.
            std::mem::swap(&mut self.old, &mut self.young);
            self.young.clear();
        }
        self.young.insert(key, value);
    }
}

impl Cache {
    /// Puts a cache over an engine, or only passes through when others may write to it.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        let shards = engine
            .limits()
            .exclusive
            .then(|| (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect());
        Self {
            engine,
            shards,
            hasher: RandomState::new(),
        }
    }

    /// Whether nobody else writes to the engine: what was read stays true until this manager changes it.
    pub fn is_exclusive(&self) -> bool {
        self.shards.is_some()
    }

    /// The engine below.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    fn shard<'a>(&self, shards: &'a [Mutex<Shard>], key: &[u8]) -> MutexGuard<'a, Shard> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest committed value.
    pub fn get(&self, key: &[u8]) -> Result<Option<Stored>, EngineError> {
        let Some(shards) = &self.shards else {
            return self.engine.get(key);
        };
        let changes = {
            let mut shard = self.shard(shards, key);
            if let Some(found) = shard.find(key) {
                return Ok(found);
            }
            shard.changes
        };
        let found = self.engine.get(key)?;
        let mut shard = self.shard(shards, key);
        if shard.changes == changes {
            shard.insert(key.to_vec(), found.clone());
        }
        Ok(found)
    }

    /// Commits and lets later reads see it.
    pub fn commit(&self, commit: &Commit) -> Result<Outcome, EngineError> {
        let outcome = self.engine.commit(commit)?;
        if let (Outcome::Done { revision }, Some(shards)) = (&outcome, &self.shards) {
            for (key, value) in &commit.writes {
                let mut shard = self.shard(shards, key);
                shard.changes += 1;
                shard.old.remove(key);
                let stored = value.as_ref().map(|v| Stored {
                    version: *revision,
                    value: v.clone(),
                });
                shard.insert(key.clone(), stored);
            }
        }
        Ok(outcome)
    }
}
