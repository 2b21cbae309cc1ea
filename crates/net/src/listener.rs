//! The accept loop: newcomers to the hall, then one thread per connection that feeds a [`Handler`].

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use trireme_proto::hello::{Challenge, HelloError, Role, Welcome};
use trireme_proto::{Header, Key, Refusal, limits, refusal::errno};
use zerocopy::IntoBytes;

use crate::door::Door;
use crate::hall::{Event, Hall, Newcomer};
use crate::out::Out;
use crate::socket::Socket;
use crate::{Address, Deadline, Link, Peer, random_bytes};

/// Stack of a connection's thread: its buffers are on the heap.
const STACK: usize = 256 << 10;

/// What the hall calls the door, and what ends the thread in it.
const DOOR: u64 = 0;
const WAKE: u64 = 1;

/// What a server does with requests.
pub trait Handler: Send + Sync + 'static {
    /// What it keeps per connection.
    type Session: Send;

    /// A new, authenticated connection.
    fn connected(&self, peer: &Peer) -> Self::Session;

    /// One request. Answer through `link`, or return a refusal, which is then sent.
    /// An I/O error of the link itself ends the connection.
    fn request(
        &self,
        session: &mut Self::Session,
        header: &Header,
        body: &[u8],
        link: &mut Link,
    ) -> Result<io::Result<()>, Refusal>;

    /// The connection has ended, for whatever reason.
    fn disconnected(&self, session: Self::Session, peer: &Peer) {
        let _ = (session, peer);
    }
}

/// What a listener needs to know.
#[derive(Debug, Clone)]
pub struct ListenerConfig {
    /// Where to listen; port 0 picks one.
    pub addresses: Vec<Address>,
    /// What strangers must prove to have.
    pub key: Key,
    /// What this server is.
    pub role: Role,
    /// Its number.
    pub server: u32,
    /// Its cluster; 0: not known yet.
    pub cluster: u64,
    /// Changes whenever acknowledged bytes may have been lost.
    pub incarnation: Arc<AtomicU64>,
}

/// A running server; [`Listener::stop`] (or dropping it) ends all connections and threads.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    addresses: Vec<Address>,
    threads: Vec<JoinHandle<()>>,
    sockets: Vec<PathBuf>,
}

#[derive(Debug)]
struct Shared {
    config: ListenerConfig,
    stop: AtomicBool,
    in_hello: AtomicUsize,
    next: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
    closed: Condvar,
    wake: OwnedFd,
}

/// A connection in service.
#[derive(Debug)]
struct Open {
    out: Arc<Out>,
    client: u64,
    generation: u32,
}

impl Listener {
    /// Binds all addresses and starts accepting.
    pub fn start<H: Handler>(config: ListenerConfig, handler: Arc<H>) -> io::Result<Listener> {
        let wake = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC)?;
        let mut doors = Vec::new();
        let mut addresses = Vec::new();
        let mut sockets = Vec::new();
        for address in &config.addresses {
            let (door, real) = Door::open(address, &config.key)?;
            if let Address::Unix(path) = &real {
                sockets.push(path.clone());
            }
            doors.push(door);
            addresses.push(real);
        }
        let shared = Arc::new(Shared {
            config,
            stop: AtomicBool::new(false),
            in_hello: AtomicUsize::new(0),
            next: AtomicU64::new(1),
            open: Mutex::new(HashMap::new()),
            closed: Condvar::new(),
            wake,
        });
        let mut threads = Vec::new();
        for door in doors {
            let (shared, handler) = (shared.clone(), handler.clone());
            let hall = Hall::new()?;
            hall.watch(&door, DOOR)?;
            hall.watch(&shared.wake, WAKE)?;
            threads.push(
                std::thread::Builder::new()
                    .name("accept".into())
                    .spawn(move || {
                        if let Err(error) = accept_loop(&door, hall, &shared, &handler) {
                            tracing::error!("no more connections are accepted: {error}");
                        }
                    })?,
            );
        }
        Ok(Listener {
            shared,
            addresses,
            threads,
            sockets,
        })
    }

    /// Where it really listens.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Connections that are open now.
    pub fn connections(&self) -> usize {
        self.shared
            .open
            .lock()
            .expect("no panic under this lock")
            .len()
    }

    /// Ends everything: no new connections, all present ones closed, all threads gone.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        for path in self.sockets.drain(..) {
            let _ = std::fs::remove_file(path);
        }
        let deadline = Deadline::after(Duration::from_secs(10));
        loop {
            let open = self.shared.open.lock().expect("no panic under this lock");
            if open.is_empty() || deadline.over() {
                return;
            }
            for open in open.values() {
                open.out.socket.shutdown();
            }
            drop(open);
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_loop<H: Handler>(
    door: &Door,
    mut hall: Hall,
    shared: &Arc<Shared>,
    handler: &Arc<H>,
) -> io::Result<()> {
    let mut events = Vec::new();
    while !shared.stop.load(Ordering::SeqCst) {
        hall.wait(&mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Stirred(DOOR) => admit(door, &mut hall, shared),
                Event::Stirred(_) => {}
                Event::Answered(newcomer) => start_connection(newcomer, shared, handler),
                Event::Left(error) => {
                    shared.in_hello.fetch_sub(1, Ordering::Relaxed);
                    tracing::warn!("hello failed: {error}");
                }
            }
        }
    }
    Ok(())
}

