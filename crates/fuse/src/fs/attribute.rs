//! Attributes: stat, chmod, chown, truncate, utimes, statfs.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use trireme::Times;
use trireme_proto::message::meta::{
    self, Attr, Entry, Kind, NAME_MAX, Place, Response, SetAttr, SetTime, StatFs, Time,
};
use zerocopy::{Immutable, IntoBytes};

use super::cache::Outdated;
use super::{Inner, Outcome, errno, library_errno, now, unexpected};
use crate::kernel::abi::{
    self, AttrOut, EntryOut, SetattrIn, StatfsOut, Statx, StatxOut, SxTime, set,
};
use crate::kernel::{Reply, Request};

/// What `statfs` said last, and when: asking all servers costs a round trip to each.
pub(super) type SpaceCache = Mutex<Option<(Instant, StatfsOut)>>;

/// The unit in which `statfs` counts, and the size of I/O that we ask programs for.
const BLOCK: u32 = 4096;

/// What programs that ask (`st_blksize`: coreutils, Python, awk) read and write at a time.
const TRANSFER: u32 = 128 << 10;

fn transfer(kind: Kind) -> u32 {
    if kind == Kind::File { TRANSFER } else { BLOCK }
}

impl Inner {
    /// What the manager says of an inode. One that is gone, but that somebody here still holds, is
    /// as it was last, without names.
    pub(super) fn entry_of(&self, inode: u64) -> Outcome<Entry> {
        let question = meta::Request::Lookup {
            place: Place::inode(inode),
            follow: false,
        };
        match self.ask(question) {
            Ok(Response::Entry(entry)) => {
                self.nodes.note(&entry, 0);
                Ok(entry)
            }
            Ok(other) => unexpected(other),
            Err(libc::ESTALE | libc::ENOENT) => {
                let last = self.nodes.with(inode, |node| {
                    node.attr.nlink = 0;
                    node.attr.settled = true;
                    node.attr.clone()
                });
                let attr = last.ok_or(libc::ESTALE)?;
                Ok(Entry { attr, layout: None })
            }
            Err(errno) => Err(errno),
        }
    }

    /// Makes an entry right that the manager cannot know all of: the size of a file that is being
    /// written, and what this mount has not reported yet.
    pub(super) fn complete(&self, entry: &mut Entry) -> Outcome<()> {
        if let Some(old) = self.complete_but_pages(entry)? {
            self.drop_outdated(old);
        }
        Ok(())
    }

    /// The same, but pages of what the file was before stay: the caller must drop them.
    pub(super) fn complete_but_pages(&self, entry: &mut Entry) -> Outcome<Option<Outdated>> {
        self.hear_of_passed(entry.attr.inode);
        self.ask_servers(entry)?;
        let outdated = self.outdates_pages(&entry.attr);
        self.nodes.overlay(&mut entry.attr);
        Ok(outdated)
    }

    /// What only the servers know: size and space of a file that is being written or has holes.
    pub(super) fn ask_servers(&self, entry: &mut Entry) -> Outcome<()> {
        if (!entry.attr.settled || entry.attr.sparse) && entry.attr.kind == Kind::File {
            let inode = entry.attr.inode;
            if self.complete_passed(&mut entry.attr) {
                return Ok(());
            }
            self.nodes.behind(inode).drain();
            let known = self.nodes.with(inode, |node| node.grant).flatten();
            let grant = if let Some(grant) = known {
                grant
            } else {
                let grants = self.names.inspect(vec![inode]);
                let grants = grants.map_err(|error| errno(&error))?;
                let grant = *grants.first().ok_or(libc::EPROTO)?;
                self.nodes.with(inode, |node| node.grant = Some(grant));
                grant
            };
            self.cluster
                .complete_with(entry, &grant)
                .map_err(|error| library_errno(&error))?;
        }
        Ok(())
    }

