//! The server's end of a connection: reads requests, sends replies, keeps the stream in step.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::{Flags, Header, Op, Refusal, limits};
use zerocopy::IntoBytes;

use crate::out::{Out, Responder};
use crate::socket::Socket;
use crate::{Deadline, Peer};

/// Room for a header and most bodies, and for several of those that are sent without waiting for
/// answers: they come with one system call.
const INBOX: usize = 4096;

/// How often an idle connection looks up whether the server is going down.
const IDLE_WAIT: Duration = Duration::from_secs(15);

/// One connection, as its thread sees it.
#[derive(Debug)]
pub struct Link {
    out: Arc<Out>,
    peer: Arc<Peer>,
    inbox: Box<[u8; INBOX]>,
    inbox_from: usize,
    inbox_to: usize,
    payload_left: usize,
    frame_deadline: Deadline,
    answered: bool,
    descriptor: Option<OwnedFd>,
}

impl Link {
    pub(crate) fn new(socket: Socket, peer: Peer, incarnation: Arc<AtomicU64>) -> Link {
        Link {
            out: Arc::new(Out::new(socket, incarnation)),
            peer: Arc::new(peer),
            inbox: Box::new([0; INBOX]),
            inbox_from: 0,
            inbox_to: 0,
            payload_left: 0,
            frame_deadline: Deadline::after(Duration::ZERO),
            answered: true,
            descriptor: None,
        }
    }

    pub(crate) fn out(&self) -> Arc<Out> {
        self.out.clone()
    }

    /// Who is at the other end.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Bytes of the present request's payload not yet read.
    pub fn payload_left(&self) -> usize {
        self.payload_left
    }

