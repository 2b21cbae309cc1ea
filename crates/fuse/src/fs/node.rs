//! What this mount remembers of inodes: what the kernel knows of them, and what the manager does not
//! know yet (writes and reads since the last report).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::behind::Behind;
use super::passed::Passed;
use super::refill::{Fill, Written};
use super::removed::Xattrs;
use trireme::Times;
use trireme_proto::key::Grant;
use trireme_proto::message::meta::{Attr, Entry, Time};

/// A day: access times are not renewed more often unless the file changed since.
const DAY: i64 = 86_400;

#[derive(Debug)]
pub(super) struct Node {
    /// How often the kernel was told of it and has not forgotten.
    pub lookups: u64,
    /// As the manager last said, and when.
    pub attr: Attr,
    pub heard: Instant,
    /// Time of change when the kernel was last told which inode a name means. Attributes alone do not
    /// say that: those of a close that comes late may be newer than the name.
    pub named: Time,
    /// That name: the directory, and what it is called there.
    pub place: Option<(u64, Box<[u8]>)>,
    /// When that became another one than before, which the kernel may still believe in.
    pub moved: Option<Instant>,
    /// The kernel was sent to look a name of it up again.
    pub doubted: bool,
    /// Open files in this mount, and those of them that go through the page cache.
    pub opens: usize,
    pub cached_opens: usize,
    /// What the kernel reads in its place, and the openings that it does so for: all that there are then.
    pub passed: Option<Arc<Passed>>,
    pub passed_opens: usize,
    /// Those of them that may have a map, which nobody is told of that it is written to.
    pub mapping_opens: usize,
    /// Last write that the manager has not heard of.
    pub written: Option<Time>,
    /// Times were set by hand after the last write.
    pub times_set: bool,
    /// Last read that the manager has not heard of.
    pub accessed: Option<Time>,
    /// What the file is like whose bytes the kernel has, if it has them of one version only.
    pub cached: Option<Version>,
    /// The kernel may have some of its bytes.
    pub has_pages: bool,
    /// It got some since somebody began to drop those that it had.
    pub pages_came: bool,
    /// They are old, and whoever found that out is about to have them dropped.
    pub dropping: bool,
    /// Held by who makes these bytes those of another version.
    pub renewing: Arc<Mutex<()>>,
    /// What the file was like when it was last read past the cache.
    pub read_past: Option<Version>,
    /// What the file was like when the kernel was last told its attributes.
    pub shown: Option<Version>,
    /// What was written past the kernel's cache since all writers had closed it.
    pub past_cache: Written,
    /// End of the furthest write of this mount.
    pub reach: u64,
    /// That is being put into the kernel's cache.
    pub fill: Option<Arc<Fill>>,
    /// Extended attributes of a directory that was removed.
    pub xattrs: Xattrs,
    /// Lets us ask the servers for its size.
    pub grant: Option<Grant>,
    /// It may carry file capabilities, which must go before anything is written.
    pub capability: bool,
    /// Its writes that are under way.
    pub behind: Arc<Behind>,
}

/// Tells two states of a file's content apart.
pub(super) type Version = (Time, Time, u64);

pub(super) fn version(attr: &Attr) -> Version {
    (attr.mtime, attr.ctime, attr.size)
}

impl Node {
    /// The manager said what it is like.
    pub fn hear(&mut self, attr: Attr) {
        self.attr = attr;
        self.heard = Instant::now();
    }

    fn is_access_due(&self, now: Time) -> bool {
        let last = self
            .accessed
            .unwrap_or(self.attr.atime)
            .max(self.attr.atime);
        let changed = self.attr.mtime.max(self.attr.ctime);
        let changed = self.written.map_or(changed, |written| written.max(changed));
        last <= changed || now.seconds - last.seconds > DAY
    }

    /// The kernel gets some of its bytes.
    pub fn gets_pages(&mut self) {
        self.has_pages = true;
        self.pages_came = true;
    }
}

#[derive(Debug, Default)]
pub(super) struct Nodes {
    table: Mutex<HashMap<u64, Node>>,
}

