//! What the kernel may believe of a file's bytes: its pages go when the file has become another one.
//!
//! The kernel could do this by itself, by comparing times of change, but then it would also drop what
//! this mount put there ([`super::refill`]) as soon as it hears of the time of its own writes.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use trireme_proto::message::meta::{self, Attr, Caller, Entry, Kind, Place, Response};

use super::Inner;
use super::node::{Node, Version, version};
use crate::kernel::waiting_for_kernel;

/// Open files that are asked about in one round, at most.
const BATCH: usize = 256;

/// How often they are asked about at most, and without caches.
const PERIOD: Duration = Duration::from_millis(100);

/// The kernel has pages of what a file was before.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(super) struct Outdated {
    inode: u64,
    /// What it is now, unless somebody is writing to it.
    version: Option<Version>,
    /// The kernel may believe that it is shorter.
    grown: bool,
}

/// Starts to look after files that are open for long.
pub(super) fn start(inner: &Arc<Inner>) {
    let inner = inner.clone();
    let thread = std::thread::Builder::new()
        .name("fuse-fresh".into())
        .spawn(move || {
            let mut last = 0;
            loop {
                std::thread::sleep(inner.ttl.max(PERIOD));
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
            if (offset, length) == (0, 0) {
                self.nodes.with(inode, |node| node.dropping = false);
            }
        }
    }

    /// The kernel is about to hear of these attributes: pages of what the file was before must go.
    pub(super) fn notice(&self, attr: &Attr) {
        if let Some(old) = self.outdates_pages(attr) {
            self.drop_outdated(old);
        }
    }

    /// Whether there are such pages, for somebody who drops them at a better moment.
    pub(super) fn outdates_pages(&self, attr: &Attr) -> Option<Outdated> {
        self.outdates_pages_since(attr, None)
    }

    /// The same, unless somebody has heard of the file since this was `asked` for.
    fn outdates_pages_since(&self, attr: &Attr, asked: Option<Instant>) -> Option<Outdated> {
        if attr.kind != Kind::File {
            return None;
        }
        let now = version(attr);
        let version = attr.settled.then_some(now);
        let outdated = self.nodes.with(attr.inode, |node| {
            if asked.is_some_and(|asked| node.heard > asked) {
                return None;
            }
            let before = node.shown.replace(now);
            let changed = before.is_some_and(|before| before != now);
            // Where only those who map the file see pages, these go whenever they may be old. Who reads them
            // otherwise must be told where the file ends, too, which does not go together (see below).
            let outdated = if self.direct && node.cached_opens == 0 {
                node.cached != version || version.is_none()
            } else {
                changed && node.cached != Some(now)
            };
            // Or somebody else has found that out, and they are not dropped yet.
            let found = node.dropping || outdated;
            let grown = before.is_some_and(|before| before.2 < now.2);
            let maybe_grown = node.dropping || (self.direct && version.is_none());
            node.dropping = found && node.has_pages;
            node.dropping.then_some(Outdated {
                inode: attr.inode,
                version,
                grown: grown || maybe_grown,
            })
        });
        outdated.flatten()
    }

    /// The kernel forgets them.
    pub(super) fn drop_outdated(&self, old: Outdated) {
        self.renew_pages(old.inode, old.version);
    }

    /// From now on all pages that the kernel has of a file are of this version or later; of none in particular
    /// if it is being written to. One after the other: nobody drops what was put there for the same version.
    pub(super) fn renew_pages(&self, inode: u64, version: Option<Version>) {
        let other = |node: &mut Node| node.fill.take_if(|fill| Some(fill.version) != version);
        if let Some(fill) = self.nodes.with(inode, other).flatten() {
            fill.stop();
        }
        let old = |node: &mut Node| {
            let old = node.has_pages && (version.is_none() || node.cached != version);
            if !old {
                node.cached = version;
                node.dropping = false;
            }
            old.then(|| node.renewing.clone())
        };
        let Some(renewing) = self.nodes.with(inode, old).flatten() else {
            return;
        };
        let turn = || renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = waiting_for_kernel(turn);
        let still_old = self.nodes.with(inode, |node| {
            node.pages_came = false;
            old(node).is_some()
        });
        if let (Some(true), Some(notifier)) = (still_old, self.notifier.get()) {
            notifier.forget_data(inode, 0, 0);
            self.nodes.with(inode, |node| {
                node.has_pages = node.pages_came;
                node.cached = version;
                node.dropping = false;
            });
        }
    }

    /// Whoever opens a file finds its end, which the kernel may have been told when it was another one: pages that
    /// go take that with them, but there may be none. The time of the last write is to be asked for again and again if it
    /// `maps`.
    pub(super) fn renew_attributes(&self, inode: u64, maps: bool) {
        if self.ttl.is_zero() {
            return;
        }
        let changed = self.nodes.with(inode, |node| {
            let now = version(&node.attr);
            let before = node.shown.replace(now);
            before.is_some_and(|before| maps || before != now || !node.attr.settled)
        });
        if let (Some(true), Some(notifier)) = (changed, self.notifier.get()) {
            notifier.forget_attributes(inode);
        }
    }

    /// The kernel is about to be told attributes that it asked for by themselves. Gives pages that must go when
    /// it has been.
    pub(super) fn drop_before_answer(&self, old: Outdated, size: u64) -> Option<Outdated> {
        // The kernel takes no attributes from an answer that word to forget pages has overtaken: who maps the
        // file or splices from it would not get behind its old end, having been told the new one. The last byte
        // shows it where that is. But what is written here may be newer than what would be shown.
        let shower = if old.grown && self.handles.writers(old.inode).is_empty() {
            self.handles.reader(old.inode)
        } else {
            None
        };
        // Who maps the file need not see at once what others write, and reads do not find these pages.
        if self.direct && old.grown && shower.is_none() {
            return Some(old);
        }
        self.drop_outdated(old);
        let mut byte = [0];
        let last = size.saturating_sub(1);
        if let (Some(shower), Some(notifier)) = (shower, self.notifier.get())
            && matches!(shower.file.read_at(&mut byte, last), Ok(1))
        {
            self.nodes.with(old.inode, Node::gets_pages);
            waiting_for_kernel(|| notifier.store_data(old.inode, last, &byte));
        }
        None
    }

    /// Nobody asks for the attributes of a file that is only read, so what others wrote to it would not be
    /// noticed before it is opened again. Gives the last inode that was asked for, if there are more.
    fn look_after_open_files(&self, after: u64) -> u64 {
        let mut inodes = self.handles.open_files();
        inodes.retain(|inode| *inode > after && self.reads_pages(*inode));
        inodes.truncate(BATCH);
        if inodes.is_empty() {
            return 0;
        }
        let names = if self.trusted {
            self.names.acting_as(Caller::default())
        } else {
            self.names.clone()
        };
        let questions = inodes.iter().map(|inode| meta::Request::Lookup {
            place: Place::inode(*inode),
            follow: false,
        });
        let asked = Instant::now();
        let mut found: Vec<Entry> = Vec::new();
        names.ask_many(questions, trireme::namespace::IN_FLIGHT, |_, answer| {
            if let Ok(Response::Entry(entry)) = answer {
                found.push(entry);
            }
        });
        for mut entry in found {
            if self.ask_servers(&mut entry).is_err() {
                continue;
            }
            // Whoever heard of the file meanwhile may know better, and has done this: pages must not go for
            // nothing while somebody reads, as the kernel then does not believe where the file ends.
            let attr = &entry.attr;
            if let Some(old) = self.outdates_pages_since(attr, Some(asked))
                && let Some(old) = self.drop_before_answer(old, entry.attr.size)
            {
                self.drop_outdated(old);
            }
        }
        let more = inodes.len() == BATCH;
        inodes.last().copied().filter(|_| more).unwrap_or(0)
    }

    /// Whether somebody who has a file open may find bytes in the kernel's pages. Without caches only who maps
    /// it or splices from it does.
    fn reads_pages(&self, inode: u64) -> bool {
        let pages = |node: &mut Node| {
            if self.direct {
                node.has_pages
            } else {
                node.cached_opens > 0
            }
        };
        self.nodes.with(inode, pages) == Some(true)
    }
}
