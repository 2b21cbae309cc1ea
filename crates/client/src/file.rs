//! An open file: reads and writes at offsets over all its servers, size, sync.

mod close;
mod lent;
mod reach;
mod sparse;
mod stream;
mod whole;

pub use close::Times;
pub use lent::Then;
pub use whole::Announcement;

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use trireme_net::{Deadline, NetError, Pool};
use trireme_partition::{Part, Partition};
use trireme_policy::transfer::Striped;
use trireme_proto::limits::FILE_BYTES;
use trireme_proto::message::meta::{Layout, Opened};
use trireme_proto::{Header, Op};
use zerocopy::little_endian::U64;

use crate::transfer::{self, Buffer, Contiguous, Done, Each, Frame, Job, Plan};
use crate::{Cluster, Error, Pending, Result, TransferOptions};

/// Requests up to this size that lie on one server take the shortest way: one call, no planning.
const SMALL: usize = 64 << 10;

/// Vectored requests up to this size are gathered into one; longer slices go one by one.
const GATHER: usize = 1 << 20;

/// An open file. All calls with offsets take `&self`: threads can share it.
#[derive(Debug)]
pub struct File {
    pub(crate) inner: Arc<Inner>,
    position: u64,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub cluster: Cluster,
    pub opened: Opened,
    pub layout: Layout,
    pub servers: Vec<Arc<Pool>>,
    pub parts: Vec<Part>,
    transfer: Mutex<TransferOptions>,
    lent_to_read: lent::Lent,
    lent_to_write: lent::Lent,
    reach: reach::Reach,
    /// Per server, the incarnation that everything not yet synced went to; 0: not heard yet.
    seen: Vec<AtomicU64>,
    /// End of the furthest byte that this opening wrote.
    pub end: AtomicU64,
    pub wrote: AtomicBool,
    /// The manager knows that it is sparse.
    sparse: AtomicBool,
    /// Told when the last user lets go.
    pub closed: AtomicBool,
}

impl File {
    /// A file that the manager has opened ([`Namespace::open`](crate::Namespace::open)).
    pub fn adopt(cluster: &Cluster, opened: crate::namespace::OpenFile) -> Result<File> {
        File::new(cluster, opened.opened)
    }

    /// A file that the manager has opened.
    pub(crate) fn new(cluster: &Cluster, opened: Opened) -> Result<File> {
        let layout = opened
            .entry
            .layout
            .clone()
            .ok_or_else(|| Error::Invalid("only regular files have bytes".into()))?;
        let count = layout.servers.len() as u32;
        let partition = Partition::striped(layout.unit, count, layout.first)?;
        let parts = (0..count)
            .map(|i| partition.part(i))
            .collect::<std::result::Result<_, _>>()?;
        let servers: Vec<Arc<Pool>> = layout
            .servers
            .iter()
            .map(|id| cluster.server(*id))
            .collect::<Result<_>>()?;
        let seen = servers
            .iter()
            .map(|pool| AtomicU64::new(pool.incarnation()))
            .collect();
        let sparse = opened.entry.attr.sparse;
        Ok(File {
            inner: Arc::new(Inner {
                cluster: cluster.clone(),
                opened,
                lent_to_read: lent::Lent::new(servers.len(), false),
                lent_to_write: lent::Lent::new(servers.len(), true),
                reach: reach::Reach::new(servers.len()),
                layout,
                servers,
                parts,
                transfer: Mutex::new(cluster.options().transfer),
                seen,
                end: AtomicU64::new(0),
                wrote: AtomicBool::new(false),
                sparse: AtomicBool::new(sparse),
                closed: AtomicBool::new(false),
            }),
            position: 0,
        })
    }

    /// The same open file, with a position of its own.
    pub(crate) fn share(&self) -> File {
        File {
            inner: self.inner.clone(),
            position: 0,
        }
    }

    /// How its bytes are spread.
    pub fn layout(&self) -> &Layout {
        &self.inner.layout
    }

    /// What the servers let the holder of this opening do.
    pub fn grant(&self) -> trireme_proto::key::Grant {
        self.inner.opened.grant
    }

    /// Whether all of it is on this host, and its servers have let this opening write to it by itself.
    pub fn is_lent_to_write(&self) -> bool {
        self.inner.lent_to_write.all()
    }

