//! What lives in memory and belongs to clients: open files, leases, locks and who waits for them.
//!
//! Nothing here is durable. A manager that restarts has forgotten it; clients open again and
//! reclaim their locks within the grace time, during which no unlinked file is removed and no new
//! lock is given out that a reclaim could meet.

use crate::failure::{Errno, Failure};
use crate::lock::Locks;
use crate::wait::{Waiter, Waiting};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use trireme_proto::message::meta::{LEASE_SECONDS, LockRange, OpenMode};

/// Most open files of one client: bounds what one can make the manager remember.
pub const OPENS_PER_CLIENT: usize = 65_536;

#[derive(Clone, Copy)]
struct Opening {
    inode: u64,
    access: OpenMode,
    // Open for writing, but it said that it writes nothing until it says otherwise.
    resting: bool,
}

impl Opening {
    fn writes(&self) -> bool {
        self.access.write && !self.resting
    }
}

#[derive(Default)]
struct Client {
    connections: usize,
    // When the last connection broke.
    alone_since: Option<Instant>,
    opens: HashMap<u64, Opening>,
}

#[derive(Default)]
struct File {
    openings: usize,
    writers: usize,
    // How many openings for writing each client has, resting ones included.
    by_client: HashMap<u64, usize>,
    // Every writer since the size was settled has told, or will tell, what it wrote.
    accounted: bool,
}

/// What closing a file means for its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The file.
    pub inode: u64,
    /// It was open for writing, and this was the last writer, and all writers told: settle.
    pub settle: bool,
    /// Nobody has it open any more.
    pub last: bool,
    /// It was open for writing.
    pub wrote: bool,
}

/// All clients.
pub struct Sessions {
    clients: HashMap<u64, Client>,
    files: HashMap<u64, File>,
    // Openings for writing that are about to be committed, and of which inode.
    coming: HashMap<(u64, u64), u64>,
    // Unlinked files whose subfiles are being removed right now: not to be opened any more.
    reaping: HashSet<u64>,
    // Files that are about to get their first name, and how many times: not to be removed.
    naming: HashMap<u64, usize>,
    locks: Locks,
    // Who waits for a lock of whom, and when it last asked.
    waits: HashMap<(u64, u64), Wait>,
    // Requests that are answered when the lock is free.
    waiting: Waiting,
    grace_until: Instant,
    lock_grace_until: Instant,
    started: Instant,
    // When those went whose calls may still be remembered.
    departed: HashMap<u64, Instant>,
}

struct Wait {
    range: LockRange,
    asked: Instant,
}

/// A waiter asks again within this time; one that did not has given up.
const WAIT_MEMORY: Duration = Duration::from_millis(500);
/// Longest chain of waiters that is followed when looking for a deadlock.
const WAIT_CHAIN: usize = 64;

impl Sessions {
    /// Starts empty.
    pub fn new(grace: Duration) -> Self {
        Self {
            clients: HashMap::new(),
            files: HashMap::new(),
            coming: HashMap::new(),
            reaping: HashSet::new(),
            naming: HashMap::new(),
            locks: Locks::default(),
            waits: HashMap::new(),
            waiting: Waiting::default(),
            grace_until: Instant::now() + grace,
            lock_grace_until: Instant::now() + grace,
            started: Instant::now(),
            departed: HashMap::new(),
        }
    }

    /// True while clients of an earlier incarnation may still come back.
    pub fn in_grace(&self) -> bool {
        Instant::now() < self.grace_until
    }

    /// Ends the grace time: a manager of a new, empty file system has nothing to wait for.
    pub fn end_grace(&mut self) {
        self.grace_until = Instant::now();
        self.lock_grace_until = Instant::now();
    }

    /// Ends the grace time for locks: none was held when the last manager ended.
    pub fn end_lock_grace(&mut self) {
        self.lock_grace_until = Instant::now();
    }

    /// A connection of this client came.
    pub fn connected(&mut self, client: u64) {
        let entry = self.clients.entry(client).or_default();
        entry.connections += 1;
        entry.alone_since = None;
        self.departed.remove(&client);
    }

    /// How long a client has had no connection. One that this manager has never seen may have left
    /// just before it started.
    pub fn away_for(&self, client: u64) -> Duration {
        if self
            .clients
            .get(&client)
            .is_some_and(|entry| entry.connections > 0)
        {
            return Duration::ZERO;
        }
        self.departed
            .get(&client)
            .unwrap_or(&self.started)
            .elapsed()
    }