impl Nodes {
    pub fn table(&self) -> MutexGuard<'_, HashMap<u64, Node>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is told that a name means this inode.
    pub fn tell(&self, attr: &Attr, (directory, name): (u64, &[u8])) {
        self.note_attr(attr, 1);
        self.with(attr.inode, |node| {
            let same = |place: &(u64, Box<[u8]>)| place.0 == directory && *place.1 == *name;
            match &node.place {
                Some(place) if same(place) => return,
                Some(_) => node.moved = Some(Instant::now()),
                None => {}
            }
            node.place = Some((directory, name.into()));
        });
    }

    /// Remembers what the manager said; `lookups` more references of the kernel.
    pub fn note(&self, entry: &Entry, lookups: u64) {
        self.note_attr(&entry.attr, lookups);
    }

    /// The same from attributes alone.
    pub fn note_attr(&self, attr: &Attr, lookups: u64) {
        let mut table = self.table();
        if let Some(node) = table.get_mut(&attr.inode) {
            node.lookups += lookups;
            node.hear(attr.clone());
            if lookups > 0 {
                node.named = attr.ctime;
            }
        } else if lookups > 0 {
            let node = Node {
                lookups,
                attr: attr.clone(),
                heard: Instant::now(),
                named: attr.ctime,
                place: None,
                moved: None,
                doubted: false,
                opens: 0,
                cached_opens: 0,
                passed: None,
                passed_opens: 0,
                mapping_opens: 0,
                written: None,
                times_set: false,
                accessed: None,
                cached: None,
                has_pages: false,
                pages_came: false,
                dropping: false,
                renewing: Arc::default(),
                read_past: None,
                shown: None,
                past_cache: Written::default(),
                reach: 0,
                fill: None,
                xattrs: Xattrs::new(),
                grant: None,
                capability: false,
                behind: Arc::default(),
            };
            table.insert(attr.inode, node);
        }
    }

    /// The kernel forgets references.
    pub fn forget(&self, inode: u64, lookups: u64) {
        let mut table = self.table();
        if let Some(node) = table.get_mut(&inode) {
            node.lookups = node.lookups.saturating_sub(lookups);
            let done = node.lookups == 0 && node.opens == 0;
            if done && node.written.is_none() && node.accessed.is_none() {
                table.remove(&inode);
            }
        }
    }

    /// Changes what is remembered of an inode, if it is known.
    pub fn with<T>(&self, inode: u64, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        self.table().get_mut(&inode).map(change)
    }

    /// The writes of an inode that are under way.
    pub fn behind(&self, inode: u64) -> Arc<Behind> {
        self.with(inode, |node| node.behind.clone())
            .unwrap_or_default()
    }

    /// Something was read: the access time follows, by the rule of `relatime`.
    pub fn accessed(&self, inode: u64, now: Time) {
        self.with(inode, |node| {
            if node.is_access_due(now) {
                node.accessed = Some(now);
            }
        });
    }

    /// Whether the access time would follow, if something were read now.
    pub fn is_access_due(&self, inode: u64, now: Time) -> bool {
        self.with(inode, |node| node.is_access_due(now)) == Some(true)
    }

    /// The files that are passed on.
    pub fn passed(&self) -> Vec<u64> {
        let table = self.table();
        let all = table.iter().filter(|(_, node)| node.passed.is_some());
        all.map(|(inode, _)| *inode).collect()
    }

    /// Takes the reads that are to be reported.
    pub fn take_accessed(&self) -> Vec<(u64, Time)> {
        let mut table = self.table();
        let mut taken = Vec::new();
        table.retain(|inode, node| {
            if let Some(when) = node.accessed.take() {
                node.attr.atime = node.attr.atime.max(when);
                taken.push((*inode, when));
            }
            node.lookups > 0 || node.opens > 0 || node.written.is_some()
        });
        taken
    }

    /// What a report must say of an inode's times.
    pub fn times(&self, inode: u64) -> Times {
        let times = self.with(inode, |node| match node.written {
            Some(when) => Times::At(when),
            None if node.times_set => Times::Keep,
            None => Times::Now,
        });
        times.unwrap_or(Times::Now)
    }

    /// Puts what the manager does not know yet over what it said.
    pub fn overlay(&self, attr: &mut Attr) {
        self.with(attr.inode, |node| {
            if let Some(written) = node.written {
                attr.mtime = written.or_later_write(attr.mtime, attr.ctime);
                attr.ctime = attr.ctime.max(written);
            }
            if let Some(accessed) = node.accessed {
                attr.atime = attr.atime.max(accessed);
            }
        });
    }
}
