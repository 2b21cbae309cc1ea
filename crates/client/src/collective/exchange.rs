//! Members reach each other's buffers: on one host through the kernel, else each member answers the
//! others on a socket of its own while it is in a collective.

use std::collections::HashMap;
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use trireme_net::{
    Address, Connection, Deadline, Endpoint, Handler, Identity, Link, Listener, ListenerConfig,
    Loan, Peer, Reach, Region, Whereabouts, Wire, large_pages,
};
use trireme_proto::hello::Role;
use trireme_proto::message::collective::{decode_ranges, encode_ranges};
use trireme_proto::{Header, Key, Op, Refusal, refusal::errno};
use zerocopy::little_endian::U64;

use super::serve::Memory;
use crate::{Cluster, Error, Group, Result};

/// What a member tells the others about its buffer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Card {
    /// Encoded part of the file, in file order.
    pub view: Vec<u8>,
    /// Which host, for those on the same one.
    host: String,
    pid: u32,
    address: u64,
    addresses: Vec<String>,
}

type Buffers = Arc<Mutex<HashMap<u64, (Arc<Region>, u64, bool)>>>;

/// A member's door for the others; made at its first exchange, closed after one that failed.
#[derive(Debug)]
pub(crate) struct Door {
    _listener: Listener,
    addresses: Vec<String>,
    buffers: Buffers,
    /// Connections to other members, by rank.
    peers: Mutex<HashMap<u32, Connection>>,
    key: Key,
    identity: Identity,
    network_only: bool,
    _folder: Folder,
}

/// A folder for the socket, removed with the door.
#[derive(Debug)]
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keeps a buffer open to the others.
pub(crate) struct Open<'a> {
    door: &'a Door,
    sequence: u64,
    _loan: Loan,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.door.buffers).remove(&self.sequence);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Door {
    pub fn new(cluster: &Cluster, group: &Group) -> Result<Door> {
        let cannot = Error::local("cannot listen for the other members");
        let folder = std::env::temp_dir().join(format!(
            "trireme-{}-{:016x}",
            std::process::id(),
            trireme_net::random_u64()
        ));
        std::fs::create_dir(&folder).map_err(Error::local("cannot make a folder for a socket"))?;
        let folder = Folder(folder);
        let key = cluster.shared.key.clone();
        let mut addresses = vec![Address::Unix(folder.0.join("s"))];
        if let Some(host) = reachable_host(cluster, group) {
            addresses.push(Address::Tcp(host));
        }
        let buffers: Buffers = Arc::default();
        let listener = Listener::start(
            ListenerConfig {
                addresses,
                key: key.clone(),
                role: Role::Io,
                server: group.rank(),
                cluster: 0,
                incarnation: Arc::new(AtomicU64::new(1)),
            },
            Arc::new(Answerer {
                buffers: buffers.clone(),
            }),
        )
        .map_err(cannot)?;
        Ok(Door {
            addresses: listener
                .addresses()
                .iter()
                .map(ToString::to_string)
                .collect(),
            _listener: listener,
            buffers,
            peers: Mutex::default(),
            key,
            identity: Identity::of_this_process(),
            network_only: cluster.options().network_only,
            _folder: folder,
        })
    }

    /// Opens a buffer to the others.
    ///
    /// # Safety
    /// The memory must stay borrowed until the result is dropped.
    pub unsafe fn open(
        &self,
        sequence: u64,
        view: Vec<u8>,
        memory: Memory,
        write: bool,
    ) -> (Open<'_>, Card) {
        // SAFETY: the caller's promise.
        let loan = unsafe { Loan::new(memory.address(), memory.length()) };
        if !self.network_only {
            // SAFETY: as above.
            unsafe { large_pages::prepare(memory.address(), memory.length()) };
        }
        let entry = (loan.region(), memory.length() as u64, !write);
        lock(&self.buffers).insert(sequence, entry);
        let card = Card {
            view,
            host: host_name(),
            pid: std::process::id(),
            address: memory.address() as u64,
            addresses: self.addresses.clone(),
        };
        let open = Open {
            door: self,
            sequence,
            _loan: loan,
        };
        (open, card)
    }

    /// Another member's buffer.
    pub fn reach<'a>(
        &'a self,
        rank: u32,
        card: &Card,
        length: u64,
        sequence: u64,
        deadline: Deadline,
    ) -> Reach<'a> {
        let same_host = card.host == host_name() && !self.network_only;
        let at = if same_host && card.pid == std::process::id() {
            Region::find(card.address, length).map_or(Whereabouts::Away, Whereabouts::Here)
        } else if same_host {
            Whereabouts::Process(card.pid, card.address)
        } else {
            Whereabouts::Away
        };
        let wire = PeerWire {
            door: self,
            rank,
            endpoint: if self.network_only {
                Endpoint::from_texts(&card.addresses).network_only()
            } else {
                Endpoint::from_texts(&card.addresses)
            },
            sequence,
            deadline,
        };
        Reach::new(at, length, Box::new(wire))
    }
}

