//! The client's end of a connection: one owner at a time, dropped on any error.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::hello::{Answer, Challenge, HelloError, Welcome};
use trireme_proto::{Flags, Header, Key, Op, Refusal, limits};
use zerocopy::little_endian::U64;
use zerocopy::{FromZeros, IntoBytes};

use crate::socket::Socket;
use crate::{Address, Deadline, Endpoint, Identity, NetError, Window, random_bytes};

/// Room for most bodies, so that they come with their header.
const USUAL_BODY: usize = 1024;

/// An authenticated connection to a server.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    peer: String,
    challenge: Challenge,
    incarnation: u64,
    last_id: u64,
    generation: u32,
    /// Memory shared with the server for this connection's payloads, once registered.
    pub window: Option<Window>,
    /// Memory of the caller's that is shared with the server instead.
    memory: Option<Arc<Window>>,
    /// Held by those who want to know whether the server is still there.
    tie: Option<Tie>,
}

/// Tells, as long as it is kept, whether the connection that it was taken from is still open.
#[derive(Debug, Clone)]
pub struct Tie(Arc<OwnedFd>);

impl Tie {
    /// Whether both ends are there: the server lives, and this client has not given the connection up.
    pub fn holds(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut fds = [PollFd::new(&*self.0, PollFlags::RDHUP)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        matches!(poll(&mut fds, Some(&now)), Ok(0))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A tie is a second descriptor of the socket, which keeps it open.
        if self.tie.is_some() {
            self.socket.shutdown();
        }
    }
}

/// A reply whose payload, if any, is still on the socket or in the caller's buffer.
#[derive(Debug)]
pub struct Reply {
    /// Its header.
    pub header: Header,
    /// Its body.
    pub body: Vec<u8>,
}

impl Connection {
    /// Connects to the first address that answers and says hello.
    pub fn connect(
        endpoint: &Endpoint,
        key: &Key,
        identity: Identity,
        deadline: Deadline,
    ) -> Result<Connection, NetError> {
        let mut last = None;
        for address in endpoint.addresses() {
            match Connection::try_address(endpoint, address, key, identity, deadline) {
                Ok(connection) => return Ok(connection),
                Err(error) => {
                    // A refusal by the right server is more telling than a missing socket.
                    if last.is_none() || !matches!(error, NetError::Unreachable { .. }) {
                        last = Some(error);
                    }
                    // It answers here, only late: no time is left for the other ways.
                    if deadline.over() {
                        break;
                    }
                }
            }
        }
        Err(last.unwrap_or_else(|| NetError::Unreachable {
            peer: endpoint.to_string(),
            source: std::io::Error::new(std::io::ErrorKind::NotFound, "no address is known"),
        }))
    }

    fn try_address(
        endpoint: &Endpoint,
        address: &Address,
        key: &Key,
        identity: Identity,
        deadline: Deadline,
    ) -> Result<Connection, NetError> {
        let peer = match endpoint.server {
            Some(server) => format!("I/O server {server} ({address})"),
            None => format!("server {address}"),
        };
        let failed = |source: std::io::Error| {
            if source.kind() == std::io::ErrorKind::TimedOut {
                NetError::TimedOut {
                    peer: peer.clone(),
                    total: deadline.total(),
                }
            } else {
                NetError::Unreachable {
                    peer: peer.clone(),
                    source,
                }
            }
        };
        let refused = |source: HelloError| NetError::Hello {
            peer: peer.clone(),
            source,
        };
        let socket = Socket::connect(address, deadline).map_err(failed)?;
        let mut challenge = Challenge::new_zeroed();
        socket
            .receive_exact(challenge.as_mut_bytes(), deadline)
            .map_err(failed)?;
        let answer = Answer::new(&challenge, key, identity.0, random_bytes()).map_err(refused)?;
        if endpoint
            .server
            .is_some_and(|server| server != challenge.server.get())
            || (endpoint.cluster != 0
                && challenge.cluster.get() != 0
                && endpoint.cluster != challenge.cluster.get())
        {
            return Err(refused(HelloError::Stranger));
        }
        socket
            .send_all(&mut [IoSlice::new(answer.as_bytes())], deadline)
            .map_err(failed)?;
        let mut welcome = Welcome::new_zeroed();
        socket
            .receive_exact(welcome.as_mut_bytes(), deadline)
            .map_err(failed)?;
        welcome.check(&challenge, &answer, key).map_err(refused)?;
        Ok(Connection {
            socket,
            peer,
            challenge,
            incarnation: welcome.incarnation.get(),
            last_id: 0,
            generation: identity.0.generation,
            window: None,
            memory: None,
            tie: None,
        })
    }

