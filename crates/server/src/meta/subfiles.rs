//! The manager as a client of the I/O servers: removes, cuts and measures subfiles.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use trireme_meta::failure::{Errno, Failure};
use trireme_meta::{Manager, Subfiles};
use trireme_net::{Deadline, Endpoint, Identity, NetError, Pipeline, Pool};
use trireme_partition::Partition;
use trireme_proto::key::Rights;
use trireme_proto::limits::ANY_DISK_BYTES;
use trireme_proto::message::io::{Seek, Stat};
use trireme_proto::message::meta::{ClusterMap, Layout};
use trireme_proto::{Header, Key, Op};

/// Patience with one I/O server; what it did not do stays on the to-do list.
const CALL_TIME: Duration = Duration::from_secs(10);

/// Connections to the I/O servers of the cluster map.
pub struct IoServers {
    map: Box<dyn Fn() -> Arc<ClusterMap> + Send + Sync>,
    key: Key,
    token_key: Key,
    identity: Identity,
    pools: Mutex<HashMap<u32, Arc<Pool>>>,
}

impl IoServers {
    pub fn new(manager: Manager, key: Key, token_key: Key) -> IoServers {
        // Weak, or the manager would keep itself alive.
        let manager = manager.downgrade();
        IoServers {
            map: Box::new(move || manager.map().unwrap_or_default()),
            key,
            token_key,
            identity: Identity::of_this_process(),
            pools: Mutex::default(),
        }
    }

    fn pool(&self, server: u32) -> Result<Arc<Pool>, Failure> {
        let map = (self.map)();
        let info = map
            .servers
            .iter()
            .find(|info| info.id == server)
            .ok_or_else(|| Failure {
                errno: Errno::Io,
                what: format!("I/O server {server} is not in the cluster map"),
            })?;
        let mut endpoint = Endpoint::from_texts(&info.addresses);
        endpoint.server = Some(server);
        endpoint.cluster = map.cluster;
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pools.entry(server).or_insert_with(|| {
            Arc::new(Pool::new(endpoint.clone(), self.key.clone(), self.identity))
        });
        pool.set_endpoint(endpoint);
        Ok(pool.clone())
    }

    /// Asks all servers of a layout at once; the first failure wins.
    fn on_all<T: Send>(
        &self,
        layout: &Layout,
        ask: impl Fn(u32, &Pool) -> Result<T, NetError> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let pools: Vec<Arc<Pool>> = layout
            .servers
            .iter()
            .map(|id| self.pool(*id))
            .collect::<Result<_, _>>()?;
        let ask = &ask;
        std::thread::scope(|scope| {
            let threads: Vec<_> = pools
                .iter()
                .enumerate()
                .map(|(part, pool)| scope.spawn(move || ask(part as u32, pool)))
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .expect("no panic in a request")
                        .map_err(failure)
                })
                .collect()
        })
    }

    /// Has one server remove its parts of files, one request after the other without waiting for answers; gives what
    /// it did not remove, and why.
    fn remove_on(
        &self,
        server: u32,
        files: &[(u64, Layout)],
        mut places: Vec<usize>,
    ) -> Vec<(usize, Failure)> {
        let deadline = Deadline::after(CALL_TIME);
        let mut refused = Vec::new();
        let done = self.pool(server).and_then(|pool| {
            let attempt = pool.with(deadline, |connection| {
                let mut pipeline = Pipeline::new(connection);
                let mut asked = HashMap::new();
                for place in &places {
                    let header = self.header(Op::REMOVE, files[*place].0, Rights::REMOVE);
                    asked.insert(pipeline.push_with(header, &[], deadline), *place);
                }
                while !asked.is_empty() {
                    let (id, answer) = pipeline.next::<()>(deadline)?;
                    let Some(place) = asked.remove(&id) else {
                        continue;
                    };
                    // What has been answered is not asked again on another connection.
                    places.retain(|one| *one != place);
                    if let Err(error) = answer {
                        refused.push((place, failure(error)));
                    }
                }
                Ok(())
            });
            attempt.map_err(failure)
        });
        if let Err(failure) = done {
            refused.extend(places.into_iter().map(|place| (place, failure.clone())));
        }
        refused
    }

    fn header(&self, op: Op, inode: u64, rights: Rights) -> Header {
        let mut header = Header::request(op);
        header.file.set(inode);
        header.token.set(self.token_key.token(inode, rights).0);
        header.add_flags(rights.flags());
        header
    }
}

