//! One server's side of a transfer: its connection, what is in flight, what is half sent or read.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use trireme_net::{Lease, NetError, Pool, socket::Socket};
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::{Flags, Header, Op};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U64;

use super::plan::Frame;
use super::{Done, Job};

/// First pause before a server that went away is tried again; doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// How long the first attempt to connect may take before the server is looked for elsewhere: the other
/// servers wait meanwhile. Each further one may take twice as long: a server with a thousand busy clients
/// may need more than this for a hello, and attempts that are given up only make it busier. (With one
/// second some of a thousand clients that began at once were not connected after fifteen.)
const CONNECT: Duration = Duration::from_secs(4);
const CONNECT_MAX: Duration = Duration::from_secs(16);

/// Writes shorter than this go through the socket: one copy less is not worth a window.
const WINDOW_FROM: u64 = 16 << 10;

/// Most places in shared memory that one request names: a body of a few KiB at most.
const PLACES: usize = 256;

/// The caller's bytes.
pub(crate) enum Buffer<'a> {
    /// To be sent.
    Out(&'a [u8]),
    /// To be filled.
    In(&'a mut [u8]),
}

pub(crate) struct Lane<'a> {
    pool: &'a Pool,
    lease: Option<Lease<'a>>,
    /// Unanswered, oldest first.
    frames: VecDeque<Outgoing>,
    spare: Vec<Outgoing>,
    /// How many of `frames` are sent completely.
    sent: usize,
    /// Bytes sent of the first frame that is not.
    out: usize,
    reply: Incoming,
    finished: VecDeque<Done>,
    pause: Duration,
    connect_time: Duration,
    retry_at: Option<Instant>,
    last_error: Option<NetError>,
    may_send: bool,
    may_receive: bool,
    slots: usize,
    /// Slots of the window that unanswered frames use, one bit each.
    used: u64,
    /// A write may be in the server's hands without an answer.
    exposed: bool,
}

#[derive(Default)]
struct Outgoing {
    frame: Frame,
    header: Option<Header>,
    /// The payload lies in shared memory; the body says where.
    shared: bool,
    /// Which slot of the connection's window has the payload.
    slot: Option<usize>,
    window_body: Vec<u8>,
}

struct Incoming {
    bytes: [u8; HEADER_BYTES],
    filled: usize,
    /// The parsed header, and how many payload bytes have come.
    header: Option<(Header, usize)>,
}