    /// What the kernel asks for, and pages that are to be dropped when it has the answer.
    fn whole_entry(&self, inode: u64) -> Outcome<(Entry, Option<Outdated>)> {
        self.hear_of_passed(inode);
        let mut entry = self.entry_of(inode)?;
        let old = self.complete_but_pages(&mut entry)?;
        let old = old.and_then(|old| self.drop_before_answer(old, entry.attr.size));
        Ok((entry, old))
    }

    fn answer_attributes<T: IntoBytes + Immutable>(
        &self,
        request: &Request<'_>,
        reply: Reply,
        answer: impl FnOnce(Attr) -> T,
    ) {
        match self.whole_entry(request.header.nodeid) {
            Ok((entry, old)) => self.give_and_drop(reply, &answer(entry.attr), old),
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    /// Attributes as the kernel takes them.
    #[allow(clippy::unused_self)]
    pub(super) fn attr_out(&self, attr: Attr) -> abi::Attr {
        let size = shown_size(&attr);
        abi::Attr {
            ino: attr.inode,
            size,
            blocks: shown_blocks(&attr),
            atime: attr.atime.seconds as u64,
            mtime: attr.mtime.seconds as u64,
            ctime: attr.ctime.seconds as u64,
            atimensec: attr.atime.nanos,
            mtimensec: attr.mtime.nanos,
            ctimensec: attr.ctime.nanos,
            mode: attr.kind.mode_bits() | attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev as u32,
            blksize: transfer(attr.kind),
            flags: 0,
        }
    }

    /// How long the kernel may take attributes for true: not at all while a file may be written by a map, of which
    /// nobody tells.
    pub(super) fn attributes_last(&self, inode: u64) -> Duration {
        match self.nodes.with(inode, |node| node.mapping_opens) {
            None | Some(0) => self.ttl,
            Some(_) => Duration::ZERO,
        }
    }

    /// The same for an entry.
    pub(super) fn limit_attributes(&self, entry: &mut EntryOut) {
        let last = self.attributes_last(entry.nodeid);
        (entry.attr_valid, entry.attr_valid_nsec) = (last.as_secs(), last.subsec_nanos());
    }

    fn attr_reply(&self, attr: Attr) -> AttrOut {
        let last = self.attributes_last(attr.inode);
        AttrOut {
            attr_valid: last.as_secs(),
            attr_valid_nsec: last.subsec_nanos(),
            dummy: 0,
            attr: self.attr_out(attr),
        }
    }

    pub(super) fn getattr(&self, request: &Request<'_>, reply: Reply) {
        self.answer_attributes(request, reply, |attr| self.attr_reply(attr));
    }

    pub(super) fn statx(&self, request: &Request<'_>, reply: Reply) {
        self.answer_attributes(request, reply, |attr| {
            let time = |time: Time| SxTime {
                sec: time.seconds,
                nsec: time.nanos,
                reserved: 0,
            };
            let size = shown_size(&attr);
            let last = self.attributes_last(attr.inode);
            StatxOut {
                attr_valid: last.as_secs(),
                attr_valid_nsec: last.subsec_nanos(),
                flags: 0,
                spare: [0; 2],
                stat: Statx {
                    mask: libc::STATX_BASIC_STATS | libc::STATX_BTIME,
                    blksize: transfer(attr.kind),
                    nlink: attr.nlink,
                    uid: attr.uid,
                    gid: attr.gid,
                    mode: (attr.kind.mode_bits() | attr.mode) as u16,
                    ino: attr.inode,
                    size,
                    blocks: shown_blocks(&attr),
                    atime: time(attr.atime),
                    btime: time(attr.btime),
                    ctime: time(attr.ctime),
                    mtime: time(attr.mtime),
                    rdev_major: libc::major(attr.rdev),
                    rdev_minor: libc::minor(attr.rdev),
                    ..Statx::default()
                },
            }
        });
    }

    pub(super) fn setattr(&self, request: &Request<'_>, reply: Reply) {
        let (entry, outdated) = match self.setattr_now(request) {
            Ok(done) => done,
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        let answer = self.attr_reply(entry.attr);
        // While a file is being cut the kernel sends no writes of its pages, and to drop one that was
        // written through a mapping is to wait for its write: only once the answer is there.
        self.give_and_drop(reply, &answer, outdated);
    }

    /// Answers, and has pages dropped that had to stay until then.
    fn give_and_drop<T: IntoBytes + Immutable>(
        &self,
        reply: Reply,
        answer: &T,
        outdated: Option<Outdated>,
    ) {
        let Some(old) = outdated else {
            reply.give(answer);
            return;
        };
        reply.before_the_rest().give(answer);
        self.drop_outdated(old);
    }

    /// What it is like then, and whether pages of what it was before are still to be dropped.
    fn setattr_now(&self, request: &Request<'_>) -> Outcome<(Entry, Option<Outdated>)> {
        let what = request.arguments::<SetattrIn>()?;
        let inode = request.header.nodeid;
        let has = |bit| what.valid & bit != 0;
        let mut result = None;
        self.nodes.behind(inode).drain();
        self.hear_of_passed(inode);
        if has(set::SIZE) {
            result = Some(self.truncate(request, &what)?);
        }
        let time = |bit, now, seconds: u64, nanos| {
            has(bit).then(|| {
                if has(now) {
                    SetTime::Now
                } else {
                    SetTime::To(Time {
                        seconds: seconds as i64,
                        nanos,
                    })
                }
            })
        };
        let mut change = SetAttr {
            mode: has(set::MODE).then_some(what.mode & 0o7777),
            uid: has(set::UID).then_some(what.uid),
            gid: has(set::GID).then_some(what.gid),
            atime: time(set::ATIME, set::ATIME_NOW, what.atime, what.atimensec),
            mtime: time(set::MTIME, set::MTIME_NOW, what.mtime, what.mtimensec),
            ..SetAttr::default()
        };
        // A call that changes nothing (chown -1 -1) still changes the time of change and set-id bits.
        if result.is_none() && change == SetAttr::default() {
            change.strip_set_id = true;
        }
        // Who cuts a file through an opening does so by the right of the opening, not of who it is: the
        // manager cannot tell that it is nobody who may leave set-id bits behind.
        if has(set::KILL_SUIDGID) {
            let attr = result.as_ref().map(|entry| entry.attr.mode);
            change.strip_set_id |= attr.is_none_or(|mode| mode & 0o6000 != 0);
        }
        if result.is_none() || change != SetAttr::default() {
            let question = meta::Request::SetAttr {
                place: Place::inode(inode),
                follow: false,
                set: change.clone(),
            };
            let entry = match self.change(&request.header, question) {
                Ok(Response::Entry(entry)) => entry,
                Ok(other) => return unexpected(other),
                Err(errno) => self.change_removed(inode, &change, errno)?,
            };
            if change.mtime.is_some() {
                // What was written before is reported later, but not its time.
                self.nodes.with(inode, |node| {
                    node.written = None;
                    node.times_set = true;
                });
            }
            if change.atime.is_some() {
                self.nodes.with(inode, |node| node.accessed = None);
            }
            result = Some(entry);
        }
        let mut entry = result.ok_or(libc::EINVAL)?;
        self.nodes.note(&entry, 0);
        if change.mtime.is_some() || change.atime.is_some() {
            self.times_were_set(inode);
        }
        if has(set::SIZE) {
            let outdated = self.complete_but_pages(&mut entry)?;
            return Ok((entry, outdated));
        }
        self.complete(&mut entry)?;
        Ok((entry, None))
    }

    fn truncate(&self, request: &Request<'_>, what: &SetattrIn) -> Outcome<Entry> {
        let inode = request.header.nodeid;
        let handle = if what.valid & set::FH != 0 {
            self.handles.file(what.fh).ok()
        } else {
            None
        };
        // An opening stands in for the permission to write; so does, for an open file of this
        // mount, the kernel's own check. O_TRUNC comes without the opening that it belongs to: when the
        // only writer cuts the file, the manager goes on to trust what it tells of the size.
        let handle = handle.filter(|handle| handle.write).or_else(|| {
            let mut writers = self.handles.writers(inode);
            let only = writers.pop().filter(|_| writers.is_empty());
            only.filter(|handle| handle.uid == request.header.uid)
        });
        let namespace = match &handle {
            Some(_) => self.names.clone(),
            None => match self.caller(&request.header) {
                Some(caller) => self.names.acting_as(caller),
                None => self.names.clone(),
            },
        };
        let _awake = handle.as_ref().map(|handle| handle.awake()).transpose()?;
        self.stop_refill(inode);
        let open = handle.as_ref().map(|handle| handle.file.opening());
        let entry = namespace
            .truncate(Place::inode(inode), what.size, open)
            .map_err(|error| errno(&error))?;
        let passed = self.nodes.with(inode, |node| node.passed.clone());
        let passed = passed.flatten();
        {
            // Who has just seen how long it was says so before this.
            let _seen = passed.as_ref().map(|passed| passed.seen());
            for writer in self.handles.writers(inode) {
                writer.file.was_cut(what.size);
            }
        }
        self.nodes.with(inode, |node| {
            node.reach = what.size;
            if node.written.is_some() {
                node.written = Some(now());
            }
        });
        Ok(entry)
    }

    /// Reports what openings of this mount wrote to a file.
    pub(super) fn report_writes(&self, inode: u64) -> Outcome<()> {
        self.hear_of_passed(inode);
        let times = self.nodes.times(inode);
        for writer in self.handles.writers(inode) {
            if writer.file.has_news() {
                let attr = writer.file.report_at(times, false);
                let attr = attr.map_err(|error| library_errno(&error))?;
                self.nodes.note_attr(&attr, 0);
            }
        }
        self.nodes.with(inode, |node| {
            if node.written.is_some_and(|when| times == Times::At(when)) {
                node.written = None;
            }
        });
        Ok(())
    }

    pub(super) fn statfs(&self, reply: Reply) {
        reply.result(self.space());
    }

    fn space(&self) -> Outcome<StatfsOut> {
        let mut cache = self.space.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((when, answer)) = &*cache
            && when.elapsed() < Duration::from_secs(1)
        {
            return Ok(*answer);
        }
        let counts: StatFs = match self.ask(meta::Request::StatFs)? {
            Response::StatFs(counts) => counts,
            other => return unexpected(other),
        };
        let status = self.cluster.status();
        let status = status.map_err(|error| library_errno(&error))?;
        let (mut total, mut free) = (0, 0);
        let mut seen: Vec<&[String]> = Vec::new();
        for server in &status {
            // A disk that servers share is there once.
            if let Ok((all, left)) = &server.space
                && !seen.contains(&&*server.disks)
            {
                seen.push(&server.disks);
                total += all;
                free += left;
            }
        }
        let block = u64::from(BLOCK);
        // Inodes take no space of their own that could run out before the disks do.
        let inodes_free = free / block;
        let answer = StatfsOut {
            blocks: total / block,
            bfree: free / block,
            bavail: free / block,
            files: counts.inodes + inodes_free,
            ffree: inodes_free,
            bsize: BLOCK,
            namelen: NAME_MAX as u32,
            frsize: BLOCK,
            ..StatfsOut::default()
        };
        *cache = Some((Instant::now(), answer));
        Ok(answer)
    }
}

/// What it takes of the disks, in units of 512 bytes: its size in whole blocks, or what the servers said.
fn shown_blocks(attr: &Attr) -> u64 {
    let block = u64::from(BLOCK);
    match attr.kind {
        Kind::File if attr.sparse => attr.stored.div_ceil(512),
        Kind::File | Kind::Directory => shown_size(attr).div_ceil(block) * (block / 512),
        _ => 0,
    }
}

/// A directory shows a size as other file systems do, not its number of entries.
fn shown_size(attr: &Attr) -> u64 {
    match attr.kind {
        Kind::Directory => 4096,
        _ => attr.size,
    }
}
