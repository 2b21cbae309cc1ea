//! Reading and writing.

use std::sync::Arc;

use trireme_proto::message::meta::LockRange;

use super::handle::Handle;
use super::{Inner, Outcome, behind, errno, library_errno, now};
use crate::buffer::with_buffer;
use crate::kernel::abi::{self, CopyFileRangeIn, ReadIn, WriteIn, WriteOut};
use crate::kernel::{Reply, Request};

/// Bytes that one `copy_file_range` copies at most: a signal need not wait longer.
const COPY_BYTES: u64 = 32 << 20;
/// Bytes copied at a time.
const COPY_PIECE: usize = 1 << 20;

/// Marks a number as the lock that appenders of a file take turns with; inode numbers never get
/// this large.
const APPEND_LOCK: u64 = 1 << 63;

/// All of it was written.
fn done(what: &WriteIn) -> WriteOut {
    WriteOut {
        size: what.size,
        padding: 0,
    }
}

/// Whether it goes to the end, wherever that is. Programs may say so late (`fcntl`), too; then the kernel may have put
/// it where it takes the end to be, into pages of its own, and it stays there.
fn appends(what: &WriteIn, handle: &Handle) -> bool {
    let from_cache = what.write_flags & abi::WRITE_CACHE != 0;
    what.flags as i32 & libc::O_APPEND != 0 && handle.direct && !from_cache
}

