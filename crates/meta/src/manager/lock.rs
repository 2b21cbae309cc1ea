//! Locks: taken at once, or given to a waiting request when they become free. A request that waits
//! occupies no thread; one thread ends those that have waited long enough.

use super::{Inner, LOCKED};
use crate::failure::{Errno, Failure};
use crate::key;
use crate::namespace::explain;
use crate::record;
use crate::txn::{Read, Reader};
use crate::wait::{Answer, Waiter};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};
use trireme_proto::message::meta::{LOCK_WAIT_MS, LockRange, Response, Time};

/// The thread that ends waits. Dropping it stops it.
pub(super) struct Bell {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Bell {
    pub(super) fn start(inner: &Arc<Inner>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (weak, flag) = (Arc::downgrade(inner), stop.clone());
        let thread = std::thread::Builder::new()
            .name("lock-waits".into())
            .spawn(move || ring(&weak, &flag))
            .expect("a thread for those who wait for locks");
        let _ = inner.bell.set(thread.thread().clone());
        Self {
            stop,
            thread: Some(thread),
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn ring(inner: &Weak<Inner>, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        let Some(inner) = inner.upgrade() else { return };
        let (over, first) = {
            let mut sessions = inner.sessions();
            (sessions.impatient(), sessions.first_end())
        };
        for waiter in over {
            (waiter.answer)(Err(held(&waiter.range)));
        }
        drop(inner);
        match first {
            Some(end) => std::thread::park_timeout(end.saturating_duration_since(Instant::now())),
            None => std::thread::park(),
        }
    }
}

fn held(range: &LockRange) -> Failure {
    let LockRange {
        start, end, inode, ..
    } = range;
    explain(
        Errno::Again,
        format!("bytes {start}..{end} of inode {inode} are locked"),
    )
}

impl Inner {
    pub(super) fn lock(
        &self,
        client: u64,
        range: LockRange,
        (reclaim, wait): (bool, bool),
        patience_ms: u32,
        answer: Answer,
    ) {
        if !self.locked.swap(true, Ordering::SeqCst) {
            // No lock was held when the last manager ended, so there is nobody to wait for.
            self.sessions().end_lock_grace();
            let noted = self.queue.run(|txn| {
                txn.put(LOCKED.to_vec(), &());
                Ok(())
            });
            if let Err(failure) = noted {
                return answer(Err(failure));
            }
        }
        let mut sessions = self.sessions();
        match sessions.lock(client, range, reclaim, wait) {
            Err(failure) if failure.errno == Errno::Again && patience_ms > 0 => {
                let patience = Duration::from_millis(patience_ms.min(LOCK_WAIT_MS).into());
                let waiter = Waiter {
                    client,
                    range,
                    until: Instant::now() + patience,
                    answer,
                };
                let refused = match sessions.wait(waiter) {
                    Ok(replaced) => replaced,
                    Err(waiter) => Some(waiter),
                };
                drop(sessions);
                self.bell.get().map(Thread::unpark);
                if let Some(waiter) = refused {
                    (waiter.answer)(Err(failure));
                }
            }
            result => {
                drop(sessions);
                answer(result.and_then(|()| self.locked(client, &range)));
                // What was exclusive may be shared now.
                self.grant_locks();
            }
        }
    }

    /// To be called when locks may have become free.
    pub(super) fn grant_locks(&self) {
        let granted = self.sessions().grant();
        for waiter in granted {
            let response = self.locked(waiter.client, &waiter.range);
            (waiter.answer)(response);
        }
    }

    fn locked(&self, client: u64, range: &LockRange) -> Result<Response, Failure> {
        let others = self.sessions().others_write(client, range.inode);
        let node = Reader::new(&self.cache).record::<record::Inode>(&key::inode(range.inode))?;
        let ctime = node.map_or(Time::default(), |node| node.ctime);
        Ok(Response::Locked { others, ctime })
    }
}
