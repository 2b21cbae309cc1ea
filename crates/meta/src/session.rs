//! What lives in memory and belongs to clients: open files, leases, locks.
//!
//! Nothing here is durable. A manager that restarts has forgotten it; clients open again and
//! reclaim their locks within the grace time, during which no unlinked file is removed and no new
//! lock is given out that a reclaim could meet.

use crate::failure::{Errno, Failure};
use crate::lock::Locks;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};
use trireme_proto::message::meta::{LEASE_SECONDS, LockRange, OpenMode};

/// Most open files of one client: bounds what one can make the manager remember.
pub const OPENS_PER_CLIENT: usize = 65_536;

#[derive(Clone, Copy)]
struct Opening {
    inode: u64,
    access: OpenMode,
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
    // Unlinked files whose subfiles are being removed right now: not to be opened any more.
    reaping: HashSet<u64>,
    locks: Locks,
    grace_until: Instant,
    lock_grace_until: Instant,
    started: Instant,
    // When those went whose calls may still be remembered.
    departed: HashMap<u64, Instant>,
}

impl Sessions {
    /// Starts empty.
    pub fn new(grace: Duration) -> Self {
        Self {
            clients: HashMap::new(),
            files: HashMap::new(),
            reaping: HashSet::new(),
            locks: Locks::default(),
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
                if opening.access.write {
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
        entry.opens.insert(number, Opening { inode, access });
        let file = self.files.entry(inode).or_default();
        if access.write {
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

    /// Closes.
    pub fn close(&mut self, client: u64, open: u64) -> Result<Closed, Failure> {
        let (inode, wrote) = self.opening(client, open)?;
        if let Some(client) = self.clients.get_mut(&client) {
            client.opens.remove(&open);
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

    /// Nobody may be writing this file now, as far as this incarnation knows.
    pub fn no_writer(&self, inode: u64) -> bool {
        self.files.get(&inode).is_none_or(|file| file.writers == 0)
    }

    /// Says that a file's subfiles are about to be removed; false when somebody has it open.
    pub fn begin_reaping(&mut self, inode: u64) -> bool {
        if self.in_grace() || self.files.contains_key(&inode) {
            return false;
        }
        self.reaping.insert(inode);
        true
    }

    /// Removal is over, successful or not.
    pub fn end_reaping(&mut self, inode: u64) {
        self.reaping.remove(&inode);
    }

    /// Takes a lock.
    pub fn lock(&mut self, client: u64, range: LockRange, reclaim: bool) -> Result<(), Failure> {
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
        self.locks
            .lock(client, range)
            .map_err(|conflict| match conflict {
                Some(held) => Failure {
                    errno: Errno::Again,
                    what: format!("bytes {}..{} of inode {}", held.start, held.end, held.inode),
                },
                None => Failure {
                    errno: Errno::Busy,
                    what: "too many locks on one file".into(),
                },
            })
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