    /// Those away for longer need no note: so long ago is what the absence of one means, too, once
    /// the manager has run that long.
    pub fn prune_departed(&mut self, kept: Duration) {
        if self.started.elapsed() >= kept {
            self.departed.retain(|_, at| at.elapsed() < kept);
        }
    }

    /// Nothing is remembered of this client any more.
    pub fn forgotten(&mut self, client: u64) {
        self.departed.remove(&client);
    }

    /// A connection of this client went.
    pub fn disconnected(&mut self, client: u64) {
        if let Some(entry) = self.clients.get_mut(&client) {
            entry.connections = entry.connections.saturating_sub(1);
            if entry.connections == 0 {
                self.departed.insert(client, Instant::now());
                // Nobody is there to be told; should it come back, it asks again.
                self.waiting.take(|waiter| waiter.client == client);
                if entry.opens.is_empty() && self.locks.is_empty() {
                    self.clients.remove(&client);
                } else {
                    entry.alone_since = Some(Instant::now());
                }
            }
        }
    }

    /// Forgets clients whose lease is over. Gives the files that nobody has open any more.
    pub fn expire(&mut self) -> Vec<u64> {
        let lease = Duration::from_secs(LEASE_SECONDS);
        let over = |client: &Client| {
            client.connections == 0 && client.alone_since.is_none_or(|at| at.elapsed() >= lease)
        };
        let gone: Vec<u64> = self
            .clients
            .iter()
            .filter(|(_, c)| over(c))
            .map(|(id, _)| *id)
            .collect();
        gone.into_iter()
            .flat_map(|client| self.forget(client))
            .collect()
    }

    /// Forgets a client. Gives the files that nobody has open any more.
    pub fn forget(&mut self, client: u64) -> Vec<u64> {
        self.locks.forget(client);
        let Some(entry) = self.clients.remove(&client) else {
            return Vec::new();
        };
        let mut free = Vec::new();
        for opening in entry.opens.into_values() {
            if let Some(file) = self.files.get_mut(&opening.inode) {
                file.openings -= 1;
                file.by_client.remove(&client);
                if opening.writes() {
                    // It died without telling what it wrote: only the I/O servers know the size.
                    file.writers -= 1;
                    file.accounted = false;
                }
                if file.openings == 0 {
                    self.files.remove(&opening.inode);
                    free.push(opening.inode);
                }
            }
        }
        free
    }

    /// Opens a file for a client, as `number`; once, however often it is asked. `settled` says
    /// that the inode's size was final until now.
    pub fn open(
        &mut self,
        client: u64,
        number: u64,
        inode: u64,
        access: OpenMode,
        settled: bool,
    ) -> Result<(), Failure> {
        if self.reaping.contains(&inode) {
            return Err(Failure {
                errno: Errno::NoEnt,
                what: format!("inode {inode}"),
            });
        }
        let entry = self.clients.entry(client).or_default();
        if let Some(known) = entry.opens.get(&number) {
            if known.inode == inode && known.access == access {
                return Ok(());
            }
            let what = format!("opening {number:#x} is another file already");
            return Err(Failure {
                errno: Errno::Inval,
                what,
            });
        }
        if entry.opens.len() >= OPENS_PER_CLIENT {
            let what = format!("{OPENS_PER_CLIENT} files are open in one client; close some");
            return Err(Failure {
                errno: Errno::Busy,
                what,
            });
        }
        let opening = Opening {
            inode,
            access,
            resting: false,
        };
        entry.opens.insert(number, opening);
        let file = self.files.entry(inode).or_default();
        if access.write {
            *file.by_client.entry(client).or_default() += 1;
            if file.writers == 0 {
                file.accounted = settled;
            }
            file.writers += 1;
        }
        file.openings += 1;
        Ok(())
    }

    /// The file behind an opening, and whether it may be written.
    pub fn opening(&self, client: u64, open: u64) -> Result<(u64, bool), Failure> {
        let found = self
            .clients
            .get(&client)
            .and_then(|client| client.opens.get(&open));
        let found = found.ok_or_else(|| Failure {
            errno: Errno::BadF,
            what: format!("opening {open:#x}"),
        })?;
        Ok((found.inode, found.access.write))
    }

