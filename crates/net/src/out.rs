//! The sending half of a server's connection: shared by its thread and those who answer later.

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::Serialize;
use trireme_proto::{Flags, Header, Op, Refusal, limits};
use zerocopy::IntoBytes;

use crate::Deadline;
use crate::socket::Socket;

/// Answers held back beyond this are sent: the peer can use them meanwhile.
const HELD_BYTES: usize = 16 << 10;

/// Where frames to one peer go.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) socket: Socket,
    /// Whole frames that wait for the next one; whoever sends, sends them first.
    sending: Mutex<Vec<u8>>,
    incarnation: Arc<AtomicU64>,
    /// The client has given this connection up: nothing more of it may take effect.
    pub(crate) fenced: AtomicBool,
    /// What the connection was last asked for, while it may be under way; 0: nothing is.
    present: AtomicU16,
}

enum Offered {
    All,
    Some,
    Nothing,
}

/// Answers one request later, from any thread; the connection reads on meanwhile.
#[derive(Debug, Clone)]
pub struct Responder {
    out: Arc<Out>,
    header: Header,
}

impl Responder {
    pub(crate) fn new(out: Arc<Out>, header: Header) -> Responder {
        Responder { out, header }
    }

    /// Answers with an encoded body. A connection that is gone is nobody's error.
    pub fn reply_body<T: Serialize>(self, body: &T) {
        let sent = self
            .out
            .send(self.header.reply(), &trireme_proto::encode(body), &[]);
        self.out.end_unless(sent);
    }

    /// Answers with a refusal.
    pub fn refuse(self, refusal: &Refusal) {
        let sent = self.out.refuse(&self.header, refusal);
        self.out.end_unless(sent);
    }

    /// Answers when the connection's own thread, which must be the caller, has no further request at
    /// hand (or [`crate::Link::flush`] is called): the answers to many requests leave together.
    pub fn hold<T: Serialize>(self, answer: Result<&T, &Refusal>) {
        let mut frame = Vec::new();
        self.write(answer, &mut frame);
        let held = self.out.hold(&frame);
        self.out.end_unless(held);
    }

    fn write<T: Serialize>(&self, answer: Result<&T, &Refusal>, frames: &mut Vec<u8>) {
        let mut header = self.header.reply();
        let body = match answer {
            Ok(body) => trireme_proto::encode(body),
            Err(refusal) => {
                header.add_flags(Flags::REFUSED);
                trireme_proto::encode(refusal)
            }
        };
        self.out.stamp(&mut header, body.len(), 0);
        frames.extend_from_slice(header.as_bytes());
        frames.extend_from_slice(&body);
    }
}

/// Answers to many requests, by connection: each connection gets all of its own at once.
///
/// A peer that does not read its answers gets them from a thread of its own: it holds up nobody else.
#[derive(Debug, Default)]
pub struct Post {
    letters: HashMap<usize, (Arc<Out>, Vec<u8>)>,
}

impl Post {
    /// Adds the answer to one request.
    pub fn add<T: Serialize>(&mut self, responder: &Responder, answer: Result<&T, &Refusal>) {
        let (_, frames) = self
            .letters
            .entry(Arc::as_ptr(&responder.out) as usize)
            .or_insert_with(|| (responder.out.clone(), Vec::new()));
        responder.write(answer, frames);
    }

    /// Sends everything.
    pub fn send(&mut self) {
        for (_, (out, frames)) in self.letters.drain() {
            let rest = match out.offer(&frames) {
                Offered::All => continue,
                Offered::Some => Vec::new(),
                Offered::Nothing => frames,
            };
            // Rare: somebody asks and does not read. The deadline of a frame ends this.
            let patient = std::thread::Builder::new().name("patient".into());
            let spawned = patient.spawn({
                let out = out.clone();
                move || out.end_unless(out.hold(&rest).and_then(|()| out.flush()))
            });
            if spawned.is_err() {
                out.socket.shutdown();
            }
        }
    }
}

