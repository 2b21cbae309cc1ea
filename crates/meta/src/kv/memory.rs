//! The engine that forgets: for tests, and as the plainest reading of the contract.

use super::{Commit, Engine, EngineError, Key, Limits, Outcome, Stored};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// A map behind a mutex.
#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    revision: u64,
    map: BTreeMap<Key, Stored>,
}

impl Memory {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Engine for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    // Not exclusive, and few writes per commit: so the conflict and splitting paths, which a
    // distributed engine needs, are exercised by every test that runs on this one.
    fn limits(&self) -> Limits {
        Limits {
            writes: 128,
            exclusive: false,
        }
    }

    fn revision(&self) -> Result<u64, EngineError> {
        Ok(self.lock().revision)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Stored>, EngineError> {
        Ok(self.lock().map.get(key).cloned())
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
        let state = self.lock();
        let range = state.map.range(from.to_vec()..to.to_vec());
        Ok(range
            .take(limit)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect())
    }

    fn commit(&self, commit: &Commit) -> Result<Outcome, EngineError> {
        let mut state = self.lock();
        for (key, version) in &commit.reads {
            if state.map.get(key).map_or(0, |stored| stored.version) != *version {
                return Ok(Outcome::Conflict { key: key.clone() });
            }
        }
        state.revision += 1;
        let version = state.revision;
        for (key, value) in &commit.writes {
            match value {
                Some(value) => {
                    state.map.insert(
                        key.clone(),
                        Stored {
                            version,
                            value: value.clone(),
                        },
                    );
                }
                None => {
                    state.map.remove(key);
                }
            }
        }
        Ok(Outcome::Done { revision: version })
    }
}