    /// An opening writes nothing until [`Sessions::resume`]. Gives what closing it would.
    pub fn rest(&mut self, client: u64, open: u64) -> Result<Closed, Failure> {
        let (inode, _) = self.opening(client, open)?;
        let mut closed = Closed {
            inode,
            settle: false,
            last: false,
            wrote: false,
        };
        let opening = self.clients.get_mut(&client);
        let opening = opening.and_then(|client| client.opens.get_mut(&open));
        let file = self.files.get_mut(&inode);
        if let (Some(opening), Some(file)) = (opening, file)
            && opening.writes()
        {
            opening.resting = true;
            file.writers -= 1;
            closed.wrote = true;
            closed.settle = file.writers == 0 && file.accounted;
        }
        Ok(closed)
    }

    /// An opening that rested writes again; `settled` as in [`Sessions::open`].
    pub fn resume(&mut self, client: u64, open: u64, settled: bool) -> Result<(), Failure> {
        let (inode, _) = self.opening(client, open)?;
        let opening = self.clients.get_mut(&client);
        let opening = opening.and_then(|client| client.opens.get_mut(&open));
        let file = self.files.get_mut(&inode);
        if let (Some(opening), Some(file)) = (opening, file)
            && opening.resting
        {
            opening.resting = false;
            if file.writers == 0 {
                file.accounted = settled;
            }
            file.writers += 1;
        }
        Ok(())
    }

    /// Some other client has this file open for writing.
    pub fn others_write(&self, client: u64, inode: u64) -> bool {
        let file = self.files.get(&inode);
        file.is_some_and(|file| file.by_client.keys().any(|other| *other != client))
    }

    /// Closes.
    pub fn close(&mut self, client: u64, open: u64) -> Result<Closed, Failure> {
        let (inode, for_writing) = self.opening(client, open)?;
        let mut wrote = for_writing;
        if let Some(client) = self.clients.get_mut(&client)
            && let Some(opening) = client.opens.remove(&open)
        {
            wrote = opening.writes();
        }
        let mut closed = Closed {
            inode,
            settle: false,
            last: false,
            wrote,
        };
        if let Some(file) = self.files.get_mut(&inode) {
            file.openings -= 1;
            file.writers -= usize::from(wrote);
            if for_writing && let Some(count) = file.by_client.get_mut(&client) {
                *count -= 1;
                if *count == 0 {
                    file.by_client.remove(&client);
                }
            }
            closed.settle = wrote && file.writers == 0 && file.accounted;
            closed.last = file.openings == 0;
            if closed.last {
                self.files.remove(&inode);
            }
        }
        Ok(closed)
    }

    /// A file was cut: what other writers tell of its size no longer says anything.
    pub fn truncated(&mut self, inode: u64, by_only_writer: bool) -> bool {
        match self.files.get_mut(&inode) {
            Some(file) if file.writers > 0 => {
                file.accounted &= by_only_writer && file.writers == 1;
                false
            }
            _ => true,
        }
    }

    /// Nobody may be writing this file now or soon, as far as this incarnation knows.
    pub fn no_writer(&self, inode: u64) -> bool {
        self.files.get(&inode).is_none_or(|file| file.writers == 0)
            && !self.coming.values().any(|coming| *coming == inode)
    }

    /// An opening for writing is about to be committed: whoever closes the file meanwhile must not take
    /// its size for settled.
    pub fn writer_comes(&mut self, client: u64, number: u64, inode: u64) {
        self.coming.insert((client, number), inode);
    }

    /// The opening has been committed and noted, or has failed.
    pub fn writer_came(&mut self, client: u64, number: u64) {
        self.coming.remove(&(client, number));
    }

    /// Says that a file's subfiles are about to be removed; false when somebody has it open, or is
    /// removing them already.
    pub fn begin_reaping(&mut self, inode: u64) -> bool {
        // One that is about to be opened may have been made for that, without a name.
        let wanted = self.files.contains_key(&inode)
            || self.naming.contains_key(&inode)
            || self.coming.values().any(|coming| *coming == inode);
        if self.in_grace() || wanted {
            return false;
        }
        // Not twice: a sweep that somebody asked for meets the janitor's own.
        self.reaping.insert(inode)
    }

    /// Removal is over, successful or not.
    pub fn end_reaping(&mut self, inode: u64) {
        self.reaping.remove(&inode);
    }

    /// A file without a name is about to get one: it is not removed before [`Sessions::named`]. False when
    /// it is being removed already.
    pub fn begin_naming(&mut self, inode: u64) -> bool {
        if self.reaping.contains(&inode) {
            return false;
        }
        *self.naming.entry(inode).or_default() += 1;
        true
    }

