//! The server's end of a connection: reads requests, sends replies, keeps the stream in step.

use std::io::{self, IoSlice};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::{Flags, Header, Op, Refusal, limits};
use zerocopy::IntoBytes;

use crate::socket::Socket;
use crate::{Deadline, Peer};

/// Room for a header and most bodies: they come with one system call.
const INBOX: usize = 1024;

/// How often an idle connection looks up whether the server is going down.
const IDLE_WAIT: Duration = Duration::from_secs(15);

/// One connection, as its thread sees it.
#[derive(Debug)]
pub struct Link {
    out: Arc<Out>,
    peer: Arc<Peer>,
    inbox: [u8; INBOX],
    inbox_from: usize,
    inbox_to: usize,
    payload_left: usize,
    frame_deadline: Deadline,
    answered: bool,
    descriptor: Option<OwnedFd>,
}

/// The sending half, shared with those who answer later.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) socket: Socket,
    sending: Mutex<()>,
    incarnation: Arc<AtomicU64>,
    /// The client has given this connection up: nothing more of it may take effect.
    pub(crate) fenced: AtomicBool,
    /// What the connection was last asked for, while it may be under way; 0: nothing is.
    present: AtomicU16,
}

/// Answers one request later, from any thread; the connection reads on meanwhile.
#[derive(Debug, Clone)]
pub struct Responder {
    out: Arc<Out>,
    header: Header,
}

impl Link {
    pub(crate) fn new(socket: Socket, peer: Peer, incarnation: Arc<AtomicU64>) -> Link {
        Link {
            out: Arc::new(Out {
                socket,
                sending: Mutex::new(()),
                incarnation,
                fenced: AtomicBool::new(false),
                present: AtomicU16::new(0),
            }),
            peer: Arc::new(peer),
            inbox: [0; INBOX],
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
            (self.inbox_from, self.inbox_to) = (0, 0);
            loop {
                if stop() {
                    return Ok(None);
                }
                match self
                    .out
                    .socket
                    .receive_some(&mut self.inbox, &mut self.descriptor, IDLE_WAIT)
                {
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
        let _alone = self.out.sending.lock().expect("no panic while sending");
        self.out
            .socket
            .send_with_descriptor(header.as_bytes(), descriptor, deadline)
    }

    /// Answers with a payload of `length` bytes that comes piece by piece.
    pub fn start_payload(&mut self, mut header: Header, length: usize) -> Payload<'_> {
        self.answered = true;
        self.out.stamp(&mut header, 0, length);
        let deadline = Deadline::after(limits::frame_time(length as u32));
        let alone = self.out.sending.lock().expect("no panic while sending");
        Payload {
            out: &self.out,
            header: Some(header),
            left: length,
            deadline,
            _alone: alone,
        }
    }

    /// Answers with a refusal.
    pub fn refuse(&mut self, request: &Header, refusal: &Refusal) -> io::Result<()> {
        self.answered = true;
        self.out.refuse(request, refusal)
    }

    /// Someone else will answer this request.
    pub fn responder(&mut self, request: &Header) -> Responder {
        self.answered = true;
        Responder {
            out: self.out.clone(),
            header: *request,
        }
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
    _alone: std::sync::MutexGuard<'a, ()>,
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

impl Responder {
    /// Whether an answer can be sent now without waiting for a peer that does not read.
    pub fn is_ready(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let mut fds = [PollFd::new(&self.out.socket, PollFlags::OUT)];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Answers with an encoded body. A connection that is gone is nobody's error.
    pub fn reply_body<T: Serialize>(self, body: &T) {
        let sent = self
            .out
            .send(self.header.reply(), &trireme_proto::encode(body), &[]);
        self.end_if(sent);
    }

    /// Answers with a refusal.
    pub fn refuse(self, refusal: &Refusal) {
        let sent = self.out.refuse(&self.header, refusal);
        self.end_if(sent);
    }

    fn end_if(&self, sent: io::Result<()>) {
        if sent.is_err() {
            // Half a frame may be out: nothing more can be said on this connection.
            self.out.socket.shutdown();
        }
    }
}

impl Out {
    fn is_abandoned(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)).is_ok_and(|_| fds[0].revents().intersects(gone))
    }

    /// Notes what is under way; a group's request is until something else is asked, as it may be answered
    /// by others.
    fn ask(&self, op: Op) {
        if op != Op(0) || !Op(self.present.load(Ordering::SeqCst)).is_joint() {
            self.present.store(op.0, Ordering::SeqCst);
        }
    }

    /// Whether what is under way here may go on although the client gave up another request: it changes
    /// nothing, or it is a group's and its member still waits for it.
    pub(crate) fn is_spared(&self) -> bool {
        let present = Op(self.present.load(Ordering::SeqCst));
        present.is_harmless() || (present.is_joint() && !self.is_abandoned())
    }

    fn send(&self, mut header: Header, body: &[u8], payload: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: usize = payload.iter().map(|slice| slice.len()).sum();
        assert!(bytes <= limits::PAYLOAD_BYTES as usize);
        self.stamp(&mut header, body.len(), bytes);
        let deadline = Deadline::after(limits::frame_time(bytes as u32));
        let _alone = self.sending.lock().expect("no panic while sending");
        match payload {
            [] => self.socket.send_all(
                &mut [IoSlice::new(header.as_bytes()), IoSlice::new(body)],
                deadline,
            ),
            [one] => self.socket.send_all(
                &mut [
                    IoSlice::new(header.as_bytes()),
                    IoSlice::new(body),
                    IoSlice::new(one),
                ],
                deadline,
            ),
            many => {
                let mut slices = Vec::with_capacity(many.len() + 2);
                slices.push(IoSlice::new(header.as_bytes()));
                slices.push(IoSlice::new(body));
                slices.extend_from_slice(many);
                self.socket.send_all(&mut slices, deadline)
            }
        }
    }

    fn send_file(
        &self,
        mut header: Header,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        self.stamp(&mut header, 0, length as usize);
        let deadline = Deadline::after(limits::frame_time(length));
        let _alone = self.sending.lock().expect("no panic while sending");
        self.socket
            .send_all_more(&mut [IoSlice::new(header.as_bytes())], deadline)?;
        self.socket
            .send_file(file, offset, u64::from(length), deadline)
    }

    fn refuse(&self, request: &Header, refusal: &Refusal) -> io::Result<()> {
        let mut header = request.reply();
        header.add_flags(Flags::REFUSED);
        self.send(header, &trireme_proto::encode(refusal), &[])
    }

    fn stamp(&self, header: &mut Header, body: usize, payload: usize) {
        header.body.set(body as u32);
        header.payload.set(payload as u32);
        header.token.set(self.incarnation.load(Ordering::Relaxed));
    }
}
