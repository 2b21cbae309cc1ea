//! Processes that work together: membership, barriers and exchanges, by the I/O servers' own means.
//!
//! No MPI is needed, and no shared directory: a name, a number and the number of members will do.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use trireme_net::{Connection, Deadline, Identity, Lease, NetError, Pool};
use trireme_proto::message::group::{Absent, Gather, Gathered, Join, Joined, Lane, Seat};
use trireme_proto::{Flags, Header, Op, limits};

use crate::collective::{Bounce, Door};
use crate::{Cluster, Error, Result};

/// How much longer than a server we wait: its answer says who is missing, ours could not.
pub(crate) const GRACE: Duration = Duration::from_secs(5);

/// One member's end of a group.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let embedded = trireme::embedded::Embedded::start(dir.path(), 2)?;
/// use trireme::{Group, Partition};
/// std::thread::scope(|scope| {
///     for rank in 0..3u8 {
///         let embedded = &embedded;
///         scope.spawn(move || -> trireme::Result<()> {
///             // In a program, each of these is a process, on any host.
///             let cluster = embedded.connect()?;
///             let group = Group::join(&cluster, "example", rank.into(), 3)?;
///             let file = trireme::OpenOptions::new().read(true).write(true).create(true)
///                 .open(&cluster, "/matrix")?;
///             let mine = Partition::named("rc", 8, 2400, 3)?.part(rank.into())?;
///             group.write_all(&file, &mine, &[rank; 800])?;
///             let mut back = [0; 800];
///             group.read_all(&file, &mine, &mut back)?;
///             assert_eq!(back, [rank; 800]);
///             Ok(())
///         });
///     }
/// });
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct Group {
    pub(crate) inner: Arc<Inner>,
    patient: bool,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub cluster: Cluster,
    pub name: String,
    pub seat: Seat,
    home: Arc<Pool>,
    identity: Identity,
    lanes: Mutex<HashMap<u32, Vec<Connection>>>,
    gathers: AtomicU64,
    pub collectives: AtomicU64,
    pub queue: Queue,
    /// Where bytes are packed that do not lie in the program's buffer as in the file.
    pub bounce: Bounce,
    /// Where the other members reach this one's buffers.
    pub door: Mutex<Option<Door>>,
}

/// A member is in one collective at a time, in the order of its calls.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    tickets: AtomicU64,
    served: Mutex<u64>,
    changed: Condvar,
}

/// Lets the next one in when dropped.
pub(crate) struct Turn<'a>(&'a Queue);

impl Queue {
    /// A place in the queue.
    pub fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::SeqCst)
    }

    /// Waits until all earlier tickets have been served; every collective ends, so this does.
    pub fn wait(&self, ticket: u64) -> Turn<'_> {
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        while *served < ticket {
            served = self
                .changed
                .wait(served)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.served.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.changed.notify_all();
    }
}

impl Group {
    /// Waits until all `size` members of the group called `name` are there; this one is number `rank`,
    /// from 0. One that does not come within the deadline is an error that names it.
    pub fn join(cluster: &Cluster, name: &str, rank: u32, size: u32) -> Result<Group> {
        if size == 0 || size > limits::MEMBERS || rank >= size {
            return Err(Error::Invalid(format!(
                "member {rank} of {size}: a group has 1 to {} members, numbered from 0",
                limits::MEMBERS
            )));
        }
        let deadline = cluster.deadline();
        let mut servers: Vec<u32> = cluster
            .map()
            .servers
            .iter()
            .map(|server| server.id)
            .collect();
        if servers.is_empty() {
            cluster.refresh()?;
            servers = cluster
                .map()
                .servers
                .iter()
                .map(|server| server.id)
                .collect();
        }
        servers.sort_unstable();
        // All members must meet at the same server.
        let home = *servers
            .get((hash(name) % servers.len().max(1) as u64) as usize)
            .ok_or_else(|| Error::Invalid("the cluster has no I/O servers yet".into()))?;
        let home = cluster.server(home)?;
        let join = Join {
            name: name.to_owned(),
            rank,
            size,
        };
        let mut lease = fresh_lease(&home, deadline)?;
        let header = Header::request(Op::JOIN);
        let joined: Joined = ask(&mut lease, header, &join, &[], &mut [], deadline)?.0;
        lease.give_back();
        let inner = Inner {
            cluster: cluster.clone(),
            name: name.to_owned(),
            seat: Seat {
                group: joined.group,
                rank,
                size,
            },
            home,
            identity: Identity::of_this_process(),
            lanes: Mutex::default(),
            gathers: AtomicU64::new(0),
            collectives: AtomicU64::new(0),
            queue: Queue::default(),
            bounce: Bounce::default(),
            door: Mutex::default(),
        };
        for server in servers {
            let lanes = inner.take_lanes(server, deadline)?;
            inner.lock_lanes().insert(server, lanes);
        }
        let group = Group {
            inner: Arc::new(inner),
            patient: false,
        };
        // From here on every server notices at once when a member dies.
        group.barrier()?;
        Ok(group)
    }

    /// The same member, who from now on waits for the others as long as they live, not only for the
    /// deadline: they may compute for hours before they make the call. What has died, or does not
    /// answer, is an error as ever; a member that never makes the call is none.
    pub fn patient(self) -> Group {
        Group {
            patient: true,
            ..self
        }
    }

