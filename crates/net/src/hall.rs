//! Where newcomers stay until they have said their part of the hello: one thread watches them all, so
//! that those who never finish it cost neither a thread nor a switch of threads per byte.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use trireme_proto::hello::{Answer, Challenge};
use trireme_proto::limits;
use zerocopy::{FromZeros, IntoBytes};

use crate::Deadline;
use crate::socket::Socket;

/// Everybody who was let in by one door and has not answered its challenge yet.
pub(crate) struct Hall {
    watch: OwnedFd,
    newcomers: HashMap<u64, Newcomer>,
    /// In the order in which they came, which is that of their deadlines.
    order: VecDeque<(u64, Deadline)>,
    next: u64,
}

/// Somebody who was challenged.
pub(crate) struct Newcomer {
    pub socket: Socket,
    pub challenge: Challenge,
    pub answer: Answer,
    /// When the whole hello must be over.
    pub deadline: Deadline,
    filled: usize,
}

/// What the thread in the hall has to do.
pub(crate) enum Event {
    /// Something other than a newcomer has stirred: the number it was [watched](Hall::watch) under.
    Stirred(u64),
    /// This one has answered.
    Answered(Box<Newcomer>),
    /// This one has gone, and why.
    Left(io::Error),
}

/// Numbers below this are for what is not a newcomer.
const RESERVED: u64 = 16;

impl Hall {
    pub fn new() -> io::Result<Hall> {
        Ok(Hall {
            watch: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            newcomers: HashMap::new(),
            order: VecDeque::new(),
            next: RESERVED,
        })
    }

    /// Has [`Hall::wait`] tell of `other`, under a number below 16.
    pub fn watch(&self, other: impl AsFd, number: u64) -> io::Result<()> {
        assert!(number < RESERVED);
        let data = epoll::EventData::new_u64(number);
        Ok(epoll::add(&self.watch, other, data, epoll::EventFlags::IN)?)
    }

    /// Challenges somebody, who then has [`limits::HELLO_TIME`].
    pub fn enter(&mut self, socket: Socket, challenge: Challenge) -> io::Result<()> {
        let bytes = challenge.as_bytes();
        if socket.send_now(&[IoSlice::new(bytes)])? < bytes.len() {
            return Err(io::Error::other("a new connection takes no bytes"));
        }
        let number = self.next;
        self.next += 1;
        let data = epoll::EventData::new_u64(number);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
        epoll::add(&self.watch, &socket, data, flags)?;
        let deadline = Deadline::after(limits::HELLO_TIME);
        self.order.push_back((number, deadline));
        let newcomer = Newcomer {
            socket,
            challenge,
            answer: Answer::new_zeroed(),
            deadline,
            filled: 0,
        };
        self.newcomers.insert(number, newcomer);
        Ok(())
    }

    /// Waits until something happens, and adds all of it to `events`.
    pub fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        // Those who left are still in the order: their deadlines wake us in vain, once each.
        let left = self.order.front().map(|(_, deadline)| deadline.left());
        let time = left.and_then(|left| rustix::event::Timespec::try_from(left).ok());
        let mut stirred = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 64];
        let count = match epoll::wait(&self.watch, &mut stirred[..], time.as_ref()) {
            Ok(count) => count,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        for event in &stirred[..count] {
            let number = event.data.u64();
            if number < RESERVED {
                events.push(Event::Stirred(number));
                continue;
            }
            let Some(newcomer) = self.newcomers.get_mut(&number) else {
                continue;
            };
            match newcomer.listen() {
                Ok(false) => {}
                Ok(true) => events.extend(self.leave(number)?.map(Box::new).map(Event::Answered)),
                Err(error) => {
                    let name = newcomer.socket.peer_name();
                    self.leave(number)?;
                    let why = io::Error::new(error.kind(), format!("{name}: {error}"));
                    events.push(Event::Left(why));
                }
            }
        }
        while let Some(&(number, deadline)) = self.order.front()
            && deadline.over()
        {
            self.order.pop_front();
            if let Some(newcomer) = self.leave(number)? {
                let name = newcomer.socket.peer_name();
                let why = format!("{name}: no answer to the challenge in time");
                events.push(Event::Left(io::Error::new(io::ErrorKind::TimedOut, why)));
            }
        }
        Ok(())
    }

    fn leave(&mut self, number: u64) -> io::Result<Option<Newcomer>> {
        let newcomer = self.newcomers.remove(&number);
        if let Some(newcomer) = &newcomer {
            epoll::delete(&self.watch, &newcomer.socket)?;
        }
        if self.newcomers.is_empty() {
            self.order.clear();
        }
        Ok(newcomer)
    }
}

impl Newcomer {
    /// Takes what has come; whether that is the whole answer.
    fn listen(&mut self) -> io::Result<bool> {
        let rest = &mut self.answer.as_mut_bytes()[self.filled..];
        if let Some(got) = self.socket.receive_now(&mut [IoSliceMut::new(rest)])? {
            self.filled += got;
        }
        Ok(self.filled == size_of::<Answer>())
    }
}
