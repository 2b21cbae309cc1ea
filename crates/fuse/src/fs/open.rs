//! Opening, flushing and closing files.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock, TryLockError};

use trireme::namespace::OpenFile;
use trireme::{File, Times};
use trireme_proto::message::meta::{self, LayoutWish, OpenMode, Place, SetAttr, Time};
use zerocopy::IntoBytes;

use super::handle::Handle;
use super::node::version;
use super::passed::{self, Passed};
use super::reader::Reading;
use super::{Inner, Outcome, errno, library_errno};
use crate::kernel::abi::{
    self, CreateIn, EntryOut, FlushIn, FsyncIn, InHeader, OpenIn, OpenOut, ReleaseIn,
};
use crate::kernel::{Reply, Request, split_name};

/// The kernel's flag for an opening on behalf of execve, which needs no permission to read.
const FMODE_EXEC: u32 = 0x20;

pub(super) fn access(flags: u32) -> OpenMode {
    match flags as i32 & libc::O_ACCMODE {
        libc::O_RDONLY => OpenMode {
            read: true,
            write: false,
        },
        libc::O_WRONLY => OpenMode {
            read: false,
            write: true,
        },
        _ => OpenMode {
            read: true,
            write: true,
        },
    }
}

impl Inner {
    pub(super) fn open(&self, request: &Request<'_>, reply: Reply) {
        match self.open_now(request) {
            Ok(out) => {
                if !reply.give(&out) {
                    self.close(out.fh);
                }
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    fn open_now(&self, request: &Request<'_>) -> Outcome<OpenOut> {
        let what = request.arguments::<OpenIn>()?;
        let inode = request.header.nodeid;
        let header = if what.flags & FMODE_EXEC != 0 {
            request.header.as_root()
        } else {
            request.header
        };
        let access = access(what.flags);
        let opened = self.open_at_manager(&header, Place::inode(inode), access, None, false);
        // Removed since the kernel looked its name up: it looks again, and creates it if it may.
        let opened = opened.map_err(|errno| match errno {
            libc::ENOENT => libc::ESTALE,
            errno => errno,
        })?;
        let attr = opened.opened.entry.attr.clone();
        // The name may be an old one: renamed, replaced or removed elsewhere since the kernel looked
        // it up. Then it looks again, once.
        let ctime = attr.ctime;
        let outdated = self.nodes.with(inode, |node| {
            node.hear(attr);
            // Also while it is open here: the kernel tells late of an opening's end.
            let doubt = node.named != node.attr.ctime;
            // Once: it may be changing all the time.
            node.doubted = doubt && !node.doubted;
            node.doubted
        });
        let file = File::adopt(&self.cluster, opened).map_err(|error| library_errno(&error))?;
        if outdated == Some(true) && !self.ttl.is_zero() && !self.is_still_named(inode, ctime) {
            return Err(libc::ESTALE);
        }
        if what.open_flags & abi::OPEN_KILL_SUIDGID != 0 {
            self.strip_set_id(&request.header, inode)?;
        }
        let reading = self.reading(&request.header, &file, what.flags);
        let passed = self.pass(inode, &file, what.flags);
        let uid = request.header.uid;
        self.keep(inode, file, what.flags, uid, reading, passed)
    }

    /// Whether the only name of a file means it still, now that it was changed at `ctime`. The kernel could
    /// look that up itself, but not for all who open: fanotify has no name to look up, and its reader would
    /// be given the error.
    fn is_still_named(&self, inode: u64, ctime: Time) -> bool {
        let known = self.nodes.with(inode, |node| {
            // The kernel may believe in more than one name, and does not say which one is opened.
            let moved = node.moved.is_some_and(|when| when.elapsed() <= self.ttl);
            let only = node.attr.nlink == 1 && !moved;
            node.place.clone().filter(|_| only)
        });
        let Some((directory, name)) = known.flatten() else {
            return false;
        };
        let question = meta::Request::Lookup {
            place: Place::name(directory, name),
            follow: false,
        };
        let same = matches!(
            self.ask(question),
            Ok(meta::Response::Entry(entry)) if entry.attr.inode == inode
        );
        if same {
            self.nodes.with(inode, |node| {
                node.named = ctime;
                node.doubted = false;
            });
        }
        same
    }

    pub(super) fn open_at_manager(
        &self,
        header: &InHeader,
        place: Place,
        access: OpenMode,
        create: Option<(u32, LayoutWish)>,
        exclusive: bool,
    ) -> Outcome<OpenFile> {
        let names = match self.caller(header) {
            Some(caller) => self.names.acting_as(caller),
            None => self.names.clone(),
        };
        names
            .open(place, access, create, exclusive)
            .map_err(|error| errno(&error))
    }

    /// Remembers an open file and decides how the kernel caches it.
    pub(super) fn keep(
        &self,
        inode: u64,
        file: File,
        flags: u32,
        uid: u32,
        reading: Reading,
        passed: Option<Arc<Passed>>,
    ) -> Outcome<OpenOut> {
        let access = access(flags);
        let append = flags as i32 & libc::O_APPEND != 0;
        let asks_direct = flags as i32 & libc::O_DIRECT != 0;
        // All openings of a file or none.
        let passed = self.nodes.with(inode, |node| {
            if node.opens == 0 && node.passed.is_none() {
                node.passed = passed;
            }
            node.opens += 1;
            let passed = node.passed.clone();
            node.passed_opens += usize::from(passed.is_some());
            passed
        });
        let passed = passed.flatten();
        let announced = match &passed {
            Some(_) => passed::announce(&file, flags).inspect_err(|_| {
                self.nodes.with(inode, |node| node.opens -= 1);
                self.end_passing(inode);
            })?,
            None => None,
        };
        if let Some(passed) = &passed {
            self.expect_reads(inode, passed, flags);
        }
        let by_itself = announced.is_some() && self.passes_writes(flags);
        let reading = if passed.is_some() {
            Reading::default()
        } else {
            reading
        };
        // What is only written cannot be mapped, so nothing of it needs to be in the page cache; what
        // is appended must not be, as the kernel cannot know where it goes.
        let wants_direct = self.direct && self.direct_maps.get() == Some(&true);
        let direct =
            passed.is_some() || wants_direct || append || !access.read || reading.past_cache;
        let mut open_flags = 0;
        if passed.is_some() {
            open_flags |= abi::open::PASSTHROUGH;
        }
        // Of what is passed on, these come here all the same.
        if direct && (passed.is_none() || (access.write && !by_itself) || asks_direct) {
            open_flags |= abi::open::DIRECT_IO | abi::open::PARALLEL_DIRECT_WRITES;
        }
        let maps = announced.is_some() && access.read;
        if maps {
            self.nodes.with(inode, |node| node.mapping_opens += 1);
        }
        self.renew_attributes(inode, maps);
        let (grant, capability) = (file.grant(), file.had_capability());
        // Who reads past the cache may map the file, too, or splice from it: that goes through pages.
        let pages = !direct || reading.past_cache;
        // Whoever writes, and whoever finds another file than the one whose bytes are being put into the
        // kernel's cache, ends that.
        let mut ends_refill = access.write;
        let now = self.nodes.with(inode, |node| {
            node.grant = Some(grant);
            node.capability |= capability;
            node.attr.settled.then(|| version(&node.attr))
        });
        let now = now.flatten();
        // The kernel keeps what it has, which is of this version then. It could drop the rest by itself, but
        // does so when whoever opens the file gets to run: maybe what was put there meanwhile.
        let keeps = pages && self.caches();
        if keeps {
            self.renew_pages(inode, now);
            open_flags |= abi::open::KEEP_CACHE;
        }
        self.nodes.with(inode, |node| {
            node.cached_opens += usize::from(pages);
            if !keeps && (pages || self.direct) {
                node.cached = now;
            }
            ends_refill |= pages
                && node
                    .fill
                    .as_ref()
                    .is_some_and(|fill| now != Some(fill.version));
        });
        // Without caches everybody sees at once what was written; so do those who ask for it.
        let prompt = append
            || self.direct
            || self.ttl.is_zero()
            || passed.is_some()
            || asks_direct
            || flags as i32 & (libc::O_SYNC | libc::O_DSYNC) != 0;
        let behind = self.nodes.behind(inode);
        let fh = self.handles.add(Handle {
            inode,
            file,
            uid,
            prompt,
            heard: behind.heard(),
            behind,
            read: access.read,
            write: access.write,
            maps: access.read && access.write,
            direct,
            pages,
            passed: passed.is_some(),
            announced,
            reading,
            no_atime: flags as i32 & libc::O_NOATIME != 0,
            locked: AtomicBool::new(false),
            lost_one: Mutex::default(),
            resting: RwLock::new(false),
            later: AtomicUsize::new(0),
        });
        // Not before the opening can be seen: a fill that begins now looks for writers.
        if ends_refill {
            self.stop_refill(inode);
        }
        Ok(OpenOut {
            fh,
            open_flags,
            backing_id: passed.map_or(0, |passed| passed.number()),
        })
    }

    /// The same for a file that was `made` just now, or found instead.
    pub(super) fn keep_new(
        &self,
        inode: u64,
        file: File,
        flags: u32,
        uid: u32,
        made: bool,
    ) -> Outcome<OpenOut> {
        let passed = if made {
            self.pass_new(&file, flags)
        } else {
            self.pass(inode, &file, flags)
        };
        self.keep(inode, file, flags, uid, Reading::default(), passed)
    }

    pub(super) fn create(&self, request: &Request<'_>, reply: Reply) {
        let created = self.create_now(request);
        self.reply_created(reply, created);
    }

    /// Tells the kernel of a new file that is open already.
    pub(super) fn reply_created(&self, reply: Reply, created: Outcome<(EntryOut, OpenOut)>) {
        match created {
            Ok((mut entry, out)) => {
                // Now that it is open.
                self.limit_attributes(&mut entry);
                let mut bytes = [0; size_of::<EntryOut>() + size_of::<OpenOut>()];
                bytes[..size_of::<EntryOut>()].copy_from_slice(entry.as_bytes());
                bytes[size_of::<EntryOut>()..].copy_from_slice(out.as_bytes());
                if !reply.bytes(&bytes) {
                    self.close(out.fh);
                    self.nodes.forget(entry.nodeid, 1);
                }
            }
            Err(libc::ESTALE) => {
                reply.error(libc::ENOENT);
            }
            Err(errno) => {
                reply.error(errno);
            }
        }
    }

    fn create_now(&self, request: &Request<'_>) -> Outcome<(EntryOut, OpenOut)> {
        let (what, rest) = request.take::<CreateIn>()?;
        let (name, _) = split_name(rest)?;
        let flags = what.flags as i32;
        let names = self.maker(&request.header, what.umask);
        let opened = names.open(
            Place::name(request.header.nodeid, name),
            access(what.flags),
            Some((what.mode & 0o7777, LayoutWish::default())),
            flags & libc::O_EXCL != 0,
        );
        let opened = opened.map_err(|error| errno(&error))?;
        let created = opened.opened.created;
        let mut entry = opened.opened.entry.clone();
        let inode = entry.attr.inode;
        let file = File::adopt(&self.cluster, opened).map_err(|error| library_errno(&error))?;
        if !created && flags & libc::O_TRUNC != 0 {
            file.set_len(0).map_err(|error| library_errno(&error))?;
            entry = self.entry_of(inode)?;
        }
        let told = self.tell(entry, Some((request.header.nodeid, name)))?;
        let out = self.keep_new(inode, file, what.flags, request.header.uid, created);
        let out = out.inspect_err(|_| self.nodes.forget(inode, 1))?;
        Ok((told, out))
    }

    /// The end of a write by somebody who must not leave set-id bits behind.
    pub(super) fn strip_set_id(&self, header: &InHeader, inode: u64) -> Outcome<()> {
        let has = self.nodes.with(inode, |node| node.attr.mode & 0o6000 != 0);
        if has == Some(false) {
            return Ok(());
        }
        let set = SetAttr {
            strip_set_id: true,
            ..SetAttr::default()
        };
        let question = meta::Request::SetAttr {
            place: Place::inode(inode),
            follow: false,
            set,
        };
        if let meta::Response::Entry(entry) = self.change(header, question)? {
            self.nodes.note(&entry, 0);
        }
        Ok(())
    }

    /// One descriptor of an open file is closed: others must see the rest of it from now on.
    pub(super) fn flush(&self, request: &Request<'_>, reply: Reply) {
        let result = request.arguments::<FlushIn>().and_then(|what| {
            let handle = self.handles.file(what.fh)?;
            handle.behind.drain();
            if handle.passed {
                self.hear_of_passed(handle.inode);
            }
            let written = if handle.write {
                handle.behind.hint(&handle.heard)
            } else {
                Ok(())
            };
            // In this order: whoever gets a lock sees what its last holder wrote.
            let settled = self.settle(&handle);
            self.unlock_all(handle.inode, what.lock_owner, false);
            handle.loses_one();
            written.and(settled)
        });
        reply.outcome(result);
    }

    /// Tells the manager what was written and that nothing more is for now.
    fn settle(&self, handle: &Handle) -> Outcome<()> {
        if !handle.write || !handle.file.has_news() {
            return Ok(());
        }
        // Somebody may be writing through it right now, maybe to a server that is away: whoever closes
        // one of its descriptors need not wait for that.
        let resting = match handle.resting.try_write() {
            Ok(resting) => Some(resting),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        // Of the next write through what is passed on nobody tells beforehand.
        let rests = handle.announced.is_none() && handle.later.load(Ordering::SeqCst) == 0;
        let mut resting = resting.filter(|_| rests);
        let times = self.nodes.times(handle.inode);
        let attr = handle.file.report_at(times, resting.is_some());
        let attr = attr.map_err(|error| library_errno(&error))?;
        if let Some(resting) = &mut resting {
            **resting = true;
        }
        self.nodes.note_attr(&attr, 0);
        self.forget_written(handle, times);
        Ok(())
    }

    /// The last write has been reported, unless there are newer ones.
    fn forget_written(&self, handle: &Handle, times: Times) {
        let others = self.handles.writers(handle.inode);
        let others = others
            .iter()
            .any(|other| !std::ptr::eq(&raw const **other, handle) && other.file.has_news());
        if !others {
            self.nodes.with(handle.inode, |node| {
                if node.written.is_some_and(|when| times == Times::At(when)) {
                    node.written = None;
                }
            });
        }
    }

    pub(super) fn release(&self, request: &Request<'_>, reply: Reply) {
        let Ok(what) = request.arguments::<ReleaseIn>() else {
            reply.error(libc::EINVAL);
            return;
        };
        let handle = self.handles.file(what.fh);
        if handle.is_ok_and(|handle| handle.may_be_mapped()) {
            self.leave(what.fh);
        } else {
            self.close(what.fh);
        }
        reply.done();
    }

    /// The same for what was not told to the manager when a descriptor was closed.
    pub(super) fn settle_or_warn(&self, handle: &Handle) {
        if let Err(errno) = self.settle(handle) {
            let error = std::io::Error::from_raw_os_error(errno);
            let inode = handle.inode;
            tracing::warn!("file {inode}: its last writes were not reported: {error}");
        }
    }

    pub(super) fn close(&self, fh: u64) {
        if let Ok(handle) = self.handles.file(fh)
            && handle.passed
        {
            // While it can be found as the one who wrote.
            self.hear_of_passed(handle.inode);
        }
        self.finish(fh, self.handles.remove(fh));
    }

    /// Closes what is no open file any more.
    pub(super) fn finish(&self, fh: u64, handle: Option<Arc<Handle>>) {
        let Some(handle) = handle else {
            return;
        };
        let inode = handle.inode;
        handle.behind.drain();
        let (write, direct, pages) = (handle.write, handle.direct, handle.pages);
        let (passed, mapped) = (handle.passed, handle.may_be_mapped());
        let read_past = handle.reading.past_cache;
        self.settle_or_warn(&handle);
        if handle.locked.load(Ordering::SeqCst) {
            self.unlock_opening(fh);
        }
        // Somebody may just be using it: then it is closed when they let go.
        let lent = write && handle.file.is_lent_to_write() && !self.might_pass(&handle.file);
        if let Ok(handle) = Arc::try_unwrap(handle) {
            match handle.file.close_at(None) {
                Ok(Some(attr)) => self.nodes.note_attr(&attr, 0),
                Ok(None) => {}
                Err(error) => tracing::warn!("closing file {inode}: {error}"),
            }
        }
        self.nodes.with(inode, |node| {
            node.opens = node.opens.saturating_sub(1);
            if pages {
                node.cached_opens = node.cached_opens.saturating_sub(1);
            }
            node.mapping_opens -= usize::from(mapped);
            if write && node.opens == 0 {
                node.written = None;
            }
        });
        if passed {
            self.end_passing(inode);
        }
        if direct && write && self.handles.writers(inode).is_empty() {
            self.offer_refill(inode, lent);
        }
        if read_past {
            self.was_read_past_cache(inode);
        }
        self.nodes.forget(inode, 0);
    }

    pub(super) fn fsync(&self, request: &Request<'_>, reply: Reply) {
        let result = request.arguments::<FsyncIn>().and_then(|what| {
            let handle = self.handles.file(what.fh)?;
            handle.catch_up()?;
            if handle.write {
                let _awake = handle.awake()?;
                self.report_writes(handle.inode)?;
            }
            let synced = handle.file.sync();
            synced.map_err(|error| library_errno(&error))
        });
        reply.outcome(result);
    }
}