impl<'a> Lane<'a> {
    pub fn new(pool: &'a Pool, job: &Job<'_>) -> Lane<'a> {
        Lane {
            pool,
            lease: None,
            frames: VecDeque::new(),
            spare: Vec::new(),
            sent: 0,
            out: 0,
            reply: Incoming {
                bytes: [0; HEADER_BYTES],
                filled: 0,
                header: None,
            },
            finished: VecDeque::new(),
            pause: PAUSE,
            connect_time: CONNECT,
            retry_at: None,
            last_error: None,
            may_send: true,
            may_receive: false,
            slots: job.options.in_flight.clamp(1, 64) as usize,
            used: 0,
            exposed: false,
        }
    }

    /// A frame at the end of the queue, for the caller to describe a block in.
    pub fn next_frame(&mut self, block: u32) -> &mut Frame {
        let mut outgoing = self.spare.pop().unwrap_or_default();
        outgoing.frame.reset(block);
        outgoing.header = None;
        self.frames.push_back(outgoing);
        &mut self.frames.back_mut().expect("just pushed").frame
    }

    pub fn take_finished(&mut self) -> Option<Done> {
        self.finished.pop_front()
    }

    pub fn socket(&self) -> Option<&Socket> {
        self.lease.as_ref().map(|lease| lease.socket())
    }

    /// Whether all its frames are with the server, on a connection that works as far as is known.
    pub fn is_sent(&self) -> bool {
        self.sent == self.frames.len() && self.retry_at.is_none()
    }

    /// What to poll for, and how soon to come back anyway.
    pub fn waits_for(&self) -> (PollFlags, Option<Duration>) {
        if let Some(at) = self.retry_at {
            return (
                PollFlags::empty(),
                Some(at.saturating_duration_since(Instant::now())),
            );
        }
        let mut flags = PollFlags::empty();
        if self.sent < self.frames.len() {
            flags |= PollFlags::OUT;
        }
        if !self.frames.is_empty() {
            flags |= PollFlags::IN;
        }
        (flags, None)
    }

    pub fn wake(&mut self, events: PollFlags) {
        let bad = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
        self.may_send |= events.intersects(PollFlags::OUT | bad);
        self.may_receive |= events.intersects(PollFlags::IN | bad);
    }

    /// Sends and receives what goes without waiting.
    pub fn advance(&mut self, job: &Job<'_>, buffer: &mut Buffer<'_>) -> Result<(), NetError> {
        if self.frames.is_empty() {
            return Ok(());
        }
        if let Some(at) = self.retry_at {
            if Instant::now() < at {
                return Ok(());
            }
            self.retry_at = None;
        }
        self.send(job, buffer)?;
        if self.may_receive {
            self.receive(job, buffer)?;
        }
        Ok(())
    }

    /// The error to report when the deadline is over and this lane is not done.
    pub fn late(&self, job: &Job<'_>) -> Option<NetError> {
        if self.frames.is_empty() {
            return None;
        }
        let peer = match &self.lease {
            Some(lease) => lease.peer().to_owned(),
            None => self.pool.endpoint().to_string(),
        };
        Some(match &self.last_error {
            Some(NetError::Unreachable { source, .. } | NetError::Lost { source, .. })
                if self.lease.is_none() =>
            {
                let source = std::io::Error::new(source.kind(), source.to_string());
                NetError::Unreachable { peer, source }
            }
            _ => NetError::TimedOut {
                peer,
                total: job.deadline.total(),
            },
        })
    }

    /// All done: the connection may serve others.
    pub fn finish(mut self) {
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    /// A failure that may pass: everything unanswered is sent again on a new connection.
    fn failed(&mut self, error: NetError, job: &Job<'_>) -> Result<(), NetError> {
        let reused = self.lease.as_ref().is_some_and(|lease| lease.reused);
        if let Some(lease) = self.lease.take() {
            lease.give_up();
        }
        self.sent = 0;
        self.out = 0;
        self.reply.filled = 0;
        self.reply.header = None;
        self.used = 0;
        self.may_send = true;
        self.may_receive = false;
        for outgoing in &mut self.frames {
            outgoing.header = None;
        }
        if !error.passing() || job.deadline.over() {
            return Err(error);
        }
        // An idle connection that had died says nothing about the server: try at once.
        self.retry_at = Some(Instant::now() + if reused { Duration::ZERO } else { self.pause });
        if !reused {
            self.pause = (self.pause * 2).min(PAUSE_MAX);
        }
        self.last_error = Some(error);
        Ok(())
    }

    fn connect(&mut self, job: &Job<'_>, writing: bool) -> Result<(), NetError> {
        let deadline = job.deadline.at_most(self.connect_time);
        self.connect_time = (self.connect_time * 2).min(CONNECT_MAX);
        // An attempt that took too long is not the end of the call's patience.
        let patient = |error| match error {
            NetError::TimedOut { peer, .. } if !job.deadline.over() => NetError::Unreachable {
                peer,
                source: std::io::ErrorKind::TimedOut.into(),
            },
            error => error,
        };
        let mut lease = self.pool.lease(deadline).map_err(patient)?;
        if let Some(memory) = &job.memory {
            if lease.socket().is_unix() && !lease.shares(memory) {
                match lease.share_memory(memory, deadline) {
                    Ok(()) | Err(NetError::Refused { .. }) => {}
                    Err(error) => return Err(patient(error)),
                }
            }
            self.lease = Some(lease);
            self.connect_time = CONNECT;
            return Ok(());
        }
        let slot = job.options.block.next_multiple_of(4096);
        let length = slot * self.slots as u64;
        let worth = writing && job.options.window && self.frames[0].frame.length >= WINDOW_FROM;
        let missing = lease
            .window
            .as_ref()
            .is_none_or(|window| (window.length() as u64) < length);
        if worth && missing && lease.socket().is_unix() && length <= trireme_net::WINDOW_BYTES {
            // A refused window (another user, a container) is no error: the socket always works.
            match lease.share_window(length as usize, deadline) {
                Ok(()) | Err(NetError::Refused { .. }) => {}
                Err(error) => return Err(patient(error)),
            }
        }
        self.lease = Some(lease);
        self.connect_time = CONNECT;
        Ok(())
    }

    fn send(&mut self, job: &Job<'_>, buffer: &mut Buffer<'_>) -> Result<(), NetError> {
        while self.may_send && self.sent < self.frames.len() && self.retry_at.is_none() {
            let writing = matches!(buffer, Buffer::Out(_));
            if self.lease.is_none()
                && let Err(error) = self.connect(job, writing)
            {
                return self.failed(error, job);
            }
            let lease = self.lease.as_mut().expect("connected");
            let outgoing = &mut self.frames[self.sent];
            if outgoing.header.is_none() {
                outgoing.prepare(job, lease, buffer, self.slots, &mut self.used);
                self.exposed |= writing;
            }
            match outgoing.send(lease.socket(), buffer, self.out) {
                Ok(0) => self.may_send = false,
                Ok(sent) => {
                    self.out += sent;
                    if self.out == outgoing.bytes(buffer) {
                        self.out = 0;
                        self.sent += 1;
                    }
                }
                Err(source) => {
                    let peer = lease.peer().to_owned();
                    return self.failed(NetError::Lost { peer, source }, job);
                }
            }
        }
        Ok(())
    }

    fn receive(&mut self, job: &Job<'_>, buffer: &mut Buffer<'_>) -> Result<(), NetError> {
        while self.sent > 0 {
            let lease = self.lease.as_mut().expect("something was sent");
            let Some((header, filled)) = &mut self.reply.header else {
                let rest = &mut self.reply.bytes[self.reply.filled..];
                match lease.socket().receive_now(&mut [IoSliceMut::new(rest)]) {
                    Ok(None) => break,
                    Ok(Some(got)) => self.reply.filled += got,
                    Err(source) => {
                        let peer = lease.peer().to_owned();
                        return self.failed(NetError::Lost { peer, source }, job);
                    }
                }
                if self.reply.filled == HEADER_BYTES {
                    self.reply.filled = 0;
                    let room = match buffer {
                        Buffer::In(_) => self.frames[0].frame.length as usize,
                        Buffer::Out(_) => 0,
                    };
                    match lease.accept_header(&self.reply.bytes, room, job.deadline) {
                        Ok((header, _)) => self.reply.header = Some((header, 0)),
                        Err(error) => return self.failed(error, job),
                    }
                }
                continue;
            };
            let payload = header.payload.get() as usize;
            if *filled < payload {
                let Buffer::In(into) = buffer else {
                    unreachable!("no room was given")
                };
                let mut slices = Vec::with_capacity(self.frames[0].frame.ranges.len());
                scatter(
                    into,
                    &self.frames[0].frame.ranges,
                    *filled..payload,
                    &mut slices,
                );
                match lease.socket().receive_now(&mut slices) {
                    Ok(None) => break,
                    Ok(Some(got)) => *filled += got,
                    Err(source) => {
                        let peer = lease.peer().to_owned();
                        return self.failed(NetError::Lost { peer, source }, job);
                    }
                }
                continue;
            }
            let header = *header;
            let outgoing = self.frames.pop_front().expect("something was sent");
            if outgoing.header.as_ref().map(|header| header.id) != Some(header.id) {
                let source = trireme_proto::Refusal::protocol("answered another request");
                let peer = lease.peer().to_owned();
                return self.failed(NetError::Refused { peer, source }, job);
            }
            self.sent -= 1;
            if let Some(slot) = outgoing.slot {
                self.used &= !(1 << slot);
            }
            self.reply.header = None;
            self.pause = PAUSE;
            self.finished.push_back(Done {
                server: 0,
                block: outgoing.frame.block,
                wanted: outgoing.frame.length,
                bytes: match buffer {
                    Buffer::In(_) => payload as u64,
                    Buffer::Out(_) => header.length.get(),
                },
                size: header.length.get(),
                modified_ns: header.offset.get(),
                stored: header.file.get(),
                incarnation: header.token.get(),
            });
            self.spare.push(outgoing);
        }
        self.may_receive = false;
        Ok(())
    }
}

