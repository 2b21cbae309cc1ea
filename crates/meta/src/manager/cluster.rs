//! The cluster as a whole: its servers, its counts, and which inode numbers found on servers belong to somebody.

use super::{Inner, listing};
use crate::failure::Failure;
use crate::key;
use crate::record::{self, Counters};
use crate::txn::{Read, Reader};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use trireme_proto::key::Rights;
use trireme_proto::message::meta::{ClusterMap, Life, Response, ServerInfo, StatFs};

impl Inner {
    pub(super) fn statfs(&self) -> Result<Response, Failure> {
        let counters: Option<Counters> = Reader::new(&self.cache).record(key::COUNTERS)?;
        let (from, to) = key::table(b't');
        let pending = if self.todo.load(Ordering::Relaxed) == 0 {
            0
        } else {
            self.cache
                .engine()
                .scan(&from, &to, 100_000)
                .map_or(0, |found| found.len() as u64)
        };
        let (sessions, opens) = self.sessions().counts();
        Ok(Response::StatFs(StatFs {
            inodes: counters.map_or(1, |counters| counters.live),
            pending,
            sessions: sessions as u64,
            opens: opens as u64,
            uptime: self.started.elapsed().as_secs(),
        }))
    }

    pub(super) fn register(
        self: &Arc<Self>,
        server: ServerInfo,
        done: impl FnOnce(Result<Response, Failure>) + Send + 'static,
    ) {
        let inner = self.clone();
        let cluster = self.superblock.cluster;
        self.queue.submit(
            move |txn| {
                let mut map: ClusterMap = txn.record(key::MAP)?.unwrap_or_default();
                map.cluster = cluster;
                if map.servers.contains(&server) {
                    return Ok(map);
                }
                map.servers.retain(|known| known.id != server.id);
                map.servers.push(server.clone());
                map.servers.sort_by_key(|server| server.id);
                map.epoch += 1;
                txn.put(key::MAP.to_vec(), &map);
                Ok(map)
            },
            move |result| {
                if let Ok(map) = &result {
                    let ids = map.servers.iter().map(|server| server.id).collect();
                    let mut slot = inner.map.write().unwrap_or_else(PoisonError::into_inner);
                    if map.epoch >= slot.0.epoch {
                        *slot = (Arc::new(map.clone()), Arc::new(ids));
                    }
                }
                done(result.map(Response::Map));
            },
        );
    }

    pub(super) fn life(&self, inodes: &[u64]) -> Result<Response, Failure> {
        listing::limit_numbers(inodes)?;
        // The engine itself and the counter first: a number given out while we look is unknown.
        let mut reader = Reader::uncached(&self.cache);
        let next = reader
            .record::<Counters>(key::COUNTERS)?
            .map_or(0, |counters| counters.next);
        let mut lives = Vec::with_capacity(inodes.len());
        for id in inodes {
            let node = reader.record::<record::Inode>(&key::inode(*id))?;
            lives.push(match node {
                Some(node) if node.nlink > 0 => Life::Live,
                Some(_) => Life::Pending,
                None if *id != 0 && *id < next => Life::Gone,
                None => Life::Unknown,
            });
        }
        Ok(Response::Life(lives))
    }

    pub(super) fn inspect(&self, inodes: &[u64]) -> Result<Response, Failure> {
        listing::limit_numbers(inodes)?;
        // No rights at all: such a grant lets its holder ask for a size and nothing else.
        let grants = inodes
            .iter()
            .map(|id| self.options.token_key.grant(*id, Rights::NONE));
        Ok(Response::Grants(grants.collect()))
    }

    pub(super) fn admin(&self, inodes: &[u64]) -> Result<Response, Failure> {
        listing::limit_numbers(inodes)?;
        let whole = self.options.token_key.grant(0, Rights::READ);
        let rights = Rights::REMOVE;
        let files = inodes
            .iter()
            .map(|id| self.options.token_key.grant(*id, rights));
        Ok(Response::Grants(
            std::iter::once(whole).chain(files).collect(),
        ))
    }
}