    /// Whether the peer has gone: nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        self.out.is_abandoned()
    }

    /// The connection's socket.
    pub fn socket(&self) -> &Socket {
        &self.out.socket
    }

    /// Waits for the next request. `None`: the peer is gone, or `stop` says so.
    pub(crate) fn next(
        &mut self,
        body: &mut Vec<u8>,
        stop: &dyn Fn() -> bool,
    ) -> io::Result<Option<Header>> {
        self.discard_payload()?;
        self.out.ask(Op(0));
        if self.inbox_from == self.inbox_to {
            self.out.flush()?;
            (self.inbox_from, self.inbox_to) = (0, 0);
            loop {
                if stop() {
                    return Ok(None);
                }
                match self.out.socket.receive_some(
                    &mut self.inbox[..],
                    &mut self.descriptor,
                    IDLE_WAIT,
                ) {
                    Ok(0) => return Ok(None),
                    Ok(got) => {
                        self.inbox_to = got;
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.frame_deadline = Deadline::after(limits::FRAME_TIME);
        let mut bytes = [0; HEADER_BYTES];
        self.take(&mut bytes)?;
        let header = Header::parse(&bytes).map_err(io::Error::other)?;
        if header.flags().has(Flags::REPLY) {
            return Err(io::Error::other("a reply was sent to a server"));
        }
        self.payload_left = header.payload.get() as usize;
        self.frame_deadline = Deadline::after(limits::frame_time(header.payload.get()));
        body.clear();
        body.resize(header.body.get() as usize, 0);
        self.take(body)?;
        self.out.ask(header.op());
        if self.out.fenced.load(Ordering::SeqCst) {
            return Ok(None);
        }
        self.answered = false;
        Ok(Some(header))
    }

    /// The descriptor that came with the present request.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Reads payload in place; `buffer` must not be longer than what is left.
    pub fn receive_payload(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        assert!(buffer.len() <= self.payload_left);
        self.take(buffer)?;
        self.payload_left -= buffer.len();
        Ok(())
    }

    /// Reads and forgets the rest of the payload, so that the stream stays in step after a refusal.
    fn discard_payload(&mut self) -> io::Result<()> {
        let mut sink = [0; 8192];
        while self.payload_left > 0 {
            let part = self.payload_left.min(sink.len());
            self.receive_payload(&mut sink[..part])?;
        }
        Ok(())
    }

    fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let early = buffer.len().min(self.inbox_to - self.inbox_from);
        buffer[..early].copy_from_slice(&self.inbox[self.inbox_from..self.inbox_from + early]);
        self.inbox_from += early;
        if early < buffer.len() {
            self.out.flush()?;
            self.out
                .socket
                .receive_exact(&mut buffer[early..], self.frame_deadline)?;
        }
        Ok(())
    }

    /// Answers with a header only (made by [`Header::reply`]).
    pub fn reply(&mut self, header: Header) -> io::Result<()> {
        self.reply_with(header, &[], &[])
    }

    /// Answers with an encoded body.
    pub fn reply_body<T: Serialize>(&mut self, request: &Header, body: &T) -> io::Result<()> {
        self.reply_with(request.reply(), &trireme_proto::encode(body), &[])
    }

    /// Answers with a body and payload.
    pub fn reply_with(
        &mut self,
        header: Header,
        body: &[u8],
        payload: &[IoSlice<'_>],
    ) -> io::Result<()> {
        self.answered = true;
        self.out.send(header, body, payload)
    }

    /// Answers with bytes of a file, which the kernel moves by itself.
    pub fn reply_file(
        &mut self,
        header: Header,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        self.answered = true;
        self.out.send_file(header, file, offset, length)
    }

    /// Answers with a descriptor (Unix sockets only).
    pub fn reply_descriptor(
        &mut self,
        mut header: Header,
        descriptor: BorrowedFd<'_>,
    ) -> io::Result<()> {
        self.answered = true;
        self.out.stamp(&mut header, 0, 0);
        let deadline = Deadline::after(limits::frame_time(0));
        let _alone = self.out.alone(deadline)?;
        self.out
            .socket
            .send_with_descriptor(header.as_bytes(), descriptor, deadline)
    }

    /// Answers with a payload of `length` bytes that comes piece by piece.
    pub fn start_payload(&mut self, mut header: Header, length: usize) -> io::Result<Payload<'_>> {
        self.answered = true;
        self.out.stamp(&mut header, 0, length);
        let deadline = Deadline::after(limits::frame_time(length as u32));
        Ok(Payload {
            out: &self.out,
            header: Some(header),
            left: length,
            deadline,
            _alone: self.out.alone(deadline)?,
        })
    }

    /// Answers with a refusal.
    pub fn refuse(&mut self, request: &Header, refusal: &Refusal) -> io::Result<()> {
        self.answered = true;
        self.out.refuse(request, refusal)
    }

    /// Someone else will answer this request.
    pub fn responder(&mut self, request: &Header) -> Responder {
        self.answered = true;
        Responder::new(self.out.clone(), *request)
    }

    /// Sends the answers that were [held back](Responder::hold): what comes now may take its time.
    pub fn flush(&self) -> io::Result<()> {
        self.out.flush()
    }

    pub(crate) fn answered(&self) -> bool {
        self.answered
    }
}

/// A reply that is being sent; nobody else sends on this connection meanwhile.
#[derive(Debug)]
pub struct Payload<'a> {
    out: &'a Out,
    /// Sent with the first bytes.
    header: Option<Header>,
    left: usize,
    deadline: Deadline,
    _alone: std::sync::MutexGuard<'a, Vec<u8>>,
}

impl Payload<'_> {
    /// Sends the next bytes.
    ///
    /// # Panics
    /// If they are more than was announced.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len())
            .expect("as many bytes as announced");
        match self.header.take() {
            Some(header) => self.out.socket.send_all(
                &mut [IoSlice::new(header.as_bytes()), IoSlice::new(bytes)],
                self.deadline,
            ),
            None => self
                .out
                .socket
                .send_all(&mut [IoSlice::new(bytes)], self.deadline),
        }
    }

    /// Sends the header if nothing was sent yet. Fewer bytes than announced end the connection.
    pub fn end(mut self) -> io::Result<()> {
        if self.header.is_some() {
            self.send(&[])?;
        }
        if self.left > 0 {
            return Err(io::Error::other("a reply could not be completed"));
        }
        Ok(())
    }
}

impl Drop for Payload<'_> {
    fn drop(&mut self) {
        if self.left > 0 {
            // Half a frame is out: nothing more can be said on this connection.
            self.out.socket.shutdown();
        }
    }
}