fn failure(error: NetError) -> Failure {
    let errno = match error.errno() {
        27 => Errno::FBig,
        28 => Errno::NoSpc,
        110 => Errno::TimedOut,
        _ => Errno::Io,
    };
    Failure {
        errno,
        what: error.to_string(),
    }
}

fn partition(layout: &Layout) -> Result<Partition, Failure> {
    Partition::striped(layout.unit, layout.servers.len() as u32, layout.first).map_err(|error| {
        Failure {
            errno: Errno::Inval,
            what: format!("layout: {error}"),
        }
    })
}

impl Subfiles for IoServers {
    fn remove(&self, files: &[(u64, Layout)]) -> Vec<Result<(), Failure>> {
        // Of each server, which files it has a part of.
        let mut parts: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (place, (_, layout)) in files.iter().enumerate() {
            for server in &layout.servers {
                parts.entry(*server).or_default().push(place);
            }
        }
        let failures = std::thread::scope(|scope| {
            let ask = |(server, places): (u32, Vec<usize>)| {
                scope.spawn(move || self.remove_on(server, files, places))
            };
            let threads: Vec<_> = parts.into_iter().map(ask).collect();
            let failures = threads
                .into_iter()
                .map(|thread| thread.join().expect("no panic in a request"));
            failures.collect::<Vec<_>>()
        });
        let mut results: Vec<_> = files.iter().map(|_| Ok(())).collect();
        for (place, failure) in failures.into_iter().flatten() {
            results[place] = Err(failure);
        }
        results
    }

    fn check(&self, inode: u64, layout: &Layout, size: u64) -> Result<(), Failure> {
        let partition = partition(layout)?;
        let bytes = |part| {
            partition
                .part(part)
                .map_or(0, |part| part.bytes_in(0..size))
        };
        if (0..layout.servers.len() as u32).all(|part| bytes(part) <= ANY_DISK_BYTES) {
            return Ok(());
        }
        let deadline = Deadline::after(CALL_TIME);
        let body = trireme_proto::encode(&Seek::Reach);
        self.on_all(layout, |part, pool| {
            pool.with(deadline, |connection| {
                let mut header = self.header(Op::SEEK, inode, Rights::NONE);
                header.offset.set(bytes(part));
                connection
                    .call(&mut header, &body, &[], &mut [], deadline)
                    .map(|_| ())
            })
        })?;
        Ok(())
    }

    fn truncate(&self, inode: u64, layout: &Layout, size: u64) -> Result<(), Failure> {
        let partition = partition(layout)?;
        let deadline = Deadline::after(CALL_TIME);
        self.on_all(layout, |part, pool| {
            let bytes = partition
                .part(part)
                .map_or(0, |part| part.bytes_in(0..size));
            pool.with(deadline, |connection| {
                let mut header = self.header(Op::TRUNCATE, inode, Rights::WRITE);
                header.length.set(bytes);
                connection
                    .call(&mut header, &[], &[], &mut [], deadline)
                    .map(|_| ())
            })
        })?;
        Ok(())
    }

    fn size(&self, inode: u64, layout: &Layout) -> Result<u64, Failure> {
        let partition = partition(layout)?;
        let deadline = Deadline::after(CALL_TIME);
        let sizes = self.on_all(layout, |_, pool| {
            pool.with(deadline, |connection| {
                let mut header = self.header(Op::STAT, inode, Rights::NONE);
                let reply = connection.call(&mut header, &[], &[], &mut [], deadline)?;
                trireme_proto::decode::<Stat>(&reply.body).map_err(|source| NetError::Refused {
                    peer: connection.peer().to_owned(),
                    source,
                })
            })
        })?;
        let ends = sizes
            .iter()
            .enumerate()
            .filter(|(_, stat)| stat.size > 0)
            .map(|(part, stat)| {
                let part = partition.part(part as u32).ok()?;
                Some(part.to_file(stat.size - 1)? + 1)
            });
        Ok(ends.flatten().max().unwrap_or(0))
    }
}