impl Inner {
    pub(super) fn read(&self, request: &Request<'_>, mut reply: Reply) {
        let found = request
            .arguments::<ReadIn>()
            .and_then(|what| Ok((what, self.handles.file(what.fh)?)));
        let (what, handle) = match found {
            Ok(found) => found,
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        self.learn_from(&handle, &what);
        let end = what.offset.saturating_add(u64::from(what.size));
        let size = what.size as usize;
        if handle.behind.is_free(&(what.offset..end))
            && let Some(room) = reply.room(size)
            && handle.file.read_here(room, what.offset)
        {
            if !handle.no_atime {
                self.note_read(handle.inode);
            }
            reply.filled(size);
            return;
        }
        reply.leaves_place();
        handle.behind.wait_for(&(what.offset..end));
        with_buffer(what.size as usize, |buffer| {
            match handle.file.read_at(buffer, what.offset) {
                Ok(got) => {
                    if !handle.no_atime {
                        self.note_read(handle.inode);
                    }
                    reply.bytes(&buffer[..got]);
                }
                Err(error) => {
                    reply.error(library_errno(&error));
                }
            }
        });
    }

    pub(super) fn write(self: &Arc<Self>, request: &Request<'_>, mut reply: Reply) {
        let taken = request.take::<WriteIn>().and_then(|(what, data)| {
            let handle = self.handles.file(what.fh)?;
            let data = data.get(..what.size as usize).ok_or(libc::EINVAL)?;
            handle.behind.refuses(&handle.heard)?;
            if what.write_flags & abi::WRITE_KILL_SUIDGID != 0 {
                self.strip_set_id(&request.header, handle.inode)?;
            }
            self.drop_capability(&handle)?;
            self.learn_from_write(&request.header, &handle, &what);
            Ok((what, data, handle))
        });
        let (what, data, handle) = match taken {
            Ok(taken) => taken,
            Err(errno) => {
                reply.error(errno);
                return;
            }
        };
        if !reply.is_in_place() {
            self.write_bytes(&what, data, &handle, reply);
            return;
        }
        if self.write_here(&what, data, &handle) {
            reply.give(&done(&what));
            return;
        }
        // What follows may take its time, and the kernel may want the place back meanwhile.
        with_buffer(data.len(), |copy| {
            copy.copy_from_slice(data);
            reply.leaves_place();
            self.write_bytes(&what, copy, &handle, reply);
        });
    }

    /// Whether a write may be answered before it is done.
    pub(super) fn may_wait(&self, what: &WriteIn, handle: &Handle, is_rest: bool) -> bool {
        // Openings that read through the page cache must not find old bytes there after the answer.
        let watched = || {
            handle.direct
                && self.nodes.with(handle.inode, |node| node.cached_opens > 0) == Some(true)
        };
        // Pages of a mapping come through the opening that it was made by, whatever that is otherwise.
        let from_cache = what.write_flags & abi::WRITE_CACHE != 0;
        let long = what.size as usize >= behind::LONG || is_rest;
        !handle.prompt && long && !from_cache && !watched()
    }

    /// Takes note of a write to come; false if it leaves a hole, of which the manager must be told.
    fn adds(&self, what: &WriteIn, handle: &Handle) -> bool {
        let end = what.offset.saturating_add(u64::from(what.size));
        let adds = self.nodes.with(handle.inode, |node| {
            let known = node.reach.max(node.attr.size);
            let hole = what.offset > known;
            if !hole {
                node.reach = known.max(end);
                if !handle.direct {
                    node.gets_pages();
                }
            }
            !hole
        });
        adds == Some(true)
    }

    /// Writes what takes no word to anybody, or begins to; false where there is more to do.
    fn write_here(self: &Arc<Self>, what: &WriteIn, data: &[u8], handle: &Arc<Handle>) -> bool {
        let append = appends(what, handle);
        let length = u64::from(what.size);
        let end = what.offset.saturating_add(length);
        if append || !handle.behind.is_free(&(what.offset..end)) || !self.adds(what, handle) {
            return false;
        }
        if self.write_later(what, data, handle) {
            return true;
        }
        let Ok(resting) = handle.resting.try_read() else {
            return false;
        };
        if *resting || !handle.file.write_here(data, what.offset) {
            return false;
        }
        drop(resting);
        let from_cache = what.write_flags & abi::WRITE_CACHE != 0;
        self.note_time(handle, what.offset, length, from_cache);
        if !from_cache {
            self.forget_cached(handle, what.offset, length);
        }
        true
    }

    fn write_bytes(&self, what: &WriteIn, data: &[u8], handle: &Handle, reply: Reply) {
        let done = done(what);
        if appends(what, handle) {
            let result = self.append(handle, data);
            reply.result(result.map(|()| done));
            return;
        }
        // Before it is answered: the next write, which continues it, may overtake it from then on.
        self.notice_hole(handle, what.offset, what.size);
        let writing = handle
            .behind
            .begin(what.offset..what.offset.saturating_add(u64::from(what.size)));
        let awake = match handle.awake() {
            Ok(awake) => awake,
            Err(errno) => {
                drop(writing);
                reply.error(errno);
                return;
            }
        };
        // Pages of a mapping come through the opening that it was made by, whatever that is otherwise.
        let from_cache = what.write_flags & abi::WRITE_CACHE != 0;
        let may_wait = self.may_wait(what, handle, writing.is_rest);
        let early = may_wait.then(|| self.early.take()).flatten();
        let mut reply = Some(reply);
        if early.is_some()
            && let Some(reply) = reply.take()
        {
            reply.before_the_rest().give(&done);
        }
        let result = handle.file.write_at(data, what.offset);
        drop(awake);
        let result = result.map_err(|error| library_errno(&error));
        if result.is_ok() {
            self.note_time(handle, what.offset, data.len() as u64, from_cache);
        }
        match (&reply, result) {
            (None, Err(errno)) => writing.failed(errno),
            // Before the kernel is told to forget: it waits for reads, which wait for this.
            _ => drop(writing),
        }
        // The kernel has what it sends from its pages, and would wait for the answer before it forgot them.
        if result.is_ok() && !from_cache {
            self.forget_cached(handle, what.offset, data.len() as u64);
        }
        if let Some(reply) = reply {
            reply.result(result.map(|()| done));
        }
    }

    /// Bytes of a file changed.
    pub(super) fn note_written(&self, handle: &Handle, offset: u64, length: u64) {
        self.note_time(handle, offset, length, false);
        self.forget_cached(handle, offset, length);
    }

    pub(super) fn note_time(&self, handle: &Handle, offset: u64, length: u64, from_cache: bool) {
        self.nodes.with(handle.inode, |node| {
            node.written = Some(now());
            node.times_set = false;
            if handle.direct && !from_cache {
                node.past_cache.add(offset, length);
            }
        });
    }

    /// A write that begins behind the end leaves a hole.
    fn notice_hole(&self, handle: &Handle, offset: u64, length: u32) {
        let hole = self.nodes.with(handle.inode, |node| {
            let end = node.reach.max(node.attr.size);
            node.reach = end.max(offset.saturating_add(u64::from(length)));
            if !handle.direct {
                node.gets_pages();
            }
            offset > end
        });
        if hole == Some(true)
            && let Err(error) = handle.file.becomes_sparse()
        {
            tracing::debug!(
                "the space of file {} is shown too large: {error}",
                handle.inode
            );
        }
    }

    /// Others on this mount read through the page cache, which these bytes did not go through.
    fn forget_cached(&self, handle: &Handle, offset: u64, length: u64) {
        let cached = self.nodes.with(handle.inode, |node| node.cached_opens > 0);
        if handle.direct && cached == Some(true) {
            self.drop_cached(handle.inode, offset, length);
        }
    }

    /// Writes at the end, wherever that is now: appenders of all mounts take turns.
    fn append(&self, handle: &Handle, data: &[u8]) -> Outcome<()> {
        let _awake = handle.awake()?;
        let turn = LockRange {
            inode: handle.inode | APPEND_LOCK,
            owner: 0,
            flock: false,
            start: 0,
            end: u64::MAX,
            exclusive: true,
            pid: 0,
        };
        let patience = self.names.call_time();
        let _turn = self.names.lock(turn, patience).map_err(|error| {
            let errno = errno(&error);
            if errno == libc::EAGAIN {
                libc::ETIMEDOUT
            } else {
                errno
            }
        })?;
        let written = handle
            .file
            .size()
            .and_then(|end| handle.file.write_at(data, end).map(|()| end));
        let offset = written.map_err(|error| library_errno(&error))?;
        self.note_written(handle, offset, data.len() as u64);
        Ok(())
    }

    pub(super) fn copy_file_range(&self, request: &Request<'_>, reply: Reply) {
        let result = request
            .arguments::<CopyFileRangeIn>()
            .and_then(|what| self.copy_now(&what))
            .map(|size| WriteOut { size, padding: 0 });
        reply.result(result);
    }

    fn copy_now(&self, what: &CopyFileRangeIn) -> Outcome<u32> {
        let from = self.handles.file(what.fh_in)?;
        let to = self.handles.file(what.fh_out)?;
        from.behind.drain();
        to.behind.drain();
        let _awake = to.awake()?;
        self.drop_capability(&to)?;
        let total = what.len.min(COPY_BYTES);
        let mut done = 0;
        while done < total {
            let part = (total - done).min(COPY_PIECE as u64) as usize;
            let got = with_buffer(part, |buffer| {
                let got = from.file.read_at(buffer, what.off_in + done)?;
                to.file.write_at(&buffer[..got], what.off_out + done)?;
                Ok(got)
            });
            match got {
                Ok(0) => break,
                Ok(got) => done += got as u64,
                Err(error) if done == 0 => return Err(library_errno(&error)),
                Err(_) => break,
            }
        }
        if done > 0 {
            self.note_written(&to, what.off_out, done);
            self.note_read(from.inode);
        }
        Ok(done as u32)
    }
}
