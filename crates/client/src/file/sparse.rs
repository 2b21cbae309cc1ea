//! Space of a file: reserving it, punching holes, finding what is stored.

use std::sync::atomic::Ordering;

use trireme_proto::Op;
use trireme_proto::limits::FILE_BYTES;
use trireme_proto::message::io::{Allocate, NO_DATA, Seek};

use super::{File, check_range};
use crate::Result;
use crate::transfer::{self, Buffer, Ranges};

impl File {
    /// Tells the manager, once, that this opening leaves a hole, or reserves or frees space: from now on
    /// `stat` asks the servers what the file takes.
    pub fn becomes_sparse(&self) -> Result<()> {
        let inner = &self.inner;
        if inner.sparse.load(Ordering::SeqCst) {
            return Ok(());
        }
        inner.cluster.namespace().sparse(inner.opened.open)?;
        inner.sparse.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Reserves, frees or zeroes a range, on all servers that have a part of it.
    pub fn allocate(&self, what: Allocate, offset: u64, length: u64) -> Result<()> {
        check_range(offset, length)?;
        let inner = &self.inner;
        inner.check_reach(offset, length)?;
        self.becomes_sparse()?;
        let ranges = inner
            .parts
            .iter()
            .map(|part| {
                let from = part.bytes_in(0..offset);
                let bytes = part.bytes_in(offset..offset + length);
                (bytes > 0).then_some((from, bytes))
            })
            .collect();
        let plan = Ranges {
            op: Op::ALLOCATE,
            body: trireme_proto::encode(&what),
            ranges,
        };
        inner.wrote.store(true, Ordering::SeqCst);
        let job = inner.job(inner.cluster.deadline());
        transfer::run(&job, plan, Buffer::In(&mut []), |done| {
            inner.heard(done.server as usize, done.incarnation);
        })?;
        let grows = match what {
            Allocate::Reserve { keep_size } | Allocate::Zero { keep_size } => !keep_size,
            Allocate::Punch => false,
        };
        if grows {
            inner.has_written(offset + length);
        }
        Ok(())
    }

    /// The next stored byte at or behind `offset`; `None` when there is none.
    pub fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let size = self.size()?;
        let found = self.seek(Seek::Data, offset)?;
        Ok(found.filter(|found| *found < size))
    }

    /// The next byte at or behind `offset` that is not stored, at the latest the end; `None` when
    /// `offset` is not before the end.
    pub fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        let size = self.size()?;
        if offset >= size {
            return Ok(None);
        }
        let found = self.seek(Seek::Hole, offset)?;
        Ok(Some(found.map_or(size, |found| found.min(size))))
    }

    /// The nearest that any server finds.
    fn seek(&self, what: Seek, offset: u64) -> Result<Option<u64>> {
        if offset > FILE_BYTES {
            return Ok(None);
        }
        let inner = &self.inner;
        let ranges = inner
            .parts
            .iter()
            .map(|part| Some((part.bytes_in(0..offset), 0)))
            .collect();
        let plan = Ranges {
            op: Op::SEEK,
            body: trireme_proto::encode(&what),
            ranges,
        };
        let mut nearest: Option<u64> = None;
        let job = inner.job(inner.cluster.deadline());
        transfer::run(&job, plan, Buffer::In(&mut []), |done| {
            let server = done.server as usize;
            inner.heard(server, done.incarnation);
            if done.size != NO_DATA
                && let Some(found) = inner.parts[server].to_file(done.size)
            {
                nearest = Some(nearest.map_or(found, |nearest| nearest.min(found)));
            }
        })?;
        Ok(nearest.map(|found| found.max(offset)))
    }
}
