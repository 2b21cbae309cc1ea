//! A member's side of a lane: what a server asks of its buffer is sent, what it sends is put in place,
//! all without waiting, so that no server is kept waiting by another.

use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;

use rustix::event::PollFlags;
use trireme_net::{Connection, NetError};
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::message::collective::decode_ranges;
use trireme_proto::{Flags, Header, Op, Refusal};
use zerocopy::IntoBytes;

/// Longest body that a server sends on a lane: as many ranges as a block has.
const BODY: u32 = 64 << 10;

/// A member's buffer, as its lanes see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    address: *mut u8,
    length: usize,
    writable: bool,
}

impl Memory {
    /// A buffer that is only read from.
    pub fn source(bytes: &[u8]) -> Memory {
        Memory {
            address: bytes.as_ptr().cast_mut(),
            length: bytes.len(),
            writable: false,
        }
    }

    /// A buffer that is filled.
    pub fn target(bytes: &mut [u8]) -> Memory {
        Memory {
            address: bytes.as_mut_ptr(),
            length: bytes.len(),
            writable: true,
        }
    }

    pub fn address(&self) -> *mut u8 {
        self.address
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// # Safety
    /// The buffer must still be borrowed, and `range` inside it.
    pub unsafe fn slice<'a>(&self, range: &Range<u64>) -> &'a [u8] {
        let length = (range.end - range.start) as usize;
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.address.add(range.start as usize), length) }
    }

    /// # Safety
    /// As for [`Memory::slice`], and nobody else uses these bytes now.
    pub unsafe fn slice_mut<'a>(&self, range: &Range<u64>) -> &'a mut [u8] {
        let length = (range.end - range.start) as usize;
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.address.add(range.start as usize), length) }
    }
}

enum State {
    Header,
    Body(Header),
    Send(Header, Vec<Range<u64>>),
    Receive(Vec<Range<u64>>),
}

/// One lane during a collective.
pub(crate) struct Serving {
    pub connection: Connection,
    memory: Memory,
    state: State,
    head: [u8; HEADER_BYTES],
    body: Vec<u8>,
    /// The server has said that nothing more comes.
    pub finished: bool,
    /// Bytes done of what the state is about.
    done: usize,
}

impl Serving {
    /// Starts serving.
    ///
    /// # Safety
    /// The memory must stay borrowed, by this lane and the others of the same collective only, as
    /// long as [`Serving::advance`] is called.
    pub unsafe fn new(connection: Connection, memory: Memory) -> Serving {
        Serving {
            connection,
            memory,
            state: State::Header,
            head: [0; HEADER_BYTES],
            body: Vec::new(),
            finished: false,
            done: 0,
        }
    }

    /// What to wait for.
    pub fn waits_for(&self) -> PollFlags {
        match self.state {
            State::Send(..) => PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Whether nothing is half done.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Header) && self.done == 0
    }

    /// Does what goes without waiting.
    pub fn advance(&mut self) -> Result<(), NetError> {
        let peer = self.connection.peer().to_owned();
        let lost = |source| NetError::Lost {
            peer: peer.clone(),
            source,
        };
        let refused = |source| NetError::Refused {
            peer: peer.clone(),
            source,
        };
        loop {
            let socket = self.connection.socket();
            let next = match &mut self.state {
                State::Header => {
                    let mut slices = [IoSliceMut::new(&mut self.head[self.done..])];
                    let Some(got) = socket.receive_now(&mut slices).map_err(lost)? else {
                        return Ok(());
                    };
                    self.done += got;
                    if self.done < HEADER_BYTES {
                        continue;
                    }
                    let header = Header::parse(&self.head).map_err(|source| NetError::Frame {
                        peer: peer.clone(),
                        source,
                    })?;
                    if !header.flags().has(Flags::REPLY) || header.body.get() > BODY {
                        return Err(refused(Refusal::protocol("an unexpected frame on a lane")));
                    }
                    self.body.clear();
                    self.body.resize(header.body.get() as usize, 0);
                    State::Body(header)
                }
                State::Body(header) => {
                    if self.done < self.body.len() {
                        let mut slices = [IoSliceMut::new(&mut self.body[self.done..])];
                        let Some(got) = socket.receive_now(&mut slices).map_err(lost)? else {
                            return Ok(());
                        };
                        self.done += got;
                        if self.done < self.body.len() {
                            continue;
                        }
                    }
                    let (ranges, total) =
                        decode_ranges(&self.body, self.memory.length as u64).map_err(refused)?;
                    match header.op() {
                        Op::MEMGET if header.payload.get() == 0 => {
                            let mut answer = Header::request(Op::MEMGET);
                            answer.payload.set(total as u32);
                            State::Send(answer, ranges)
                        }
                        Op::MEMPUT
                            if self.memory.writable && u64::from(header.payload.get()) == total =>
                        {
                            State::Receive(ranges)
                        }
                        Op::PROGRESS => {
                            self.finished = true;
                            State::Header
                        }
                        _ => {
                            let why = "a frame on a lane that makes no sense";
                            return Err(refused(Refusal::protocol(why)));
                        }
                    }
                }
                State::Send(header, ranges) => {
                    let mut slices = Vec::with_capacity(ranges.len() + 1);
                    slices.push(IoSlice::new(header.as_bytes()));
                    // SAFETY: inside the memory, as decoded; borrowed, as `new` was promised.
                    slices.extend(
                        ranges
                            .iter()
                            .map(|range| IoSlice::new(unsafe { self.memory.slice(range) })),
                    );
                    let mut rest = &mut slices[..];
                    IoSlice::advance_slices(&mut rest, self.done);
                    let sent = socket.send_now(rest).map_err(lost)?;
                    let left: usize = rest.iter().map(|slice| slice.len()).sum();
                    self.done += sent;
                    if sent < left {
                        if sent == 0 {
                            return Ok(());
                        }
                        continue;
                    }
                    State::Header
                }
                State::Receive(ranges) => {
                    // SAFETY: inside the memory; the servers send each byte of it once.
                    let mut slices: Vec<IoSliceMut<'_>> = ranges
                        .iter()
                        .map(|range| IoSliceMut::new(unsafe { self.memory.slice_mut(range) }))
                        .collect();
                    let mut rest = &mut slices[..];
                    IoSliceMut::advance_slices(&mut rest, self.done);
                    let left: usize = rest.iter().map(|slice| slice.len()).sum();
                    if left > 0 {
                        let Some(got) = socket.receive_now(rest).map_err(lost)? else {
                            return Ok(());
                        };
                        self.done += got;
                        if got < left {
                            continue;
                        }
                    }
                    State::Header
                }
            };
            self.state = next;
            self.done = 0;
        }
    }
}