impl Drop for Lane<'_> {
    fn drop(&mut self) {
        // Given up with requests unanswered: they must not take effect behind later ones.
        if self.exposed
            && !self.frames.is_empty()
            && let Some(lease) = self.lease.take()
        {
            lease.give_up();
        }
    }
}

impl Outgoing {
    /// Makes the header; a payload that fits goes into the shared window.
    fn prepare(
        &mut self,
        job: &Job<'_>,
        lease: &mut Lease<'_>,
        buffer: &Buffer<'_>,
        slots: usize,
        used: &mut u64,
    ) {
        let mut header = Header::request(self.frame.op.unwrap_or(Op::PING));
        header.add_flags(job.grant.rights.flags());
        header.file = U64::new(job.grant.file);
        header.token = U64::new(job.grant.token.0);
        header.offset = U64::new(self.frame.offset);
        header.length = U64::new(self.frame.length);
        self.slot = None;
        self.shared = false;
        let mut payload = 0;
        let mut body = self.frame.body.len();
        if let Buffer::Out(bytes) = buffer {
            let length = self.frame.length as usize;
            let room = lease
                .window
                .as_ref()
                .map_or(0, |window| window.length() / slots);
            if self.frame.op == Some(Op::WRITE)
                && self.frame.ranges.len() <= PLACES
                && let Some(memory) = job.memory.as_ref().filter(|memory| lease.shares(memory))
                && let Some(start) = memory.place_of(bytes)
            {
                // The caller's bytes are where the server can read them: nothing is copied here.
                let place = |range: &Range<usize>| (start + range.start as u64, range.len() as u64);
                let places: Vec<(u64, u64)> = self.frame.ranges.iter().map(place).collect();
                self.share(&mut header, &places);
                body = self.window_body.len();
            } else if self.frame.op == Some(Op::WRITE)
                && self.frame.length >= WINDOW_FROM
                && length <= room
                && let Some(window) = &mut lease.window
            {
                // The lowest free slot: what was used last is still in the cache.
                let slot = used.trailing_ones() as usize;
                *used |= 1 << slot;
                let place = slot * room;
                let mut at = place;
                for range in &self.frame.ranges {
                    window.put(at, &bytes[range.clone()]);
                    at += range.len();
                }
                self.share(&mut header, &[(place as u64, length as u64)]);
                self.slot = Some(slot);
                body = self.window_body.len();
            } else {
                payload = length;
            }
        }
        lease.stamp(&mut header, body, payload, job.deadline);
        self.header = Some(header);
    }

