//! The janitor: works off the to-do list, ends leases, watches the disk. One thread, woken each
//! second and on demand; whatever it fails to do stays on the durable list.

use super::{Inner, Manager, SPACE_RESERVE};
use crate::failure::Failure;
use crate::key;
use crate::namespace::remove;
use crate::record::{Body, Inode};
use crate::txn::{Read, Reader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use trireme_proto::message::meta::SERIAL_WINDOW;

const PERIOD: Duration = Duration::from_secs(1);
/// To-do entries looked at in one page, and files erased in one transaction.
const PAGE: usize = 256;
const ERASE: usize = 8;
/// Rounds between two looks for calls that need not be remembered any more.
const FORGET_EVERY: u32 = 60;

/// The thread. Dropping it stops it.
pub(super) struct Janitor {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Janitor {
    pub(super) fn start(inner: &Arc<Inner>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, flag) = (Arc::downgrade(inner), stop.clone());
        let thread = std::thread::Builder::new()
            .name("janitor".into())
            .spawn(move || work(&weak, &flag))
            .expect("a thread for the janitor");
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn work(inner: &Weak<Inner>, stop: &AtomicBool) {
    let mut rounds = 0u32;
    while !stop.load(Ordering::SeqCst) {
        std::thread::park_timeout(PERIOD);
        let Some(inner) = inner.upgrade() else { return };
        if stop.load(Ordering::SeqCst) {
            return;
        }
        // For the log.
        inner.is_full();
        let freed = inner.sessions().expire();
        for inode in freed {
            inner.leave_unsettled(inode);
        }
        inner.grant_locks();
        if let Err(failure) = inner.sweep() {
            tracing::debug!(%failure, "the to-do list is not empty yet");
        }
        inner.settle_some();
        rounds += 1;
        if rounds.is_multiple_of(FORGET_EVERY)
            && let Err(failure) = inner.forget_calls()
        {
            tracing::debug!(%failure, "calls of departed clients are still remembered");
        }
    }
}

impl Manager {
    /// Forgets what the numbered calls of clients gave that have been away for long; gives how many.
    /// The manager does this by itself every minute.
    pub fn forget_calls(&self) -> Result<usize, Failure> {
        self.inner.forget_calls()
    }

    /// Works off the to-do list; gives how much is left. The manager does this by itself every second.
    pub fn sweep(&self) -> Result<u64, Failure> {
        self.inner.sweep()
    }
}

impl Inner {
    /// Works off what can be worked off now. Gives how much is left.
    pub(super) fn sweep(self: &Arc<Self>) -> Result<u64, Failure> {
        if self.todo.load(Ordering::Relaxed) == 0 {
            return Ok(0);
        }
        let noted = self.todo.load(Ordering::Relaxed);
        // An unlink must not be undone by a power cut after the bytes have gone.
        self.queue.run(|_| Ok(()))?;
        let (mut from, to) = key::table(b't');
        let mut left = 0;
        let mut trouble = None;
        loop {
            let page = Reader::uncached(&self.cache).pairs(&from, &to, PAGE)?;
            let Some((last, _)) = page.last() else { break };
            from.clone_from(last);
            from.push(0);
            let mut gone = Vec::new();
            let mut note = |done| match done {
                Ok(true) => {}
                Ok(false) => left += 1,
                Err(failure) => {
                    left += 1;
                    trouble = Some(failure);
                }
            };
            for (key, _) in &page {
                let inode = key::number(key).unwrap_or(0);
                if key.last() == Some(&0) {
                    gone.push(inode);
                } else {
                    note(self.resume_truncate(inode).map(|()| true));
                }
            }
            let mut erased = Vec::new();
            for (inode, removed) in self.remove_subfiles(gone) {
                if matches!(removed, Ok(true)) {
                    erased.push(inode);
                }
                note(removed);
            }
            for group in erased.chunks(ERASE) {
                let group = group.to_vec();
                let inodes = group.clone();
                let result = self.queue.run(move |txn| {
                    inodes
                        .iter()
                        .try_for_each(|inode| remove::erase(txn, *inode))
                });
                for inode in group {
                    self.sessions().end_reaping(inode);
                }
                result?;
            }
        }
        // Set to zero only if nothing was added while we looked.
        if left == 0 {
            let _ = self
                .todo
                .compare_exchange(noted, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
        match trouble {
            Some(failure) => {
                tracing::warn!(%failure, left, "some subfiles could not be removed or cut yet");
                Ok(left)
            }
            None => Ok(left),
        }
    }

    /// Removes the subfiles of unlinked files, of all at once; false for one that is still open somewhere. Those that
    /// it is true for are being reaped until they are erased.
    fn remove_subfiles(&self, inodes: Vec<u64>) -> Vec<(u64, Result<bool, Failure>)> {
        let mut sessions = self.sessions();
        let (ours, open): (Vec<u64>, Vec<u64>) = inodes
            .into_iter()
            .partition(|inode| sessions.begin_reaping(*inode));
        drop(sessions);
        let (mut results, mut stored) = (Vec::new(), Vec::new());
        for inode in ours {
            match Reader::uncached(&self.cache).record::<Inode>(&key::inode(inode)) {
                // A to-do entry never outranks a name: fsck reports this, nobody deletes.
                Ok(Some(node)) if node.nlink > 0 => results.push((inode, Ok(false))),
                Ok(Some(Inode {
                    body: Body::File(layout),
                    touched: true,
                    ..
                })) => stored.push((inode, layout)),
                other => results.push((inode, other.map(|_| true))),
            }
        }
        if !stored.is_empty() {
            let removed = match self.subfiles() {
                Ok(servers) => servers.remove(&stored),
                Err(failure) => stored.iter().map(|_| Err(failure.clone())).collect(),
            };
            let inodes = stored.iter().map(|(inode, _)| *inode);
            results.extend(inodes.zip(removed.into_iter().map(|one| one.map(|()| true))));
        }
        let mut sessions = self.sessions();
        for (inode, removed) in &results {
            if !matches!(removed, Ok(true)) {
                sessions.end_reaping(*inode);
            }
        }
        drop(sessions);
        results.extend(open.into_iter().map(|inode| (inode, Ok(false))));
        results
    }

    /// Forgets what the numbered calls of departed clients gave. They repeat a call for
    /// `RETRY_SECONDS` at most, and have been away for longer.
    pub(crate) fn forget_calls(&self) -> Result<usize, Failure> {
        let (mut from, to) = key::table(b'r');
        let mut forgotten = 0;
        loop {
            let first = Reader::uncached(&self.cache).pairs(&from, &to, 1)?;
            let Some(client) = first.first().and_then(|(key, _)| key::number(key)) else {
                self.sessions().prune_departed(self.options.calls_kept);
                return Ok(forgotten);
            };
            // A client chooses its number: also the last one there is.
            let end = client
                .checked_add(1)
                .map_or(to.clone(), |next| key::start_of(b'r', next));
            let mine = (key::start_of(b'r', client), end);
            if self.sessions().away_for(client) >= self.options.calls_kept {
                let range = mine.clone();
                forgotten += self.queue.run(move |txn| {
                    let records = txn.pairs(&range.0, &range.1, SERIAL_WINDOW as usize)?;
                    for (key, _) in &records {
                        txn.delete(key.clone());
                    }
                    Ok(records.len())
                })?;
                self.sessions().forgotten(client);
            }
            from = mine.1;
        }
    }

    fn settle_some(self: &Arc<Self>) {
        let waiting: Vec<u64> = {
            let set = self
                .unsettled
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            set.iter().take(PAGE).copied().collect()
        };
        for inode in waiting {
            match self.settle(inode) {
                Ok(()) => {
                    self.unsettled
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .remove(&inode);
                }
                // The servers are away: stat asks them itself, there is no hurry.
                Err(_) => return,
            }
        }
    }

    /// Whether the manager's disk has no room for anything new.
    pub(super) fn is_full(&self) -> bool {
        let Some(directory) = &self.options.directory else {
            return false;
        };
        let Ok(space) = rustix::fs::statvfs(directory) else {
            return self.full.load(Ordering::Relaxed);
        };
        let full = space.f_bavail.saturating_mul(space.f_frsize) < SPACE_RESERVE;
        if full != self.full.swap(full, Ordering::Relaxed) {
            tracing::warn!(full, "the metadata manager's disk");
        }
        full
    }
}