impl Out {
    pub fn new(socket: Socket, incarnation: Arc<AtomicU64>) -> Out {
        Out {
            socket,
            sending: Mutex::default(),
            incarnation,
            fenced: AtomicBool::new(false),
            present: AtomicU16::new(0),
        }
    }

    /// The right to send, once everything that was held back is out.
    pub fn alone(&self, deadline: Deadline) -> io::Result<MutexGuard<'_, Vec<u8>>> {
        let mut held = self.sending.lock().expect("no panic while sending");
        if !held.is_empty() {
            self.socket.send_all(&mut [IoSlice::new(&held)], deadline)?;
            held.clear();
        }
        Ok(held)
    }

    /// Sends what was held back.
    pub fn flush(&self) -> io::Result<()> {
        self.alone(Deadline::after(limits::FRAME_TIME)).map(drop)
    }

    /// Keeps frames back until something is sent or there are many.
    fn hold(&self, frames: &[u8]) -> io::Result<()> {
        let mut held = self.sending.lock().expect("no panic while sending");
        held.extend_from_slice(frames);
        let many = held.len() >= HELD_BYTES;
        drop(held);
        if many { self.flush() } else { Ok(()) }
    }

    /// Sends frames if that needs no waiting, neither for the peer nor for another sender.
    /// What is left is held back if so.
    fn offer(&self, frames: &[u8]) -> Offered {
        let Ok(mut held) = self.sending.try_lock() else {
            return Offered::Nothing;
        };
        held.extend_from_slice(frames);
        match self.socket.send_now(&[IoSlice::new(&held)]) {
            Ok(sent) if sent == held.len() => {
                held.clear();
                Offered::All
            }
            Ok(sent) => {
                held.drain(..sent);
                Offered::Some
            }
            Err(_) => {
                self.socket.shutdown();
                Offered::All
            }
        }
    }

    pub fn is_abandoned(&self) -> bool {
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
    pub fn ask(&self, op: Op) {
        if op != Op(0) || !Op(self.present.load(Ordering::SeqCst)).is_joint() {
            self.present.store(op.0, Ordering::SeqCst);
        }
    }

    /// Whether what is under way here may go on although the client gave up another request: it changes
    /// nothing, or it is a group's and its member still waits for it.
    pub fn is_spared(&self) -> bool {
        let present = Op(self.present.load(Ordering::SeqCst));
        present.is_harmless() || (present.is_joint() && !self.is_abandoned())
    }

    pub fn send(&self, mut header: Header, body: &[u8], payload: &[IoSlice<'_>]) -> io::Result<()> {
        let bytes: usize = payload.iter().map(|slice| slice.len()).sum();
        assert!(bytes <= limits::PAYLOAD_BYTES as usize);
        self.stamp(&mut header, body.len(), bytes);
        let deadline = Deadline::after(limits::frame_time(bytes as u32));
        let _alone = self.alone(deadline)?;
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

    pub fn send_file(
        &self,
        mut header: Header,
        file: BorrowedFd<'_>,
        offset: u64,
        length: u32,
    ) -> io::Result<()> {
        self.stamp(&mut header, 0, length as usize);
        let deadline = Deadline::after(limits::frame_time(length));
        let _alone = self.alone(deadline)?;
        self.socket
            .send_all_more(&mut [IoSlice::new(header.as_bytes())], deadline)?;
        self.socket
            .send_file(file, offset, u64::from(length), deadline)
    }

    pub fn refuse(&self, request: &Header, refusal: &Refusal) -> io::Result<()> {
        let mut header = request.reply();
        header.add_flags(Flags::REFUSED);
        self.send(header, &trireme_proto::encode(refusal), &[])
    }

    pub fn stamp(&self, header: &mut Header, body: usize, payload: usize) {
        header.body.set(body as u32);
        header.payload.set(payload as u32);
        header.token.set(self.incarnation.load(Ordering::Relaxed));
    }

    fn end_unless(&self, sent: io::Result<()>) {
        if sent.is_err() {
            // Half a frame may be out: nothing more can be said on this connection.
            self.socket.shutdown();
        }
    }
}