/// The address at which other hosts reach this one: that of its connections to the servers, or
/// the servers' own if they are all here.
fn reachable_host(cluster: &Cluster, group: &Group) -> Option<String> {
    let own = group.inner.local_host();
    let servers = cluster.map().servers.into_iter().flat_map(|server| {
        server
            .addresses
            .into_iter()
            .filter_map(|text| match text.parse() {
                Ok(Address::Tcp(host)) => Some(host.rsplit_once(':')?.0.to_owned()),
                _ => None,
            })
    });
    own.or_else(|| servers.into_iter().next())
        .map(|host| format!("{host}:0"))
}

/// Names this host and this set of process numbers.
fn host_name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let processes = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    format!("{} {}", boot.trim(), processes.display())
}

/// The way to another member over a socket, connected when first needed.
struct PeerWire<'a> {
    door: &'a Door,
    rank: u32,
    endpoint: Endpoint,
    sequence: u64,
    deadline: Deadline,
}

impl PeerWire<'_> {
    fn with<T>(&self, run: impl FnOnce(&mut Connection) -> io::Result<T>) -> io::Result<T> {
        let kept = lock(&self.door.peers).remove(&self.rank);
        let mut connection = if let Some(connection) = kept {
            connection
        } else {
            let door = self.door;
            Connection::connect(&self.endpoint, &door.key, door.identity, self.deadline)?
        };
        let result = run(&mut connection)?;
        lock(&self.door.peers).insert(self.rank, connection);
        Ok(result)
    }

    fn header(&self, op: Op) -> Header {
        let mut header = Header::request(op);
        header.offset = U64::new(self.sequence);
        header
    }
}

impl Wire for PeerWire<'_> {
    fn ask(&self, _: usize, ranges: &[Range<u64>], deadline: Deadline) -> io::Result<()> {
        let body = encode_ranges(ranges);
        self.with(|connection| {
            let mut header = self.header(Op::MEMGET);
            Ok(connection.send(&mut header, &body, &[], deadline)?)
        })
    }

    fn take(&self, _: usize, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> io::Result<()> {
        let wanted: usize = into.iter().map(|slice| slice.len()).sum();
        self.with(|connection| {
            let reply = connection.receive_vectored(into, deadline)?;
            if reply.header.payload.get() as usize != wanted {
                return Err(io::Error::other("sent fewer bytes than asked for"));
            }
            Ok(())
        })
    }

    fn put(
        &self,
        _: usize,
        ranges: &[Range<u64>],
        from: &mut [IoSlice<'_>],
        deadline: Deadline,
    ) -> io::Result<()> {
        let body = encode_ranges(ranges);
        self.with(|connection| {
            let mut header = self.header(Op::MEMPUT);
            connection.call(&mut header, &body, from, &mut [], deadline)?;
            Ok(())
        })
    }

    fn finish(&self, _: Deadline) -> io::Result<()> {
        Ok(())
    }

    fn is_open(&self) -> bool {
        self.with(|connection| Ok(!connection.is_stale()))
            .unwrap_or(false)
    }
}

/// Answers other members.
struct Answerer {
    buffers: Buffers,
}

impl Handler for Answerer {
    type Session = ();

    fn connected(&self, _: &Peer) {}

    fn request(
        &self,
        (): &mut (),
        header: &Header,
        body: &[u8],
        link: &mut Link,
    ) -> std::result::Result<io::Result<()>, Refusal> {
        let gave_up = || Refusal::new(errno::EPIPE, "the member is not in this collective");
        let found = lock(&self.buffers).get(&header.offset.get()).cloned();
        let (region, length, writable) = found.ok_or_else(gave_up)?;
        let (ranges, total) = decode_ranges(body, length)?;
        let slice = |base: *mut u8, range: &Range<u64>| {
            let length = (range.end - range.start) as usize;
            (base.wrapping_add(range.start as usize), length)
        };
        match header.op() {
            Op::MEMGET => region.with(|base| {
                let slices: Vec<IoSlice<'_>> = ranges
                    .iter()
                    .map(|range| {
                        let (at, length) = slice(base, range);
                        // SAFETY: inside the region, which is on loan while this runs.
                        IoSlice::new(unsafe { std::slice::from_raw_parts(at, length) })
                    })
                    .collect();
                Ok(link.reply_with(header.reply(), &[], &slices))
            }),
            Op::MEMPUT if writable && link.payload_left() as u64 == total => region.with(|base| {
                for range in &ranges {
                    let (at, length) = slice(base, range);
                    // SAFETY: inside the region; each byte is put by one member only.
                    let into = unsafe { std::slice::from_raw_parts_mut(at, length) };
                    if let Err(error) = link.receive_payload(into) {
                        return Ok(Err(error));
                    }
                }
                Ok(link.reply(header.reply()))
            }),
            _ => return Err(Refusal::protocol("a member only answers for its buffer")),
        }
        .unwrap_or_else(|| Err(gave_up()))
    }
}