/// Challenges the next at the door; if more are there, the door stirs again.
fn admit(door: &Door, hall: &mut Hall, shared: &Shared) {
    let fd = match door.accept() {
        Ok(Some(fd)) => fd,
        Ok(None) => return,
        Err(error) => {
            // Out of descriptors: those who are connected go on; the newcomer waits.
            tracing::warn!("cannot accept a connection: {error}");
            std::thread::sleep(Duration::from_millis(20));
            return;
        }
    };
    if shared.in_hello.fetch_add(1, Ordering::Relaxed) >= limits::CONNECTIONS_IN_HELLO {
        shared.in_hello.fetch_sub(1, Ordering::Relaxed);
        tracing::warn!("dropped a new connection: too many are in their hello");
        return;
    }
    let config = &shared.config;
    let challenge = Challenge::new(config.role, config.server, config.cluster, random_bytes());
    let entered = Socket::new(fd, door.is_unix()).and_then(|socket| hall.enter(socket, challenge));
    if let Err(error) = entered {
        shared.in_hello.fetch_sub(1, Ordering::Relaxed);
        tracing::warn!("hello failed: {error}");
    }
}

fn start_connection<H: Handler>(newcomer: Box<Newcomer>, shared: &Arc<Shared>, handler: &Arc<H>) {
    let (thread_shared, handler) = (shared.clone(), handler.clone());
    let spawned = std::thread::Builder::new()
        .name("conn".into())
        .stack_size(STACK)
        .spawn(move || {
            block_broken_pipe_signal();
            let shared = thread_shared;
            let hello = greet(*newcomer, &shared);
            shared.in_hello.fetch_sub(1, Ordering::Relaxed);
            match hello {
                Ok((link, _registered)) => serve(link, &shared, &*handler),
                Err(error) => tracing::warn!("hello failed: {error}"),
            }
        });
    if let Err(error) = spawned {
        shared.in_hello.fetch_sub(1, Ordering::Relaxed);
        tracing::warn!("dropped a new connection: no thread for it: {error}");
    }
}

/// A peer that closes while `sendfile` runs is an error here, not the end of the process.
fn block_broken_pipe_signal() {
    // SAFETY: plain calls on a set on this stack; they change this thread's mask only.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
}