    /// Whether all of its servers are processes of this host, as far as this client has talked to them.
    pub fn is_on_this_host(&self) -> bool {
        self.inner.servers.iter().all(|server| server.is_local())
    }

    /// The opening's number at the manager.
    pub fn opening(&self) -> u64 {
        self.inner.opened.open
    }

    /// Somebody else on this client set the file's size: nothing that this opening wrote is beyond it.
    pub fn was_cut(&self, size: u64) {
        self.inner.truncated(size);
    }

    /// Its number.
    pub fn inode(&self) -> u64 {
        self.inner.opened.grant.file
    }

    /// Carries transfers of this file out in another way from now on.
    pub fn set_transfer(&self, options: TransferOptions) {
        *self
            .inner
            .transfer
            .lock()
            .expect("no panic under this lock") = options;
    }

    /// How transfers of this file are carried out.
    pub fn transfer(&self) -> TransferOptions {
        self.inner.transfer()
    }

    /// Fills `buffer` if its bytes are in this host's memory and lent to this opening; waits for nobody.
    /// Otherwise its content is undefined, and [`File::read_at`] is to be asked.
    pub fn read_here(&self, buffer: &mut [u8], offset: u64) -> bool {
        self.inner.read_here(buffer, offset)
    }

    /// Writes all of `buffer` if its places are lent to this opening; waits for no server. Otherwise anything
    /// may have been written of it, and [`File::write_at`] is to be asked.
    pub fn write_here(&self, buffer: &[u8], offset: u64) -> bool {
        self.inner.write_here(buffer, offset)
    }

    /// Puts `buffer` aside and begins to write it, if its places are lent to this opening and the second thread of
    /// [`TransferOptions::second`] is awake; it waits for no server. When that is over `then` hears whether all of
    /// it was written: if not, anything may have been, and [`File::write_at`] is to be asked with the bytes that
    /// `then` is given. It must not wait for anything itself. False when nothing was begun.
    pub fn write_later(&self, buffer: &[u8], offset: u64, then: Then) -> bool {
        self.inner.write_later(buffer, offset, then)
    }

    /// Helps with what [`File::write_later`] has begun in this process; for who is about to wait for it.
    pub fn hurry() {
        lent::hurry();
    }

    /// Reads into `buffer` from `offset` on; fewer bytes than asked only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    /// Fills `buffer`; the end of the file is an error.
    pub fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let got = self.read_at(buffer, offset)?;
        if got == buffer.len() {
            return Ok(());
        }
        Err(Error::Invalid(format!(
            "the file ends after {got} of the {} bytes wanted at {offset}",
            buffer.len()
        )))
    }

    /// Writes all of `buffer` at `offset`. When it returns, every later read of any client sees it.
    pub fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(buffer, offset)
    }

    /// [`File::read_at`] with this call's own schedule, block and blocks in flight.
    pub fn read_at_with(
        &self,
        options: TransferOptions,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        self.inner.read_at_with(options, buffer, offset)
    }

    /// [`File::write_at`] with this call's own schedule, block and blocks in flight.
    pub fn write_at_with(
        &self,
        options: TransferOptions,
        buffer: &[u8],
        offset: u64,
    ) -> Result<()> {
        self.inner.write_at_with(options, buffer, offset)
    }

    /// Reads into several buffers, one after the other.
    pub fn read_vectored_at(&self, buffers: &mut [IoSliceMut<'_>], offset: u64) -> Result<usize> {
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if total <= GATHER {
            let mut bytes = vec![0; total];
            let got = self.read_at(&mut bytes, offset)?;
            let mut rest = &bytes[..got];
            for buffer in buffers {
                let part = rest.len().min(buffer.len());
                buffer[..part].copy_from_slice(&rest[..part]);
                rest = &rest[part..];
            }
            return Ok(got);
        }
        let mut all = 0;
        for buffer in buffers {
            let got = self.read_at(buffer, offset + all as u64)?;
            all += got;
            if got < buffer.len() {
                break;
            }
        }
        Ok(all)
    }

    /// Writes several buffers, one after the other.
    pub fn write_vectored_at(&self, buffers: &[IoSlice<'_>], offset: u64) -> Result<()> {
        let total: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if total <= GATHER {
            let bytes = buffers
                .iter()
                .flat_map(|buffer| buffer.iter().copied())
                .collect::<Vec<_>>();
            return self.write_at(&bytes, offset);
        }
        let mut at = offset;
        for buffer in buffers {
            self.write_at(buffer, at)?;
            at += buffer.len() as u64;
        }
        Ok(())
    }

    /// The file's size now, as its servers know it: at least the end of every write that returned.
    pub fn size(&self) -> Result<u64> {
        self.inner.size(self.inner.cluster.deadline())
    }

    /// Bytes and size to the disks of all servers: they survive power loss when this returns.
    ///
    /// If a server may have lost bytes written since the last sync, this is an error, once; the
    /// bytes must then be written again.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync()
    }

    /// Starts a read; the buffer comes back with the number of bytes.
    pub fn start_read(&self, offset: u64, mut buffer: Vec<u8>) -> Pending<(Vec<u8>, usize)> {
        let inner = self.inner.clone();
        self.inner.cluster.shared.workers.start(move || {
            let got = inner.read_at(&mut buffer, offset)?;
            Ok((buffer, got))
        })
    }

    /// Starts a write; the buffer comes back.
    pub fn start_write(&self, offset: u64, buffer: Vec<u8>) -> Pending<Vec<u8>> {
        let inner = self.inner.clone();
        self.inner.cluster.shared.workers.start(move || {
            inner.write_at(&buffer, offset)?;
            Ok(buffer)
        })
    }

    /// Starts a sync.
    pub fn start_sync(&self) -> Pending<()> {
        let inner = self.inner.clone();
        self.inner
            .cluster
            .shared
            .workers
            .start(move || inner.sync())
    }
}

