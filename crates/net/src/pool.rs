//! Connections to one server, kept for reuse: each caller has one to itself while it needs it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use serde::{Serialize, de::DeserializeOwned};
use trireme_proto::{Header, Key, Op};

use crate::{Connection, Deadline, Endpoint, Identity, NetError};

/// Idle connections kept per server: more threads than this in one process pay a new hello
/// now and then instead of holding a server thread each for ever.
const IDLE: usize = 32;

/// First pause before a server that did not answer is tried again; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// All connections of this process to one server.
#[derive(Debug)]
pub struct Pool {
    endpoint: Mutex<Endpoint>,
    key: Key,
    identity: Identity,
    idle: Mutex<Vec<Connection>>,
    incarnation: AtomicU64,
    local: AtomicBool,
    generation: AtomicU32,
    finder: OnceLock<Finder>,
    looked: Mutex<Option<Instant>>,
}

/// Finds out where the server is now and tells the pool ([`Pool::set_endpoint`]).
struct Finder(Box<dyn Fn(Deadline) + Send + Sync>);

impl std::fmt::Debug for Finder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Finder")
    }
}

/// How often a server that cannot be reached is looked for elsewhere, and how long that may take.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const LOOK_TIME: Duration = Duration::from_secs(1);

/// A connection that returns to its pool by [`Lease::give_back`]; otherwise it is closed,
/// so that nothing half-read is ever used again. [`Lease::give_up`] says that something may be under way.
#[derive(Debug)]
pub struct Lease<'a> {
    pool: &'a Pool,
    connection: Option<Connection>,
    /// Taken from the idle ones: the server may have gone since.
    pub reused: bool,
}

impl Pool {
    /// A pool without connections yet.
    pub fn new(endpoint: Endpoint, key: Key, identity: Identity) -> Pool {
        Pool {
            endpoint: Mutex::new(endpoint),
            key,
            identity,
            idle: Mutex::new(Vec::new()),
            incarnation: AtomicU64::new(0),
            local: AtomicBool::new(false),
            generation: AtomicU32::new(0),
            finder: OnceLock::new(),
            looked: Mutex::new(None),
        }
    }

    /// Uses other addresses from now on (the server moved).
    pub fn set_endpoint(&self, endpoint: Endpoint) {
        let mut present = self.endpoint.lock().expect("no panic under this lock");
        if *present != endpoint {
            *present = endpoint;
            self.idle.lock().expect("no panic under this lock").clear();
        }
    }

    /// Where the server is.
    pub fn endpoint(&self) -> Endpoint {
        self.endpoint
            .lock()
            .expect("no panic under this lock")
            .clone()
    }

    /// The server's incarnation as last heard; 0: never heard.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    /// Whether the last connection was to a process of this host, over a Unix socket.
    pub fn is_local(&self) -> bool {
        self.local.load(Ordering::Relaxed)
    }

    /// Has `find` look for the server whenever it cannot be reached where it was, and use
    /// [`Pool::set_endpoint`] if it has moved.
    pub fn find_with(&self, find: impl Fn(Deadline) + Send + Sync + 'static) {
        let _ = self.finder.set(Finder(Box::new(find)));
    }