/// The end of the hello; gives the connection, registered before the client is told that it may speak.
fn greet(newcomer: Newcomer, shared: &Shared) -> io::Result<(Link, Registered<'_>)> {
    let config = &shared.config;
    let Newcomer {
        socket,
        challenge,
        answer,
        deadline,
        ..
    } = newcomer;
    let name = socket.peer_name();
    let failed = |what: &dyn std::fmt::Display| io::Error::other(format!("{name}: {what}"));
    let verdict = answer
        .check(&challenge, &config.key)
        .and_then(|()| shared.fence(answer.client.get(), answer.generation.get(), deadline));
    if let Err(error) = verdict {
        let welcome = Welcome::refuse(error);
        let _ = socket.send_all(&mut [IoSlice::new(welcome.as_bytes())], deadline);
        return Err(failed(&error));
    }
    let incarnation = config.incarnation.load(Ordering::Relaxed);
    let welcome = Welcome::new(&challenge, &answer, &config.key, incarnation);
    let (pid, uid, gid, local) = match socket.peer_credentials() {
        Some((pid, uid, gid)) => (pid, uid, gid, true),
        None => (answer.pid.get(), answer.uid.get(), answer.gid.get(), false),
    };
    let client = answer.client.get();
    let peer = Peer {
        uid,
        gid,
        pid,
        client,
        local,
        name: name.clone(),
    };
    let link = Link::new(socket, peer, config.incarnation.clone());
    let number = shared.next.fetch_add(1, Ordering::Relaxed);
    let open = Open {
        out: link.out(),
        client,
        generation: answer.generation.get(),
    };
    shared
        .open
        .lock()
        .expect("no panic under this lock")
        .insert(number, open);
    let registered = Registered { shared, number };
    link.socket()
        .send_all(&mut [IoSlice::new(welcome.as_bytes())], deadline)
        .map_err(|e| failed(&e))?;
    Ok((link, registered))
}

impl Shared {
    /// Ends the client's connections of lower generations and waits until they have ended, those excepted
    /// that cannot do harm.
    fn fence(&self, client: u64, generation: u32, deadline: Deadline) -> Result<(), HelloError> {
        let mut open = self.open.lock().expect("no panic under this lock");
        if open.len() >= limits::CONNECTIONS {
            return Err(HelloError::Full);
        }
        if generation == 0 {
            return Ok(());
        }
        loop {
            let mut ending = 0;
            for one in open.values() {
                let older = one.client == client && one.generation < generation;
                if older && !one.out.is_spared() {
                    one.out.fenced.store(true, Ordering::SeqCst);
                    one.out.socket.shutdown();
                    ending += 1;
                }
            }
            if ending == 0 {
                return Ok(());
            }
            if deadline.over() {
                return Err(HelloError::Busy);
            }
            let wait = deadline.left().min(Duration::from_millis(50));
            open = self
                .closed
                .wait_timeout(open, wait)
                .expect("no panic under this lock")
                .0;
        }
    }
}

/// Takes a connection off the list even if its handler panics: nobody else must suffer.
struct Registered<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.shared
            .open
            .lock()
            .expect("no panic under this lock")
            .remove(&self.number);
        self.shared.closed.notify_all();
    }
}

fn serve<H: Handler>(mut link: Link, shared: &Shared, handler: &H) {
    let mut session = handler.connected(link.peer());
    let mut body = Vec::new();
    let stop = || shared.stop.load(Ordering::Relaxed);
    let end = loop {
        let header = match link.next(&mut body, &stop) {
            Ok(Some(header)) => header,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        let result = match handler.request(&mut session, &header, &body, &mut link) {
            Ok(Ok(())) if link.answered() => Ok(()),
            Ok(Ok(())) => link.refuse(
                &header,
                &Refusal::new(
                    errno::EOPNOTSUPP,
                    "the server has no answer to this request",
                ),
            ),
            Ok(Err(error)) => Err(error),
            Err(refusal) => link.refuse(&header, &refusal),
        };
        if let Err(error) = result {
            break Err(error);
        }
        if body.capacity() > 64 << 10 {
            // One large body must not stay in memory for the connection's life.
            body = Vec::new();
        }
    };
    if let Err(error) = end
        && !stop()
    {
        tracing::warn!("closed the connection of {}: {error}", link.peer().name);
    }
    link.socket().shutdown();
    handler.disconnected(session, &link.peer().clone());
}
