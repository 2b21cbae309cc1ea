//! Moving bytes between a buffer and a view: alone, or together with all processes of the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use trireme::Collective;
use trireme::namespace::Locked;
use trireme_proto::message::meta::LockRange;

use crate::class::{Class, Failure, Result};
use crate::memory::Memory;
use crate::open::{Open, mode};
use crate::view::View;

/// Which bytes of a file.
#[derive(Debug, Clone)]
pub struct Transfer {
    pub view: Arc<View>,
    /// The first byte, counted in the view.
    pub at: u64,
    pub write: bool,
}

impl Transfer {
    /// One process's transfer; gives the bytes moved, fewer than asked at the end of the file.
    pub fn alone(&self, open: &Open, memory: &mut Memory) -> Result<u64> {
        if memory.bytes == 0 {
            return Ok(0);
        }
        let _held = self.hold(open, memory.bytes)?;
        if self.write {
            let bytes = memory.gathered();
            let folded = self.view.folded(self.at, memory.bytes);
            match (folded, self.view.plain) {
                (Some(folded), _) => {
                    let mut rest = &bytes[..];
                    for place in folded.pieces(self.at, memory.bytes) {
                        let (piece, after) = rest.split_at((place.end - place.start) as usize);
                        open.file.write_at(piece, place.start)?;
                        rest = after;
                    }
                }
                (None, Some(start)) => open.file.write_at(&bytes, start + self.at)?,
                (None, None) => open.file.view(&self.view.part).write_at(&bytes, self.at)?,
            }
            self.wrote(open, memory.bytes);
            return Ok(memory.bytes);
        }
        if let Some(start) = self.view.plain {
            let at = start + self.at;
            if memory.part().is_none() {
                return Ok(open.file.read_at(memory.slice_mut(), at)? as u64);
            }
            let mut bytes = vec![0; memory.bytes as usize];
            let got = open.file.read_at(&mut bytes, at)?;
            memory.scatter(&bytes[..got]);
            return Ok(got as u64);
        }
        let there = self.there(open, memory.bytes)?;
        if let Some(folded) = self.view.folded(self.at, memory.bytes) {
            let mut bytes = vec![0; there as usize];
            let mut rest = &mut bytes[..];
            for place in folded.pieces(self.at, there) {
                let (piece, after) = rest.split_at_mut((place.end - place.start) as usize);
                open.file.read_at(piece, place.start)?;
                rest = after;
            }
            memory.scatter(&bytes);
            return Ok(there);
        }
        let view = open.file.view(&self.view.part);
        if memory.part().is_none() {
            return Ok(view.read_at(&mut memory.slice_mut()[..there as usize], self.at)? as u64);
        }
        let mut bytes = vec![0; there as usize];
        let got = view.read_at(&mut bytes, self.at)?;
        memory.scatter(&bytes[..got]);
        Ok(got as u64)
    }

    /// A transfer by all processes of the file, each with its own view, place and buffer, or nothing.
    pub fn together(&self, open: &Open, memory: &mut Memory) -> Result<u64> {
        if open.atomic.load(Ordering::Relaxed) {
            // Each process's bytes as a whole, before or after every other's.
            return self.alone(open, memory);
        }
        if memory.bytes > 0 && self.view.folded(self.at, memory.bytes).is_some() {
            // The others are not kept waiting.
            let moved = self.alone(open, memory);
            self.together(open, &mut Memory::none())?;
            return moved;
        }
        let group = open.group()?;
        let mut collective = Collective::new(&open.file, &group).method(open.method);
        if memory.bytes > 0 {
            collective = collective.view(self.view.part.clone()).at(self.at);
            if let Some(part) = memory.part() {
                collective = collective.memory(part.clone());
            }
        }
        if self.write {
            let report = collective.write(memory.slice())?;
            open.remember(true, report);
            self.wrote(open, memory.bytes);
            return Ok(memory.bytes);
        }
        let report = collective.read(memory.slice_mut())?;
        open.remember(false, report);
        self.there(open, memory.bytes)
    }

    fn wrote(&self, open: &Open, bytes: u64) {
        if bytes > 0 {
            let end = self.view.file_end(self.at, bytes);
            open.known.fetch_max(end, Ordering::Relaxed);
        }
    }

    /// How many of the bytes are before the end of the file.
    fn there(&self, open: &Open, bytes: u64) -> Result<u64> {
        if bytes == 0 || self.view.file_end(self.at, bytes) <= open.known.load(Ordering::Relaxed) {
            return Ok(bytes);
        }
        let size = open.file.size()?;
        open.known.fetch_max(size, Ordering::Relaxed);
        Ok(self.view.visible(size).saturating_sub(self.at).min(bytes))
    }

    /// In atomic mode: keeps others off the bytes meanwhile.
    fn hold(&self, open: &Open, bytes: u64) -> Result<Option<Locked>> {
        static OWNER: AtomicU64 = AtomicU64::new(1);
        if !open.atomic.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let start = self.view.file_start(self.at, bytes);
        let end = self.view.file_end(self.at, bytes);
        let range = LockRange {
            inode: open.file.inode(),
            owner: (u64::from(std::process::id()) << 32) | OWNER.fetch_add(1, Ordering::Relaxed),
            flock: false,
            start,
            end: end.max(start + 1),
            exclusive: self.write,
            pid: std::process::id(),
        };
        let patience = open.cluster.options().deadline;
        Ok(Some(open.cluster.namespace().lock(range, patience)?))
    }
}

impl Open {
    /// Whether the access mode allows a transfer, the same for all processes.
    pub fn permits(&self, write: bool, shared: bool) -> Result<()> {
        if write && self.amode & mode::RDONLY != 0 {
            return Err(Failure::new(Class::ReadOnly, "opened for reading only"));
        }
        if !write && self.amode & mode::WRONLY != 0 {
            return Err(Failure::new(Class::Access, "opened for writing only"));
        }
        if !shared && self.amode & mode::SEQUENTIAL != 0 {
            let why = "a sequential file has only a shared file pointer";
            return Err(Failure::new(Class::UnsupportedOperation, why));
        }
        Ok(())
    }
}