    /// It has got its name, or will not.
    pub fn named(&mut self, inode: u64) {
        if let Some(count) = self.naming.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.naming.remove(&inode);
            }
        }
    }

    /// Takes a lock.
    pub fn lock(
        &mut self,
        client: u64,
        range: LockRange,
        reclaim: bool,
        wait: bool,
    ) -> Result<(), Failure> {
        if range.start >= range.end {
            return Err(Failure {
                errno: Errno::Inval,
                what: "an empty lock range".into(),
            });
        }
        if Instant::now() < self.lock_grace_until && !reclaim {
            let what = "the manager has just restarted and waits for earlier holders of locks";
            return Err(Failure {
                errno: Errno::Again,
                what: what.into(),
            });
        }
        self.clients.entry(client).or_default();
        let waiter = (client, range.owner);
        match self.locks.lock(client, range) {
            Ok(()) => {
                self.waits.remove(&waiter);
                Ok(())
            }
            Err(Some(held)) => {
                if wait && !range.flock {
                    let asked = Instant::now();
                    self.waits
                        .retain(|_, wait| asked - wait.asked < WAIT_MEMORY);
                    if self.waits_for(waiter, client, &range) {
                        return Err(Failure {
                            errno: Errno::Deadlock,
                            what: format!("a lock on inode {}", range.inode),
                        });
                    }
                    self.waits.insert(waiter, Wait { range, asked });
                }
                Err(Failure {
                    errno: Errno::Again,
                    what: format!("bytes {}..{} of inode {}", held.start, held.end, held.inode),
                })
            }
            Err(None) => Err(Failure {
                errno: Errno::Busy,
                what: "too many locks on one file".into(),
            }),
        }
    }

    /// Does whoever holds `range`, or whoever they wait for in turn, wait for `waiter`?
    fn waits_for(&self, waiter: (u64, u64), client: u64, range: &LockRange) -> bool {
        let mut next = self.locks.holder(client, range);
        for _ in 0..WAIT_CHAIN {
            let Some(holder) = next else { return false };
            if holder == waiter {
                return true;
            }
            let Some(wait) = self.waits.get(&holder) else {
                return false;
            };
            next = self.locks.holder(holder.0, &wait.range);
        }
        false
    }

    /// Keeps a request that [`Sessions::lock`] refused until the lock is free; gives the request that it
    /// takes the place of. An error: it cannot wait.
    pub fn wait(&mut self, waiter: Waiter) -> Result<Option<Waiter>, Waiter> {
        if Instant::now() < self.lock_grace_until {
            return Err(waiter);
        }
        let (who, until) = ((waiter.client, waiter.range.owner), waiter.until);
        let replaced = self.waiting.add(waiter)?;
        if let Some(wait) = self.waits.get_mut(&who) {
            // It need not ask again to be remembered when somebody looks for a deadlock.
            wait.asked = until;
        }
        Ok(replaced)
    }

    /// Gives free locks to those who wait for them, in the order in which they asked.
    pub fn grant(&mut self) -> Vec<Waiter> {
        let (locks, waits) = (&mut self.locks, &mut self.waits);
        self.waiting.take(|waiter| {
            let granted = locks.lock(waiter.client, waiter.range).is_ok();
            if granted {
                waits.remove(&(waiter.client, waiter.range.owner));
            }
            granted
        })
    }

    /// Those who have waited long enough.
    pub fn impatient(&mut self) -> Vec<Waiter> {
        let now = Instant::now();
        let waits = &mut self.waits;
        self.waiting.take(|waiter| {
            let over = waiter.until <= now;
            if over {
                waits.remove(&(waiter.client, waiter.range.owner));
            }
            over
        })
    }

    /// When the first of those who wait has waited long enough.
    pub fn first_end(&self) -> Option<Instant> {
        self.waiting.first_end()
    }

    /// Gives a lock back.
    pub fn unlock(&mut self, client: u64, range: &LockRange) {
        self.locks.unlock(client, range);
    }

    /// A lock that is in the way.
    pub fn conflict(&self, client: u64, range: &LockRange) -> Option<LockRange> {
        self.locks.conflict(client, range)
    }

    /// Clients and open files.
    pub fn counts(&self) -> (usize, usize) {
        (
            self.clients.len(),
            self.clients.values().map(|client| client.opens.len()).sum(),
        )
    }

    /// True when the client is known.
    pub fn knows(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }
}