    /// The other end, for messages.
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// The server's incarnation, as of its last word.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The server's number and cluster.
    pub fn challenge(&self) -> &Challenge {
        &self.challenge
    }

    /// How often this client had given up requests to the server when it connected.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// Whether the server has closed this idle connection.
    pub fn is_stale(&self) -> bool {
        use rustix::net::RecvFlags;
        let mut byte = [0u8];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        !matches!(
            rustix::net::recv(&self.socket, &mut byte, flags),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
        )
    }

    /// The socket, for transfers that drive several servers at once.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Sends a request; its id, body and payload lengths and patience are filled in.
    pub fn send(
        &mut self,
        header: &mut Header,
        body: &[u8],
        payload: &[IoSlice<'_>],
        deadline: Deadline,
    ) -> Result<(), NetError> {
        let bytes: usize = payload.iter().map(|slice| slice.len()).sum();
        assert!(
            bytes <= limits::PAYLOAD_BYTES as usize && body.len() <= limits::BODY_BYTES as usize
        );
        self.stamp(header, body.len(), bytes, deadline);
        let mut slices = Vec::with_capacity(2 + payload.len());
        slices.push(IoSlice::new(header.as_bytes()));
        slices.push(IoSlice::new(body));
        slices.extend_from_slice(payload);
        self.socket
            .send_all(&mut slices, deadline)
            .map_err(|e| self.lost(e, deadline))
    }

    /// Fills in what each request needs before it is sent.
    pub fn stamp(&mut self, header: &mut Header, body: usize, payload: usize, deadline: Deadline) {
        self.last_id += 1;
        header.id = U64::new(self.last_id);
        header.body.set(body as u32);
        header.payload.set(payload as u32);
        header.patience_ms.set(deadline.patience_ms());
    }

    /// Receives the next reply; its payload goes in place, into `payload`, whose first
    /// `header.payload` bytes are then valid.
    pub fn receive(&mut self, payload: &mut [u8], deadline: Deadline) -> Result<Reply, NetError> {
        let mut bytes = [0; HEADER_BYTES];
        self.socket
            .receive_exact(&mut bytes, deadline)
            .map_err(|e| self.lost(e, deadline))?;
        let (header, body) = self.accept_header(&bytes, payload.len(), deadline)?;
        let length = header.payload.get() as usize;
        self.socket
            .receive_exact(&mut payload[..length], deadline)
            .map_err(|e| self.lost(e, deadline))?;
        Ok(Reply { header, body })
    }

    /// Like [`Connection::receive`], with the payload scattered over slices that it must fill
    /// exactly or leave empty.
    pub fn receive_vectored(
        &mut self,
        payload: &mut [IoSliceMut<'_>],
        deadline: Deadline,
    ) -> Result<Reply, NetError> {
        let room: usize = payload.iter().map(|slice| slice.len()).sum();
        let mut bytes = [0; HEADER_BYTES];
        self.socket
            .receive_exact(&mut bytes, deadline)
            .map_err(|e| self.lost(e, deadline))?;
        let (header, body) = self.accept_header(&bytes, room, deadline)?;
        let mut left = header.payload.get() as usize;
        let mut slices: Vec<IoSliceMut<'_>> = Vec::with_capacity(payload.len());
        for slice in payload {
            let take = slice.len().min(left);
            left -= take;
            if take > 0 {
                slices.push(IoSliceMut::new(&mut slice[..take]));
            }
        }
        self.socket
            .receive_exact_vectored(&mut slices, deadline)
            .map_err(|e| self.lost(e, deadline))?;
        Ok(Reply { header, body })
    }

    /// Checks a reply's header and receives its body; a refusal becomes an error.
    pub fn accept_header(
        &mut self,
        bytes: &[u8; HEADER_BYTES],
        room: usize,
        deadline: Deadline,
    ) -> Result<(Header, Vec<u8>), NetError> {
        self.accept_frame(bytes, &[], room, deadline)
    }

    /// The same when the body's first bytes have come already.
    fn accept_frame(
        &mut self,
        bytes: &[u8; HEADER_BYTES],
        early: &[u8],
        room: usize,
        deadline: Deadline,
    ) -> Result<(Header, Vec<u8>), NetError> {
        let header = self.parse(bytes)?;
        if header.payload.get() as usize > room {
            return Err(self.protocol("sent a reply that nobody asked for"));
        }
        let mut body = vec![0; header.body.get() as usize];
        if early.len() > body.len() {
            return Err(self.protocol("sent more than one reply"));
        }
        body[..early.len()].copy_from_slice(early);
        if early.len() < body.len() {
            self.socket
                .receive_exact(&mut body[early.len()..], deadline)
                .map_err(|e| self.lost(e, deadline))?;
        }
        if header.flags().has(Flags::REFUSED) {
            let source = trireme_proto::decode(&body).unwrap_or_else(|refusal| refusal);
            return Err(NetError::Refused {
                peer: self.peer.clone(),
                source,
            });
        }
        self.hear(&header);
        Ok((header, body))
    }

    /// The header of a reply.
    pub(crate) fn parse(&self, bytes: &[u8; HEADER_BYTES]) -> Result<Header, NetError> {
        let header = Header::parse(bytes).map_err(|source| NetError::Frame {
            peer: self.peer.clone(),
            source,
        })?;
        if !header.flags().has(Flags::REPLY) {
            return Err(self.protocol("sent a reply that nobody asked for"));
        }
        Ok(header)
    }

    /// Notes what each reply tells of the server.
    pub(crate) fn hear(&mut self, header: &Header) {
        if header.token.get() != 0 {
            self.incarnation = header.token.get();
        }
    }

    /// Shares a new window of `length` bytes with a server on this host. Nothing may be in flight.
    pub fn share_window(&mut self, length: usize, deadline: Deadline) -> Result<(), NetError> {
        let failed = |source| NetError::Lost {
            peer: self.peer.clone(),
            source,
        };
        let window = Window::create(length).map_err(failed)?;
        self.announce(&window, deadline)?;
        self.window = Some(window);
        self.memory = None;
        Ok(())
    }

    /// Shares memory of the caller's with a server on this host. Nothing may be in flight.
    pub fn share_memory(
        &mut self,
        memory: &Arc<Window>,
        deadline: Deadline,
    ) -> Result<(), NetError> {
        self.announce(memory, deadline)?;
        self.window = None;
        self.memory = Some(memory.clone());
        Ok(())
    }

    /// Whether the server has this memory mapped.
    pub fn shares(&self, memory: &Arc<Window>) -> bool {
        self.memory
            .as_ref()
            .is_some_and(|ours| Arc::ptr_eq(ours, memory))
    }

    fn announce(&mut self, window: &Window, deadline: Deadline) -> Result<(), NetError> {
        let mut header = Header::request(Op::WINDOW);
        header.length = U64::new(window.length() as u64);
        self.stamp(&mut header, 0, 0, deadline);
        self.socket
            .send_with_descriptor(header.as_bytes(), window.as_fd(), deadline)
            .map_err(|e| self.lost(e, deadline))?;
        self.receive(&mut [], deadline)?;
        Ok(())
    }

    /// One request that is answered with a descriptor, and the tie that says how long it is good for.
    pub fn call_for_descriptor(
        &mut self,
        header: &mut Header,
        deadline: Deadline,
    ) -> Result<(OwnedFd, Tie), NetError> {
        self.send(header, &[], &[], deadline)?;
        let mut bytes = [0; HEADER_BYTES];
        let (mut filled, mut descriptor) = (0, None);
        while filled < HEADER_BYTES {
            let rest = &mut bytes[filled..];
            match self
                .socket
                .receive_some(rest, &mut descriptor, deadline.left())
            {
                Ok(0) => return Err(self.lost(std::io::ErrorKind::UnexpectedEof.into(), deadline)),
                Ok(got) => filled += got,
                Err(error) => return Err(self.lost(error, deadline)),
            }
        }
        let (reply, _) = self.accept_header(&bytes, 0, deadline)?;
        let descriptor = descriptor
            .filter(|_| reply.id == header.id)
            .ok_or_else(|| self.protocol("sent no descriptor"))?;
        if self.tie.is_none() {
            let same = self.socket.as_fd().try_clone_to_owned();
            let same = same.map_err(|error| self.lost(error, deadline))?;
            self.tie = Some(Tie(Arc::new(same)));
        }
        Ok((descriptor, self.tie.clone().expect("just made")))
    }

    /// One request without body and payload; the reply's payload goes into `into` with the same
    /// system call that receives the header. For small reads.
    pub fn call_small(
        &mut self,
        header: &mut Header,
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<Header, NetError> {
        self.send(header, &[], &[], deadline)?;
        let mut bytes = [0; HEADER_BYTES];
        let mut filled = self
            .socket
            .receive_at_least(HEADER_BYTES, &mut bytes, into, deadline)
            .map_err(|e| self.lost(e, deadline))?
            - HEADER_BYTES;
        let reply = self.parse(&bytes)?;
        let fits = reply.payload.get() as usize <= into.len()
            && filled <= reply.payload.get() as usize + reply.body.get() as usize;
        if reply.id != header.id || !fits {
            return Err(self.protocol("sent a reply that nobody asked for"));
        }
        if reply.flags().has(Flags::REFUSED) || reply.body.get() > 0 {
            let mut body = vec![0; reply.body.get() as usize];
            let early = filled.min(body.len());
            body[..early].copy_from_slice(&into[..early]);
            self.socket
                .receive_exact(&mut body[early..], deadline)
                .map_err(|e| self.lost(e, deadline))?;
            let source = trireme_proto::decode(&body).unwrap_or_else(|refusal| refusal);
            return Err(NetError::Refused {
                peer: self.peer.clone(),
                source,
            });
        }
        let length = reply.payload.get() as usize;
        filled = filled.min(length);
        self.socket
            .receive_exact(&mut into[filled..length], deadline)
            .map_err(|e| self.lost(e, deadline))?;
        self.hear(&reply);
        Ok(reply)
    }

    /// One request with a body and its reply with a body, no payloads; a reply of usual size comes
    /// with one system call.
    pub fn call_body(
        &mut self,
        header: &mut Header,
        body: &[u8],
        deadline: Deadline,
    ) -> Result<Reply, NetError> {
        self.send(header, body, &[], deadline)?;
        let mut bytes = [0; HEADER_BYTES];
        let mut rest = [0; USUAL_BODY];
        let early = self
            .socket
            .receive_at_least(HEADER_BYTES, &mut bytes, &mut rest, deadline)
            .map_err(|e| self.lost(e, deadline))?
            - HEADER_BYTES;
        let (reply, body) = self.accept_frame(&bytes, &rest[..early], 0, deadline)?;
        if reply.id != header.id {
            return Err(self.protocol("answered another request"));
        }
        Ok(Reply {
            header: reply,
            body,
        })
    }

    /// One request and its reply.
    pub fn call(
        &mut self,
        header: &mut Header,
        body: &[u8],
        payload: &[IoSlice<'_>],
        into: &mut [u8],
        deadline: Deadline,
    ) -> Result<Reply, NetError> {
        self.send(header, body, payload, deadline)?;
        let reply = self.receive(into, deadline)?;
        if reply.header.id != header.id {
            return Err(self.protocol("answered another request"));
        }
        Ok(reply)
    }

    fn protocol(&self, what: &str) -> NetError {
        NetError::Refused {
            peer: self.peer.clone(),
            source: Refusal::protocol(what),
        }
    }

    /// Names what happened to the connection.
    pub fn lost(&self, source: std::io::Error, deadline: Deadline) -> NetError {
        let peer = self.peer.clone();
        if source.kind() == std::io::ErrorKind::TimedOut {
            NetError::TimedOut {
                peer,
                total: deadline.total(),
            }
        } else {
            NetError::Lost { peer, source }
        }
    }
}