    fn share(&mut self, header: &mut Header, places: &[(u64, u64)]) {
        self.window_body = trireme_proto::encode(&places);
        self.shared = true;
        header.add_flags(Flags::IN_WINDOW);
    }

    fn body(&self) -> &[u8] {
        if self.shared {
            &self.window_body
        } else {
            &self.frame.body
        }
    }

    fn bytes(&self, buffer: &Buffer<'_>) -> usize {
        let payload = match buffer {
            Buffer::Out(_) if !self.shared => self.frame.length as usize,
            _ => 0,
        };
        HEADER_BYTES + self.body().len() + payload
    }

    /// Sends from byte `from` of the frame on, without waiting.
    fn send(&self, socket: &Socket, buffer: &Buffer<'_>, from: usize) -> std::io::Result<usize> {
        let header = self.header.as_ref().expect("prepared").as_bytes();
        let body = self.body();
        let mut skip = from;
        let mut rest = |bytes: &[u8]| -> Range<usize> {
            let start = skip.min(bytes.len());
            skip -= start;
            start..bytes.len()
        };
        let mut slices = Vec::with_capacity(self.frame.ranges.len() + 2);
        slices.push(IoSlice::new(&header[rest(header)]));
        slices.push(IoSlice::new(&body[rest(body)]));
        if let Buffer::Out(bytes) = buffer
            && !self.shared
        {
            for range in &self.frame.ranges {
                let piece = &bytes[range.clone()];
                let rest = rest(piece);
                if !rest.is_empty() {
                    slices.push(IoSlice::new(&piece[rest]));
                }
            }
        }
        socket.send_now(&slices)
    }
}

/// The parts of `buffer` that bytes `wanted` of a payload belong to, `ranges` being its places.
fn scatter<'b>(
    mut buffer: &'b mut [u8],
    ranges: &[Range<usize>],
    wanted: Range<usize>,
    slices: &mut Vec<IoSliceMut<'b>>,
) {
    let mut base = 0;
    let mut at = 0;
    for range in ranges {
        let (start, end) = (at.max(wanted.start), (at + range.len()).min(wanted.end));
        if start < end {
            let from = range.start + (start - at);
            let (_, rest) = buffer.split_at_mut(from - base);
            let (piece, rest) = rest.split_at_mut(end - start);
            slices.push(IoSliceMut::new(piece));
            buffer = rest;
            base = from + (end - start);
        }
        at += range.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scatter_cuts_the_wanted_bytes_out_of_the_ranges() {
        let mut buffer: Vec<u8> = (0..100).collect();
        let ranges = [10..20, 30..35, 90..100];
        let mut slices = Vec::new();
        scatter(&mut buffer, &ranges, 5..18, &mut slices);
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert_eq!(bytes, [15, 16, 17, 18, 19, 30, 31, 32, 33, 34, 90, 91, 92]);
        assert_eq!(slices.len(), 3);
    }
}