impl Inner {
    pub(crate) fn transfer(&self) -> TransferOptions {
        *self.transfer.lock().expect("no panic under this lock")
    }

    pub(crate) fn job(&self, deadline: Deadline) -> Job<'_> {
        self.job_with(self.transfer(), deadline)
    }

    pub(crate) fn job_with(&self, mut options: TransferOptions, deadline: Deadline) -> Job<'_> {
        options.block = options
            .block
            .clamp(4096, u64::from(trireme_proto::limits::PAYLOAD_BYTES));
        Job {
            servers: &self.servers,
            grant: self.opened.grant,
            options,
            deadline,
            memory: None,
            own: self.cluster.options().own,
            seed: self.cluster.seed(),
        }
    }

    /// After a truncation the furthest byte written is not beyond the new size, and an empty file has no
    /// holes. The manager carried it out and knows of it.
    pub(crate) fn truncated(&self, size: u64) {
        self.end.fetch_min(size, Ordering::Relaxed);
        if size == 0 {
            self.sparse.store(false, Ordering::SeqCst);
        }
    }

    /// Remembers that this server has something of ours, or said something, in this incarnation.
    pub(crate) fn heard(&self, server: usize, incarnation: u64) {
        if incarnation != 0 && self.seen[server].load(Ordering::Relaxed) == 0 {
            let _ = self.seen[server].compare_exchange(
                0,
                incarnation,
                Ordering::SeqCst,
                Ordering::SeqCst,
            );
        }
    }

    fn striped(&self, offset: u64, length: u64, block: u64) -> Striped {
        Striped {
            unit: self.layout.unit,
            servers: self.layout.servers.len() as u32,
            first: self.layout.first,
            offset,
            len: length,
            block,
        }
    }

    /// The server and subfile offset of a range that lies in one stripe unit.
    fn one_server(&self, offset: u64, length: u64) -> Option<(usize, u64)> {
        let unit = self.layout.unit;
        let number = offset / unit;
        if self.layout.servers.len() == 1 && length > 0 {
            return Some((0, offset));
        }
        if length == 0 || (offset + length - 1) / unit != number {
            return None;
        }
        let count = self.layout.servers.len() as u64;
        let server = (number + u64::from(self.layout.first)) % count;
        Some((server as usize, number / count * unit + offset % unit))
    }

    /// The servers that have part of a range.
    fn servers_of(&self, offset: u64, length: u64) -> impl Iterator<Item = usize> {
        let (unit, count) = (self.layout.unit, self.layout.servers.len() as u64);
        let (from, first) = (offset / unit, u64::from(self.layout.first));
        let units = ((offset + length - 1) / unit - from + 1).min(count);
        (from..from + units).map(move |number| ((number + first) % count) as usize)
    }

    fn header(&self, op: Op, offset: u64, length: u64) -> Header {
        let grant = &self.opened.grant;
        let mut header = Header::request(op);
        header.add_flags(grant.rights.flags());
        header.file = U64::new(grant.file);
        header.token = U64::new(grant.token.0);
        header.offset = U64::new(offset);
        header.length = U64::new(length);
        header
    }

    fn read_here(&self, buffer: &mut [u8], offset: u64) -> bool {
        let within = (buffer.len() as u64) <= FILE_BYTES.saturating_sub(offset);
        within && self.transfer().lend && self.lent_to_read.read(self, buffer, offset)
    }

    fn may_write_here(&self, offset: u64, length: u64) -> bool {
        check_range(offset, length).is_ok()
            && self.transfer().lend
            && self.unknown_reach(offset, length).is_none()
    }

    fn write_here(&self, buffer: &[u8], offset: u64) -> bool {
        let length = buffer.len() as u64;
        if !self.may_write_here(offset, length) {
            return false;
        }
        self.wrote.store(true, Ordering::Relaxed);
        let written = self.lent_to_write.write(self, buffer, offset);
        if written {
            self.has_written(offset + length);
        }
        written
    }

    fn write_later(self: &Arc<Self>, buffer: &[u8], offset: u64, then: Then) -> bool {
        if !self.may_write_here(offset, buffer.len() as u64) {
            return false;
        }
        self.wrote.store(true, Ordering::Relaxed);
        self.lent_to_write.write_later(self, buffer, offset, then)
    }

    pub(crate) fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        self.read_at_with(self.transfer(), buffer, offset)
    }

    pub(crate) fn read_at_with(
        &self,
        options: TransferOptions,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize> {
        // What lies beyond the largest file is beyond the end of this one.
        let length = (buffer.len() as u64).min(FILE_BYTES.saturating_sub(offset));
        if length == 0 {
            return Ok(0);
        }
        let buffer = &mut buffer[..length as usize];
        if options.lend && self.lent_to_read.read(self, buffer, offset) {
            return Ok(buffer.len());
        }
        let deadline = self.cluster.deadline();
        if buffer.len() <= SMALL
            && let Some((server, at)) = self.one_server(offset, length)
        {
            let reply = self.servers[server].with(deadline, |connection| {
                let mut header = self.header(Op::READ, at, length);
                connection.call_small(&mut header, buffer, deadline)
            })?;
            self.heard(server, reply.token.get());
            let got = reply.payload.get() as usize;
            if got == buffer.len() {
                if options.lend {
                    self.lent_to_read.answered(self, server, deadline);
                }
                return Ok(got);
            }
            buffer[got..].fill(0);
            return self.clip(offset, length, offset + got as u64, deadline);
        }
        let job = self.job_with(options, deadline);
        let striped = self.striped(offset, length, job.options.block);
        let plan = Contiguous {
            striped,
            op: Op::READ,
        };
        let mut short: Vec<Done> = Vec::new();
        transfer::run(&job, plan, Buffer::In(&mut *buffer), |done| {
            self.heard(done.server as usize, done.incarnation);
            if done.bytes < done.wanted {
                short.push(done);
            }
        })?;
        if short.is_empty() {
            if options.lend {
                let servers = self.servers_of(offset, length);
                servers.for_each(|server| self.lent_to_read.answered(self, server, deadline));
            }
            return Ok(buffer.len());
        }
        // What a server does not have is a hole or beyond the end; the size decides.
        let mut frame = Frame::default();
        for done in short {
            frame.reset(done.block);
            plan.describe(done.server, done.block, &mut frame);
            let mut skip = done.bytes as usize;
            for range in &frame.ranges {
                let start = skip.min(range.len());
                skip -= start;
                buffer[range.start + start..range.end].fill(0);
            }
        }
        self.clip(offset, length, offset, deadline)
    }

    /// How many of `length` bytes at `offset` are before the end of the file, which is at least `known`.
    fn clip(&self, offset: u64, length: u64, known: u64, deadline: Deadline) -> Result<usize> {
        let size = self.size(deadline)?.max(known);
        Ok(size.saturating_sub(offset).min(length) as usize)
    }

    pub(crate) fn write_at(&self, buffer: &[u8], offset: u64) -> Result<()> {
        self.write_at_with(self.transfer(), buffer, offset)
    }

    pub(crate) fn write_at_with(
        &self,
        options: TransferOptions,
        buffer: &[u8],
        offset: u64,
    ) -> Result<()> {
        let length = buffer.len() as u64;
        check_range(offset, length)?;
        if length == 0 {
            return Ok(());
        }
        self.check_reach(offset, length)?;
        self.wrote.store(true, Ordering::Relaxed);
        let lend = options.lend;
        if !(lend && self.lent_to_write.write(self, buffer, offset)) {
            self.write_by_servers(options, buffer, offset)?;
            if lend {
                let deadline = self.cluster.deadline();
                let servers = self.servers_of(offset, length);
                servers.for_each(|server| self.lent_to_write.answered(self, server, deadline));
            }
        }
        self.has_written(offset + length);
        Ok(())
    }

    /// Something was written, up to here. A report that was made meanwhile knew nothing of it.
    pub(crate) fn has_written(&self, end: u64) {
        self.end.fetch_max(end, Ordering::SeqCst);
        self.wrote.store(true, Ordering::SeqCst);
    }

    fn write_by_servers(&self, options: TransferOptions, buffer: &[u8], offset: u64) -> Result<()> {
        let deadline = self.cluster.deadline();
        let length = buffer.len() as u64;
        let alone = self
            .one_server(offset, length)
            .filter(|_| buffer.len() <= SMALL);
        if let Some((server, at)) = alone {
            let incarnation = self.servers[server].with(deadline, |connection| {
                let mut header = self.header(Op::WRITE, at, length);
                let payload = [IoSlice::new(buffer)];
                connection.call(&mut header, &[], &payload, &mut [], deadline)?;
                Ok(connection.incarnation())
            })?;
            self.heard(server, incarnation);
            return Ok(());
        }
        let mut job = self.job_with(options, deadline);
        if job.options.window {
            job.memory = self.cluster.shared.memory.around(buffer);
        }
        let striped = self.striped(offset, length, job.options.block);
        let op = Op::WRITE;
        let plan = Contiguous { striped, op };
        transfer::run(&job, plan, Buffer::Out(buffer), |done| {
            self.heard(done.server as usize, done.incarnation);
        })?;
        Ok(())
    }

    /// The size as the servers know it: the furthest byte that any of them has.
    pub(crate) fn size(&self, deadline: Deadline) -> Result<u64> {
        let plan = Each {
            op: Op::STAT,
            lengths: vec![0; self.servers.len()],
        };
        let mut size = 0;
        let mut bad = None;
        transfer::run(&self.job(deadline), plan, Buffer::In(&mut []), |done| {
            let server = done.server as usize;
            self.heard(server, done.incarnation);
            if done.size > 0 {
                match self.parts[server].to_file(done.size - 1) {
                    Some(last) => size = size.max(last + 1),
                    None => bad = Some(server),
                }
            }
        })?;
        match bad {
            None => Ok(size),
            Some(server) => Err(Error::Invalid(format!(
                "the subfile on server {} is longer than any file can be",
                self.layout.servers[server]
            ))),
        }
    }

    pub(crate) fn sync(&self) -> Result<()> {
        let deadline = Deadline::after(self.cluster.options().sync_deadline);
        let lengths = self
            .seen
            .iter()
            .map(|seen| seen.load(Ordering::SeqCst))
            .collect();
        let plan = Each {
            op: Op::SYNC,
            lengths,
        };
        let result = transfer::run(&self.job(deadline), plan, Buffer::In(&mut []), |done| {
            self.heard(done.server as usize, done.incarnation);
        });
        if let Err(NetError::Refused { source, .. }) = &result
            && source.errno == trireme_proto::refusal::errno::EIO
        {
            // Said once; from now on what the servers have is what counts.
            for seen in &self.seen {
                seen.store(0, Ordering::SeqCst);
            }
        }
        result?;
        self.report()?;
        if self.cluster.options().soft_names {
            self.cluster.namespace().sync()?;
        }
        Ok(())
    }
}

/// Refuses ranges that no file can have.
fn check_range(offset: u64, length: u64) -> Result<()> {
    if offset > FILE_BYTES || length > FILE_BYTES - offset {
        return Err(Error::TooLarge(format!(
            "{length} bytes at offset {offset}: a file has at most {FILE_BYTES} bytes"
        )));
    }
    Ok(())
}
