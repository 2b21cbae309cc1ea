//! What the kernel may believe of a file's bytes: its pages go when the file has become another one.
//!
//! The kernel could do this by itself, by comparing times of change, but then it would also drop what
//! this mount put there ([`super::refill`]) as soon as it hears of the time of its own writes.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use trireme_proto::message::meta::{self, Attr, Caller, Entry, Kind, Place, Response};

use super::Inner;
use super::node::version;

/// Open files that are asked about in one round, at most.
const BATCH: usize = 256;

/// Starts to look after files that are open for long.
pub(super) fn start(inner: &Arc<Inner>) {
    if !inner.caches() {
        return;
    }
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-fresh".into())
        .spawn(move || {
            let mut last = 0;
            loop {
                std::thread::sleep(inner.ttl.max(Duration::from_millis(100)));
                if inner.over.load(Ordering::SeqCst) {
                    return;
                }
                last = inner.look_after_open_files(last);
            }
        });
    if let Err(error) = thread {
        tracing::warn!(
            "who reads an open file may see old bytes until it is opened again: {error}"
        );
    }
}

impl Inner {
    /// Whether the kernel may have bytes at all that it need not ask for.
    pub(super) fn caches(&self) -> bool {
        !self.ttl.is_zero() && !self.direct
    }

    /// The kernel forgets a part of a file's bytes; `length` 0 means to the end. Never called from what
    /// answers a read or a cut: it waits for those.
    pub(super) fn drop_cached(&self, inode: u64, offset: u64, length: u64) {
        self.stop_refill(inode);
        if let Some(notifier) = self.notifier.get() {
            notifier.forget_data(inode, offset, length);
        }
    }

    /// The kernel is about to hear of these attributes: pages of what the file was before must go.
    pub(super) fn notice(&self, attr: &Attr) {
        if self.outdates_pages(attr) {
            self.drop_cached(attr.inode, 0, 0);
        }
    }

    /// Whether there are such pages, for somebody who drops them at a better moment.
    pub(super) fn outdates_pages(&self, attr: &Attr) -> bool {
        if attr.kind != Kind::File {
            return false;
        }
        let now = version(attr);
        let outdated = self.nodes.with(attr.inode, |node| {
            let changed = node.shown.replace(now).is_some_and(|before| before != now);
            let outdated = changed && node.has_pages && node.cached != Some(now);
            if outdated {
                node.has_pages = node.cached_opens > 0;
                node.cached = None;
            }
            outdated
        });
        outdated == Some(true)
    }

    /// Nobody asks for the attributes of a file that is only read, so what others wrote to it would not be
    /// noticed before it is opened again. Gives the last inode that was asked for.
    fn look_after_open_files(&self, after: u64) -> u64 {
        let inodes = self.nodes.read_through_cache(after, BATCH);
        let names = if self.trusted {
            self.names.acting_as(Caller::default())
        } else {
            self.names.clone()
        };
        let questions = inodes.iter().map(|inode| meta::Request::Lookup {
            place: Place::inode(*inode),
            follow: false,
        });
        let mut found: Vec<Entry> = Vec::new();
        names.ask_many(questions, trireme::namespace::IN_FLIGHT, |_, answer| {
            if let Ok(Response::Entry(entry)) = answer {
                found.push(entry);
            }
        });
        for mut entry in found {
            // It tells what it finds, as it does on behalf of the kernel.
            let _ = self.complete(&mut entry);
        }
        inodes.last().copied().unwrap_or(0)
    }
}
