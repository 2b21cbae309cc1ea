//! Many requests on one connection, none waiting for another's answer: as few system calls and
//! switches of threads as there are rounds, not requests.

use std::io::IoSlice;

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::{Flags, Header, Op};
use zerocopy::IntoBytes;

use crate::{Connection, Deadline, NetError};

/// What is received at a time, at most.
const INBOX: usize = 32 << 10;

/// A connection while many requests are under way on it. Bodies only, no payloads.
///
/// After an error the connection is not to be used again.
#[derive(Debug)]
pub struct Pipeline<'a> {
    connection: &'a mut Connection,
    outbox: Vec<u8>,
    inbox: Vec<u8>,
    /// The part of the inbox that has not been given out yet.
    from: usize,
    to: usize,
}

impl<'a> Pipeline<'a> {
    /// Nothing may be under way on the connection.
    pub fn new(connection: &'a mut Connection) -> Pipeline<'a> {
        Pipeline {
            connection,
            outbox: Vec::new(),
            inbox: vec![0; INBOX],
            from: 0,
            to: 0,
        }
    }

    /// Adds a request, which leaves when [`Pipeline::next`] finds no answer at hand; gives its number.
    pub fn push(&mut self, op: Op, body: &[u8], deadline: Deadline) -> u64 {
        self.push_with(Header::request(op), body, deadline)
    }

    /// The same, of a request with more in its header.
    pub fn push_with(&mut self, mut header: Header, body: &[u8], deadline: Deadline) -> u64 {
        self.connection.stamp(&mut header, body.len(), 0, deadline);
        self.outbox.extend_from_slice(header.as_bytes());
        self.outbox.extend_from_slice(body);
        header.id.get()
    }

    /// The next answer, to whichever request: its number, and the decoded body or the refusal.
    /// An outer error is the connection's, and leaves all requests without an answer.
    pub fn next<R: DeserializeOwned>(
        &mut self,
        deadline: Deadline,
    ) -> Result<(u64, Result<R, NetError>), NetError> {
        let header = loop {
            if let Some(header) = self.whole()? {
                break header;
            }
            self.send(deadline)?;
            self.receive(deadline)?;
        };
        let begin = self.from + HEADER_BYTES;
        let end = begin + header.body.get() as usize;
        self.from = end;
        let body = &self.inbox[begin..end];
        let answer = if header.flags().has(Flags::REFUSED) {
            Err(trireme_proto::decode(body).unwrap_or_else(|refusal| refusal))
        } else {
            self.connection.hear(&header);
            trireme_proto::decode(body)
        };
        let answer = answer.map_err(|source| NetError::Refused {
            peer: self.connection.peer().to_owned(),
            source,
        });
        Ok((header.id.get(), answer))
    }

    /// The header of the next answer, if all of it is in the inbox.
    fn whole(&self) -> Result<Option<Header>, NetError> {
        let here = &self.inbox[self.from..self.to];
        let Some(bytes) = here.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let header = self.connection.parse(bytes)?;
        let whole = here.len() - HEADER_BYTES >= header.body.get() as usize;
        Ok(whole.then_some(header))
    }

    /// Sends the outbox. A server that waits until we read its answers is no reason to wait for it.
    fn send(&mut self, deadline: Deadline) -> Result<(), NetError> {
        let mut sent = 0;
        while sent < self.outbox.len() {
            let rest = [IoSlice::new(&self.outbox[sent..])];
            match self.connection.socket().send_now(&rest) {
                Ok(0) => {}
                Ok(some) => {
                    sent += some;
                    continue;
                }
                Err(error) => return Err(self.connection.lost(error, deadline)),
            }
            let flags = PollFlags::OUT | PollFlags::IN;
            let mut fds = [PollFd::new(self.connection.socket(), flags)];
            let time = rustix::event::Timespec::try_from(deadline.left()).ok();
            let _ = poll(&mut fds, time.as_ref());
            if fds[0].revents().contains(PollFlags::IN) {
                self.receive(deadline)?;
            }
            if deadline.over() {
                let late = std::io::ErrorKind::TimedOut.into();
                return Err(self.connection.lost(late, deadline));
            }
        }
        self.outbox.clear();
        Ok(())
    }

    /// Receives at least one byte.
    fn receive(&mut self, deadline: Deadline) -> Result<(), NetError> {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.inbox.len() - self.to < INBOX / 2 {
            self.inbox.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
            let room = (self.to + INBOX / 2).max(self.inbox.len());
            self.inbox.resize(room, 0);
        }
        let room = &mut self.inbox[self.to..];
        let got = self
            .connection
            .socket()
            .receive_at_least(1, room, &mut [], deadline)
            .map_err(|error| self.connection.lost(error, deadline))?;
        self.to += got;
        Ok(())
    }
}