    /// A request that is answered when the other members have made it, too.
    pub(crate) fn request(&self, op: Op) -> Header {
        let mut header = Header::request(op);
        if self.patient {
            header.add_flags(Flags::PATIENT);
        }
        header
    }

    /// This member's number.
    pub fn rank(&self) -> u32 {
        self.inner.seat.rank
    }

    /// How many members there are.
    pub fn size(&self) -> u32 {
        self.inner.seat.size
    }

    /// The group's name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns when all members have called it.
    pub fn barrier(&self) -> Result<()> {
        self.gather(&[]).map(drop)
    }

    /// Members that are gone: their processes ended, or they have left the group. Does not wait for
    /// anybody, so that who waits for the others by other means can look whether it makes sense.
    pub fn absent(&self) -> Result<Vec<u32>> {
        let inner = &self.inner;
        let deadline = inner.cluster.deadline();
        let mut lease = fresh_lease(&inner.home, deadline)?;
        let seat = &inner.seat;
        let header = Header::request(Op::ABSENT);
        let absent: Absent = ask(&mut lease, header, seat, &[], &mut [], deadline)?.0;
        lease.give_back();
        Ok(absent.ranks)
    }

    /// Every member brings some bytes and gets those of all, in the order of rank. For small things: all
    /// of it together is at most 4 MiB. A member makes one such call after the other.
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let inner = &self.inner;
        let deadline = inner.cluster.deadline();
        let body = Gather {
            seat: inner.seat,
            sequence: inner.gathers.fetch_add(1, Ordering::Relaxed),
        };
        let mut room = vec![0; limits::PAYLOAD_BYTES as usize];
        let mut lease = fresh_lease(&inner.home, deadline)?;
        let header = self.request(Op::GATHER);
        let (gathered, _): (Gathered, _) =
            ask(&mut lease, header, &body, bytes, &mut room, deadline)?;
        lease.give_back();
        let mut rest = &room[..];
        gathered
            .lengths
            .iter()
            .map(|length| {
                let (one, after) = rest
                    .split_at_checked(*length as usize)
                    .ok_or_else(|| Error::Invalid("the server's answer does not add up".into()))?;
                rest = after;
                Ok(one.to_vec())
            })
            .collect()
    }
}

/// FNV-1a: the same for all members, whatever they were built with.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// A connection that is certainly alive now.
pub(crate) fn fresh_lease(pool: &Pool, deadline: Deadline) -> Result<Lease<'_>> {
    loop {
        let lease = pool.lease_or_wait(deadline)?;
        if !lease.is_stale() {
            return Ok(lease);
        }
    }
}

/// One request whose answer may take as long as the others take to come.
fn ask<Q: serde::Serialize, R: serde::de::DeserializeOwned>(
    lease: &mut Lease<'_>,
    mut header: Header,
    body: &Q,
    payload: &[u8],
    into: &mut [u8],
    deadline: Deadline,
) -> Result<(R, usize)> {
    let body = trireme_proto::encode(body);
    lease.send(&mut header, &body, &[IoSlice::new(payload)], deadline)?;
    let reply = loop {
        let reply = lease.receive(into, Deadline::after(deadline.total() + GRACE))?;
        if reply.header.op() != Op::PROGRESS {
            break reply;
        }
    };
    let decoded = trireme_proto::decode(&reply.body).map_err(|source| NetError::Refused {
        peer: lease.peer().to_owned(),
        source,
    })?;
    Ok((decoded, reply.header.payload.get() as usize))
}

impl Inner {
    fn lock_lanes(&self) -> MutexGuard<'_, HashMap<u32, Vec<Connection>>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This host's address on the network that the servers are reached by, if it is one.
    pub fn local_host(&self) -> Option<String> {
        self.lock_lanes()
            .values()
            .flatten()
            .find_map(|lane| lane.socket().local_host())
    }

    /// The lanes to a server, connected anew if need be; the caller puts them back.
    pub fn take_lanes(&self, server: u32, deadline: Deadline) -> Result<Vec<Connection>> {
        if let Some(lanes) = self.lock_lanes().remove(&server)
            && lanes.iter().all(|lane| !lane.is_stale())
        {
            return Ok(lanes);
        }
        let pool = self.cluster.server(server)?;
        (0..limits::LANES)
            .map(|lane| {
                let mut connection = pool.separate(self.identity, deadline)?;
                let body = trireme_proto::encode(&Lane {
                    seat: self.seat,
                    name: self.name.clone(),
                    lane,
                });
                let mut header = Header::request(Op::LANE);
                connection.call(&mut header, &body, &[], &mut [], deadline)?;
                Ok(connection)
            })
            .collect()
    }

    /// Keeps healthy lanes for the next collective.
    pub fn keep_lanes(&self, server: u32, lanes: Vec<Connection>) {
        self.lock_lanes().insert(server, lanes);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_builds_meet_at_the_same_server() {
        // Published values of the hash: whoever changes it splits groups of mixed versions.
        assert_eq!(super::hash(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(super::hash("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(super::hash("foobar"), 0x8594_4171_f739_67e8);
    }
}
