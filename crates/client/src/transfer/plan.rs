//! What each block of a transfer is: which request, and which bytes of the caller's buffer.

use std::ops::Range;

use trireme_policy::transfer::{Blocks, Striped};
use trireme_proto::Op;

/// One block as it goes to its server.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub block: u32,
    pub op: Option<Op>,
    /// Offset in the subfile.
    pub offset: u64,
    /// Bytes of payload, in either direction.
    pub length: u64,
    pub body: Vec<u8>,
    /// Where the payload is in the caller's buffer, ascending and disjoint.
    pub ranges: Vec<Range<usize>>,
}

impl Frame {
    /// Empties it for the next block; the memory stays.
    pub fn reset(&mut self, block: u32) {
        self.block = block;
        self.op = None;
        self.offset = 0;
        self.length = 0;
        self.body.clear();
        self.ranges.clear();
    }
}

/// Blocks, and how each goes to its server.
pub(crate) trait Plan: Blocks {
    /// Describes a block.
    fn describe(&self, server: u32, block: u32, frame: &mut Frame);
}

/// A contiguous range of a striped file from or to a contiguous buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Contiguous {
    pub striped: Striped,
    pub op: Op,
}

impl Blocks for Contiguous {
    fn servers(&self) -> u32 {
        self.striped.servers()
    }
    fn count(&self, server: u32) -> u32 {
        self.striped.count(server)
    }
    fn position(&self, server: u32, block: u32) -> u64 {
        self.striped.position(server, block)
    }
}

impl Plan for Contiguous {
    fn describe(&self, server: u32, block: u32, frame: &mut Frame) {
        let Striped {
            unit,
            servers,
            first,
            offset,
            ..
        } = self.striped;
        let range = self.striped.range(server, block);
        frame.op = Some(self.op);
        frame.offset = range.start;
        frame.length = range.end - range.start;
        let slot = u64::from((server + servers - first % servers) % servers);
        let mut at = range.start;
        while at < range.end {
            let end = ((at / unit + 1) * unit).min(range.end);
            let file = (at / unit * u64::from(servers) + slot) * unit + at % unit;
            let from = (file - offset) as usize;
            let length = (end - at) as usize;
            match frame.ranges.last_mut() {
                Some(last) if last.end == from => last.end += length,
                _ => frame.ranges.push(from..from + length),
            }
            at = end;
        }
    }
}

/// Ready-made frames, one list per server: for views, whose bytes are packed apart.
#[derive(Debug, Default)]
pub(crate) struct Packed {
    pub op: Option<Op>,
    /// Per server: body and place in the buffer of each block.
    pub frames: Vec<Vec<(Vec<u8>, Range<usize>)>>,
}

impl Blocks for Packed {
    fn servers(&self) -> u32 {
        self.frames.len() as u32
    }
    fn count(&self, server: u32) -> u32 {
        self.frames[server as usize].len() as u32
    }
    fn position(&self, server: u32, block: u32) -> u64 {
        self.frames[server as usize][block as usize].1.start as u64
    }
}

impl Plan for Packed {
    fn describe(&self, server: u32, block: u32, frame: &mut Frame) {
        let (body, range) = &self.frames[server as usize][block as usize];
        frame.op = self.op;
        frame.length = (range.end - range.start) as u64;
        frame.body.extend_from_slice(body);
        frame.ranges.push(range.clone());
    }
}

/// One small request to some servers, each about a range of its subfile; no payload.
#[derive(Debug)]
pub(crate) struct Ranges {
    pub op: Op,
    pub body: Vec<u8>,
    /// Offset and length in the subfile; `None`: nothing for this server.
    pub ranges: Vec<Option<(u64, u64)>>,
}

impl Blocks for Ranges {
    fn servers(&self) -> u32 {
        self.ranges.len() as u32
    }
    fn count(&self, server: u32) -> u32 {
        u32::from(self.ranges[server as usize].is_some())
    }
    fn position(&self, server: u32, _block: u32) -> u64 {
        u64::from(server)
    }
}

impl Plan for Ranges {
    fn describe(&self, server: u32, _block: u32, frame: &mut Frame) {
        let (offset, length) = self.ranges[server as usize].unwrap_or_default();
        frame.op = Some(self.op);
        frame.offset = offset;
        frame.length = length;
        frame.body.extend_from_slice(&self.body);
    }
}

/// One small request to each server, with a number of its own in `length` and no payload.
#[derive(Debug)]
pub(crate) struct Each {
    pub op: Op,
    pub lengths: Vec<u64>,
}

impl Blocks for Each {
    fn servers(&self) -> u32 {
        self.lengths.len() as u32
    }
    fn count(&self, _server: u32) -> u32 {
        1
    }
    fn position(&self, server: u32, _block: u32) -> u64 {
        u64::from(server)
    }
}

impl Plan for Each {
    fn describe(&self, server: u32, _block: u32, frame: &mut Frame) {
        frame.op = Some(self.op);
        frame.length = self.lengths[server as usize];
    }
}
