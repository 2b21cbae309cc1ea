//! A cluster as a client sees it: the manager, the I/O servers, the defaults of calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use trireme_net::{Deadline, Endpoint, Identity, NetError, Pool};
use trireme_proto::message::io::Space;
use trireme_proto::message::meta::ClusterMap;
use trireme_proto::{Header, Key, Op};

use crate::memory::{Registry, SharedBuffer};
use crate::pending::Workers;
use crate::{Descriptor, Error, Namespace, Options, Result};

/// A cluster. Cheap to clone; all clones share connections.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(crate) shared: Arc<Shared>,
    pub(crate) options: Options,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub namespace: Namespace,
    pub key: Key,
    identity: Identity,
    network_only: bool,
    map: RwLock<ClusterMap>,
    servers: RwLock<HashMap<u32, Arc<Pool>>>,
    pub workers: Workers,
    pub memory: Registry,
    pub next_seed: AtomicU64,
}

/// Whether a server answers.
#[derive(Debug)]
pub struct ServerStatus {
    /// Its number.
    pub id: u32,
    /// Where it is said to be.
    pub addresses: Vec<String>,
    /// Bytes of its disks (all, free), or why it does not answer.
    pub space: Result<(u64, u64)>,
    /// Names of its disks: servers on the same one give it the same. None if it does not answer.
    pub disks: Vec<String>,
    /// Whether it answers from this host.
    pub local: bool,
}

impl Cluster {
    /// The cluster named by `$TRIREME_CLUSTER`, or the one that `trireme up` started last.
    pub fn find() -> Result<Cluster> {
        Cluster::connect(&Descriptor::find()?, Options::default())
    }

    /// Connects to the manager and learns where the I/O servers are.
    pub fn connect(descriptor: &Descriptor, options: Options) -> Result<Cluster> {
        let key = descriptor.key()?;
        let identity = Identity::of_this_process();
        let endpoint = Endpoint::from_texts(&descriptor.manager);
        let cluster = Cluster {
            shared: Arc::new(Shared {
                namespace: Namespace::new(endpoint, key.clone(), identity),
                key,
                identity,
                network_only: options.network_only,
                map: RwLock::new(ClusterMap::default()),
                servers: RwLock::new(HashMap::new()),
                workers: Workers::default(),
                memory: Registry::default(),
                next_seed: AtomicU64::new(trireme_net::random_u64()),
            }),
            options,
        };
        cluster.refresh()?;
        Ok(cluster)
    }

    /// The same cluster with other defaults.
    pub fn with_options(&self, options: Options) -> Cluster {
        Cluster {
            shared: self.shared.clone(),
            options,
        }
    }

    /// Memory of `length` bytes that writes to servers on this host take their bytes from without a
    /// copy by this process. An ordinary buffer for everything else.
    ///
    /// ```no_run
    /// # fn example(cluster: &trireme::Cluster, file: &trireme::File) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut buffer = cluster.buffer(4 << 20)?;
    /// buffer.fill(7);
    /// file.write_at(&buffer, 0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn buffer(&self, length: usize) -> std::io::Result<SharedBuffer> {
        self.shared.memory.buffer(length)
    }

    /// The defaults of calls.
    pub fn options(&self) -> &Options {
        &self.options
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.options.deadline)
    }

    /// Names, attributes, open files and locks at the manager.
    pub fn namespace(&self) -> Namespace {
        let namespace = &self.shared.namespace;
        namespace
            .with_call_time(self.options.deadline)
            .softly(self.options.soft_names)
    }

    /// Asks the manager for the map again.
    pub fn refresh(&self) -> Result<()> {
        self.shared.learn(self.namespace().map()?);
        Ok(())
    }

    /// The servers that the manager knows.
    pub fn map(&self) -> ClusterMap {
        self.shared
            .map
            .read()
            .expect("no panic under this lock")
            .clone()
    }

    /// Connections to an I/O server.
    pub(crate) fn server(&self, id: u32) -> Result<Arc<Pool>> {
        let find = || {
            self.shared
                .servers
                .read()
                .expect("no panic under this lock")
                .get(&id)
                .cloned()
        };
        if let Some(pool) = find() {
            return Ok(pool);
        }
        self.refresh()?;
        find().ok_or(Error::NoServer(id))
    }

    /// Asks every server whether it lives, waiting for each at most a moment.
    pub fn status(&self) -> Result<Vec<ServerStatus>> {
        self.refresh()?;
        let moment = Deadline::after(self.options.deadline.min(std::time::Duration::from_secs(2)));
        let map = self.map();
        Ok(std::thread::scope(|scope| {
            let asked: Vec<_> = map
                .servers
                .into_iter()
                .map(|server| {
                    scope.spawn(move || {
                        let space = self.space(server.id, moment);
                        let disks = space
                            .as_ref()
                            .map_or(Vec::new(), |space| space.disks.clone());
                        let pool = self.server(server.id);
                        ServerStatus {
                            id: server.id,
                            addresses: server.addresses,
                            disks,
                            local: space.is_ok() && pool.is_ok_and(|pool| pool.is_local()),
                            space: space.map(|space| (space.total, space.free)),
                        }
                    })
                })
                .collect();
            asked
                .into_iter()
                .map(|one| one.join().expect("asking does not panic"))
                .collect()
        }))
    }

    /// Whether all I/O servers run on this host and store on one and the same disk. Then spreading a file over
    /// them adds no disk to it. `None` when one of them does not answer.
    pub fn is_on_one_disk_here(&self) -> Option<bool> {
        let status = self.status().ok()?;
        if status.iter().any(|server| server.space.is_err()) {
            return None;
        }
        let mut disks = status.iter().flat_map(|server| &server.disks);
        let first = disks.next()?;
        let one = disks.all(|other| other == first);
        Some(one && status.iter().all(|server| server.local))
    }

    fn space(&self, server: u32, deadline: Deadline) -> Result<Space> {
        let pool = self.server(server)?;
        Ok(pool.with(deadline, |connection| {
            let mut header = Header::request(Op::SPACE);
            let reply = connection.call(&mut header, &[], &[], &mut [], deadline)?;
            trireme_proto::decode(&reply.body).map_err(|source| NetError::Refused {
                peer: connection.peer().to_owned(),
                source,
            })
        })?)
    }

    pub(crate) fn seed(&self) -> u64 {
        self.shared
            .next_seed
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}

impl Shared {
    fn learn(self: &Arc<Self>, map: ClusterMap) {
        let mut servers = self.servers.write().expect("no panic under this lock");
        for server in &map.servers {
            let mut endpoint = Endpoint::from_texts(&server.addresses);
            if self.network_only {
                endpoint = endpoint.network_only();
            }
            endpoint.server = Some(server.id);
            if let Some(pool) = servers.get(&server.id) {
                pool.set_endpoint(endpoint);
            } else {
                let pool = Pool::new(endpoint, self.key.clone(), self.identity);
                let weak = Arc::downgrade(self);
                pool.find_with(move |deadline| {
                    // The manager knows where a server is that was started elsewhere.
                    if let Some(shared) = weak.upgrade()
                        && let Ok(map) = shared.namespace.with_call_time(deadline.left()).map()
                    {
                        shared.learn(map);
                    }
                });
                servers.insert(server.id, Arc::new(pool));
            }
        }
        *self.map.write().expect("no panic under this lock") = map;
    }
}