    fn look(&self, deadline: Deadline) {
        let Some(finder) = self.finder.get() else {
            return;
        };
        {
            let mut looked = self.looked.lock().expect("no panic under this lock");
            if looked.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
                return;
            }
            *looked = Some(Instant::now());
        }
        (finder.0)(deadline.at_most(LOOK_TIME));
    }

    /// A request on a connection of this generation was given up without an answer: the server may
    /// still have it. From now on only new connections are used, and the server ends the old ones
    /// before it welcomes the first of them, so that the request cannot take effect after a later one.
    ///
    /// Those whose connections end by that give up, too: they must not end the new ones in turn, which
    /// is why only the first of a generation counts.
    fn fence(&self, generation: u32) {
        let next = generation.wrapping_add(1);
        let order = Ordering::SeqCst;
        let _ = self
            .generation
            .compare_exchange(generation, next, order, order);
        self.forget();
    }

    /// Closes all idle connections.
    fn forget(&self) {
        self.idle.lock().expect("no panic under this lock").clear();
    }

    /// How often requests were given up: what came over a connection of an earlier
    /// [generation](Connection::generation) is not to be relied on.
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::SeqCst)
    }

    /// What this client says of itself on a new connection.
    fn identity(&self) -> Identity {
        let mut identity = self.identity;
        identity.0.generation = self.generation();
        identity
    }

    /// An idle connection, or a new one; one attempt.
    pub fn lease(&self, deadline: Deadline) -> Result<Lease<'_>, NetError> {
        let idle = self.idle.lock().expect("no panic under this lock").pop();
        if let Some(connection) = idle {
            return Ok(Lease {
                pool: self,
                connection: Some(connection),
                reused: true,
            });
        }
        let connection =
            Connection::connect(&self.endpoint(), &self.key, self.identity(), deadline)
                .inspect_err(|_| self.look(deadline))?;
        self.incarnation
            .store(connection.incarnation(), Ordering::Relaxed);
        let local = connection.socket().is_unix();
        self.local.store(local, Ordering::Relaxed);
        Ok(Lease {
            pool: self,
            connection: Some(connection),
            reused: false,
        })
    }

    /// Like [`Pool::lease`], but a server that restarts is waited for.
    pub fn lease_or_wait(&self, deadline: Deadline) -> Result<Lease<'_>, NetError> {
        patiently(deadline, || self.lease(deadline))
    }

    /// A connection of its own to the same server, never shared; a server that restarts is waited for.
    pub fn separate(&self, identity: Identity, deadline: Deadline) -> Result<Connection, NetError> {
        patiently(deadline, || {
            Connection::connect(&self.endpoint(), &self.key, identity, deadline)
        })
    }

    /// Runs `attempt` on connections until it succeeds, fails for good or the deadline is over:
    /// a server that restarts is waited for. `attempt` must be safe to repeat.
    pub fn with<T>(
        &self,
        deadline: Deadline,
        mut attempt: impl FnMut(&mut Connection) -> Result<T, NetError>,
    ) -> Result<T, NetError> {
        let mut pause = PAUSE;
        loop {
            let mut reused = false;
            let result = self.lease(deadline).and_then(|mut lease| {
                reused = lease.reused;
                let result = attempt(&mut lease);
                if matches!(result, Ok(_) | Err(NetError::Refused { .. })) {
                    lease.give_back();
                } else {
                    lease.give_up();
                }
                result
            });
            match result {
                Err(error) if error.passing() && !deadline.over() => {
                    if !reused {
                        std::thread::sleep(pause.min(deadline.left()));
                        pause = (pause * 2).min(PAUSE_MAX);
                    }
                }
                result => return result,
            }
        }
    }

    /// A control request and its decoded reply, repeated as [`Pool::with`] does.
    pub fn call<Q: Serialize, R: DeserializeOwned>(
        &self,
        op: Op,
        request: &Q,
        deadline: Deadline,
    ) -> Result<R, NetError> {
        let body = trireme_proto::encode(request);
        self.with(deadline, |connection| {
            let reply = connection.call_body(&mut Header::request(op), &body, deadline)?;
            trireme_proto::decode(&reply.body).map_err(|source| NetError::Refused {
                peer: connection.peer().to_owned(),
                source,
            })
        })
    }

    /// Like [`Pool::call`] for requests that must not be repeated once they may have arrived:
    /// then the error is [`NetError::Lost`] and the caller must find out.
    pub fn call_once<Q: Serialize, R: DeserializeOwned>(
        &self,
        op: Op,
        request: &Q,
        deadline: Deadline,
    ) -> Result<R, NetError> {
        let body = trireme_proto::encode(request);
        loop {
            let mut lease = self.lease_or_wait(deadline)?;
            if lease.reused && lease.is_stale() {
                self.forget();
                continue;
            }
            let reply = lease.call(&mut Header::request(op), &body, &[], &mut [], deadline);
            return match reply {
                Ok(reply) => {
                    let result =
                        trireme_proto::decode(&reply.body).map_err(|source| NetError::Refused {
                            peer: lease.peer().to_owned(),
                            source,
                        });
                    lease.give_back();
                    result
                }
                Err(error) => {
                    if matches!(error, NetError::Refused { .. }) {
                        lease.give_back();
                    } else {
                        lease.give_up();
                    }
                    Err(error)
                }
            };
        }
    }
}

/// Tries again, with growing pauses, while a failure may pass.
fn patiently<T>(
    deadline: Deadline,
    mut attempt: impl FnMut() -> Result<T, NetError>,
) -> Result<T, NetError> {
    let mut pause = PAUSE;
    loop {
        match attempt() {
            Err(error) if error.passing() && !deadline.over() => {
                std::thread::sleep(pause.min(deadline.left()));
                pause = (pause * 2).min(PAUSE_MAX);
            }
            result => return result,
        }
    }
}

impl Lease<'_> {
    /// Closes the connection with a request unanswered: what the server still has of it does not take
    /// effect after any later request of this client.
    pub fn give_up(mut self) {
        if let Some(connection) = self.connection.take() {
            self.pool.fence(connection.generation());
        }
    }

    /// Returns the connection for others to use: only when no reply is outstanding.
    pub fn give_back(mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        self.pool
            .incarnation
            .store(connection.incarnation(), Ordering::Relaxed);
        let mut idle = self.pool.idle.lock().expect("no panic under this lock");
        let current = connection.generation() == self.pool.generation.load(Ordering::SeqCst);
        if current && idle.len() < IDLE {
            idle.push(connection);
        }
    }
}

impl std::ops::Deref for Lease<'_> {
    type Target = Connection;
    fn deref(&self) -> &Connection {
        self.connection.as_ref().expect("present until given back")
    }
}

impl std::ops::DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("present until given back")
    }
}
