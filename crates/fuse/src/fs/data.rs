//! Reading and writing.

use std::cell::RefCell;

use trireme_proto::message::meta::LockRange;

use super::handle::Handle;
use super::{Inner, Outcome, errno, library_errno, now};
use crate::kernel::abi::{self, CopyFileRangeIn, InHeader, ReadIn, WriteIn, WriteOut};
use crate::kernel::{Reply, Request};

/// Bytes that one `copy_file_range` copies at most: a signal need not wait longer.
const COPY_BYTES: u64 = 32 << 20;
/// Bytes copied at a time.
const COPY_PIECE: usize = 1 << 20;

/// Marks a number as the lock that appenders of a file take turns with; inode numbers never get
/// this large.
const APPEND_LOCK: u64 = 1 << 63;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Lends this thread's buffer of at least `length` bytes.
fn with_buffer<T>(length: usize, work: impl FnOnce(&mut [u8]) -> T) -> T {
    BUFFER.with_borrow_mut(|buffer| {
        if buffer.len() < length {
            buffer.resize(length, 0);
        }
        work(&mut buffer[..length])
    })
}

impl Inner {
    pub(super) fn read(&self, request: &Request<'_>, reply: Reply) {
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

    pub(super) fn write(&self, request: &Request<'_>, reply: Reply) {
        let result = request.take::<WriteIn>().and_then(|(what, data)| {
            let handle = self.handles.file(what.fh)?;
            let data = data.get(..what.size as usize).ok_or(libc::EINVAL)?;
            self.write_now(&request.header, &handle, &what, data)?;
            Ok(WriteOut {
                size: what.size,
                padding: 0,
            })
        });
        reply.result(result);
    }

    fn write_now(
        &self,
        header: &InHeader,
        handle: &Handle,
        what: &WriteIn,
        data: &[u8],
    ) -> Outcome<()> {
        if what.write_flags & abi::WRITE_KILL_SUIDGID != 0 {
            self.strip_set_id(header, handle.inode)?;
        }
        let _awake = handle.awake()?;
        let offset = if handle.append && what.flags as i32 & libc::O_APPEND != 0 {
            self.append(handle, data)?
        } else {
            let wrote = handle.file.write_at(data, what.offset);
            wrote.map_err(|error| library_errno(&error))?;
            what.offset
        };
        self.note_written(handle, offset, data.len() as u64);
        Ok(())
    }

    /// Bytes of a file changed.
    pub(super) fn note_written(&self, handle: &Handle, offset: u64, length: u64) {
        let cached = self.nodes.with(handle.inode, |node| {
            node.written = Some(now());
            node.times_set = false;
            node.cached_opens > 0
        });
        // Others on this mount read it through the page cache, which these bytes did not go through.
        if handle.direct
            && cached == Some(true)
            && let Some(notifier) = self.notifier.get()
        {
            notifier.forget_data(handle.inode, offset, length);
        }
    }

    /// Writes at the end, wherever that is now: appenders of all mounts take turns.
    fn append(&self, handle: &Handle, data: &[u8]) -> Outcome<u64> {
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
        written.map_err(|error| library_errno(&error))
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
        let _awake = to.awake()?;
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
