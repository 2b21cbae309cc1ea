//! A connected stream socket, TCP or Unix: exact sends and receives with deadlines.
//!
//! Sockets stay in blocking mode. A timeout on the socket (`SO_RCVTIMEO`) is set again only when
//! it no longer fits the deadline, so that the common call costs no extra system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, sockopt,
};

use crate::{Address, Deadline};

/// Buffer of loopback and Unix sockets: at this size the bytes stay in the second-level cache
/// (measured 30 % better than the kernel's own choice). Other networks tune themselves.
const LOCAL_BUFFER: usize = 256 << 10;

/// More slices than this in one system call are refused by the kernel.
pub const SLICES: usize = 1024;

/// Keeps a TCP socket that is not connected yet (or a listener, for all that it accepts) from pacing by
/// guesses. BBR takes the rate of short blocks with pauses between them for the network's, and then holds
/// later blocks back for tens of milliseconds: reads over shaped links went at a third of them. Where an
/// administrator has chosen anything else, that stays.
pub(crate) fn avoid_pacing(socket: &impl AsFd) {
    let paced = sockopt::tcp_congestion(socket).is_ok_and(|name| name.starts_with("bbr"));
    if paced {
        // Without privileges only some are allowed; reno always is.
        let _ = ["cubic", "reno"]
            .into_iter()
            .any(|name| sockopt::set_tcp_congestion(socket, name).is_ok());
    }
}

/// A connected stream socket.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    unix: bool,
    receive_wait: Wait,
    send_wait: Wait,
}

/// The timeout that is set on the socket, in milliseconds.
#[derive(Debug)]
struct Wait(AtomicU64);

impl Wait {
    /// The new value to set, if the present one would oversleep the deadline or wake far too often.
    fn change(&self, left: Duration) -> Option<Duration> {
        let now = self.0.load(Ordering::Relaxed);
        let left_ms = (left.as_millis() as u64).max(1);
        let fits = now != 0 && now <= left_ms + left_ms / 8 + 20;
        if fits {
            return None;
        }
        // A third of what is left: the next calls with the same deadline length fit as well.
        let wait = (left_ms / 3).max(1);
        self.0.store(wait, Ordering::Relaxed);
        Some(Duration::from_millis(wait))
    }
}

impl Socket {
    /// Takes over a connected socket.
    pub fn new(fd: OwnedFd, unix: bool) -> io::Result<Socket> {
        let socket = socket2::SockRef::from(&fd);
        socket.set_nonblocking(false)?;
        let local = unix
            || socket
                .peer_addr()
                .ok()
                .and_then(|a| a.as_socket())
                .is_some_and(|a| a.ip().is_loopback());
        if local {
            socket.set_send_buffer_size(LOCAL_BUFFER)?;
            socket.set_recv_buffer_size(LOCAL_BUFFER)?;
        }
        if !unix {
            socket.set_tcp_nodelay(true)?;
            // A host that is gone is noticed after half a minute, whoever waits for its processes.
            let alive = socket2::TcpKeepalive::new()
                .with_time(Duration::from_secs(10))
                .with_interval(Duration::from_secs(5))
                .with_retries(4);
            socket.set_tcp_keepalive(&alive)?;
        }
        Ok(Socket {
            fd,
            unix,
            receive_wait: Wait(AtomicU64::new(0)),
            send_wait: Wait(AtomicU64::new(0)),
        })
    }

    /// Connects, not longer than the deadline.
    pub fn connect(address: &Address, deadline: Deadline) -> io::Result<Socket> {
        use socket2::{Domain, SockAddr, Socket as Raw, Type};
        let left = deadline.left().max(Duration::from_millis(1));
        match address {
            Address::Unix(path) => {
                let raw = Raw::new(Domain::UNIX, Type::STREAM, None)?;
                // On Unix sockets a full backlog makes connect wait: bounded like a send.
                raw.set_write_timeout(Some(left))?;
                raw.connect(&SockAddr::unix(path)?).map_err(timed_out)?;
                Socket::new(raw.into(), true)
            }
            Address::Tcp(host) => {
                use std::net::ToSocketAddrs;
                let mut last = io::Error::new(io::ErrorKind::NotFound, "no such host");
                for address in host.to_socket_addrs()? {
                    let raw = Raw::new(Domain::for_address(address), Type::STREAM, None)?;
                    avoid_pacing(&raw);
                    match raw.connect_timeout(&address.into(), left) {
                        Ok(()) => return Socket::new(raw.into(), false),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }

    /// Whether this is a Unix socket.
    pub fn is_unix(&self) -> bool {
        self.unix
    }

    /// The kernel's word on who is at the other end of a Unix socket.
    pub fn peer_credentials(&self) -> Option<(u32, u32, u32)> {
        if !self.unix {
            return None;
        }
        let cred = sockopt::socket_peercred(&self.fd).ok()?;
        Some((
            cred.pid.as_raw_nonzero().get() as u32,
            cred.uid.as_raw(),
            cred.gid.as_raw(),
        ))
    }

    /// The peer's network address, for logs.
    pub fn peer_name(&self) -> String {
        match self.peer_credentials() {
            Some((pid, uid, _)) => format!("unix pid {pid} uid {uid}"),
            None => socket2::SockRef::from(&self.fd)
                .peer_addr()
                .ok()
                .and_then(|address| address.as_socket())
                .map_or_else(|| "unknown".to_owned(), |address| address.to_string()),
        }
    }

    /// The network address of this end's host; `None` for a Unix socket.
    pub fn local_host(&self) -> Option<String> {
        let address = socket2::SockRef::from(&self.fd).local_addr().ok()?;
        Some(match address.as_socket()? {
            std::net::SocketAddr::V4(v4) => v4.ip().to_string(),
            std::net::SocketAddr::V6(v6) => format!("[{}]", v6.ip()),
        })
    }

    /// Ends both directions: a thread that waits on this socket wakes up.
    pub fn shutdown(&self) {
        let _ = rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Both);
    }

    /// Waits for the first bytes, without a deadline of its own: `Ok(0)` is the peer's end,
    /// `TimedOut` after some time, at most `wait`, without a byte. A descriptor that the peer passed along is kept.
    pub fn receive_some(
        &self,
        buffer: &mut [u8],
        descriptor: &mut Option<OwnedFd>,
        wait: Duration,
    ) -> io::Result<usize> {
        self.wait_at_most(&self.receive_wait, true, wait)?;
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let room = if self.unix { &mut space[..] } else { &mut [] };
        let mut ancillary = RecvAncillaryBuffer::new(room);
        loop {
            let mut slices = [IoSliceMut::new(buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            match rustix::net::recvmsg(&self.fd, &mut slices, &mut ancillary, flags) {
                Ok(message) => {
                    for item in ancillary.drain() {
                        if let RecvAncillaryMessage::ScmRights(fds) = item {
                            *descriptor = fds.last();
                        }
                    }
                    return Ok(message.bytes);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Err(io::ErrorKind::TimedOut.into()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Sends bytes with a descriptor attached (Unix sockets only).
    pub fn send_with_descriptor(
        &self,
        bytes: &[u8],
        descriptor: BorrowedFd<'_>,
        deadline: Deadline,
    ) -> io::Result<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let fds = [descriptor];
        ancillary.push(SendAncillaryMessage::ScmRights(&fds));
        self.wait_at_most(&self.send_wait, false, deadline.left())?;
        let sent = rustix::net::sendmsg(
            &self.fd,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )?;
        self.send_all(&mut [IoSlice::new(&bytes[sent..])], deadline)
    }

    /// Sends what fits now, without waiting; 0: nothing fits.
    pub fn send_now(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let window = slices.len().min(SLICES);
        let mut ancillary = SendAncillaryBuffer::default();
        match rustix::net::sendmsg(&self.fd, &slices[..window], &mut ancillary, flags) {
            Ok(sent) => Ok(sent),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    /// Receives what is there now, without waiting; `None`: nothing is.
    pub fn receive_now(&self, slices: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        let window = slices.len().min(SLICES);
        let mut ancillary = RecvAncillaryBuffer::default();
        let slices = &mut slices[..window];
        match rustix::net::recvmsg(&self.fd, slices, &mut ancillary, RecvFlags::DONTWAIT) {
            Ok(message) if message.bytes == 0 => Err(ended(0)),
            Ok(message) => Ok(Some(message.bytes)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Fills `buffer`, or fails.
    pub fn receive_exact(&self, buffer: &mut [u8], deadline: Deadline) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            self.wait_at_most(&self.receive_wait, true, deadline.left())?;
            match rustix::net::recv(&self.fd, &mut buffer[filled..], RecvFlags::WAITALL) {
                Ok((0, _)) => return Err(ended(filled)),
                Ok((got, _)) => filled += got,
                Err(error) => again(error, deadline)?,
            }
        }
        Ok(())
    }

    /// Receives into `first`, then `second`, until at least `least` bytes are there; gives their number.
    pub fn receive_at_least(
        &self,
        least: usize,
        first: &mut [u8],
        second: &mut [u8],
        deadline: Deadline,
    ) -> io::Result<usize> {
        let mut filled = 0;
        while filled < least {
            self.wait_at_most(&self.receive_wait, true, deadline.left())?;
            let mut slices = [
                IoSliceMut::new(&mut first[filled..]),
                IoSliceMut::new(second),
            ];
            let mut ancillary = RecvAncillaryBuffer::default();
            let flags = RecvFlags::empty();
            match rustix::net::recvmsg(&self.fd, &mut slices, &mut ancillary, flags) {
                Ok(message) if message.bytes == 0 => return Err(ended(filled)),
                Ok(message) => filled += message.bytes,
                Err(error) => again(error, deadline)?,
            }
        }
        Ok(filled)
    }

    /// Fills all slices, or fails.
    pub fn receive_exact_vectored(
        &self,
        mut slices: &mut [IoSliceMut<'_>],
        deadline: Deadline,
    ) -> io::Result<()> {
        IoSliceMut::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            self.wait_at_most(&self.receive_wait, true, deadline.left())?;
            let window = slices.len().min(SLICES);
            let mut ancillary = RecvAncillaryBuffer::default();
            let result = rustix::net::recvmsg(
                &self.fd,
                &mut slices[..window],
                &mut ancillary,
                RecvFlags::WAITALL,
            );
            match result {
                Ok(message) if message.bytes == 0 => return Err(ended(0)),
                Ok(message) => IoSliceMut::advance_slices(&mut slices, message.bytes),
                Err(error) => again(error, deadline)?,
            }
        }
        Ok(())
    }

    /// Sends all slices, or fails: one system call when the buffer has room.
    pub fn send_all(&self, slices: &mut [IoSlice<'_>], deadline: Deadline) -> io::Result<()> {
        self.send_flags(slices, deadline, SendFlags::NOSIGNAL)
    }

    /// Like [`Socket::send_all`], and tells the kernel that more follows at once.
    pub fn send_all_more(&self, slices: &mut [IoSlice<'_>], deadline: Deadline) -> io::Result<()> {
        self.send_flags(slices, deadline, SendFlags::NOSIGNAL | SendFlags::MORE)
    }

    fn send_flags(
        &self,
        mut slices: &mut [IoSlice<'_>],
        deadline: Deadline,
        flags: SendFlags,
    ) -> io::Result<()> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            self.wait_at_most(&self.send_wait, false, deadline.left())?;
            let window = slices.len().min(SLICES);
            let mut ancillary = SendAncillaryBuffer::default();
            match rustix::net::sendmsg(&self.fd, &slices[..window], &mut ancillary, flags) {
                Ok(sent) => IoSlice::advance_slices(&mut slices, sent),
                Err(error) => again(error, deadline)?,
            }
        }
        Ok(())
    }

    /// Sends `length` bytes of `file` from `offset` without copying them to user space.
    pub fn send_file(
        &self,
        file: BorrowedFd<'_>,
        mut offset: u64,
        mut length: u64,
        deadline: Deadline,
    ) -> io::Result<()> {
        while length > 0 {
            self.wait_at_most(&self.send_wait, false, deadline.left())?;
            let count = length.min(1 << 30) as usize;
            match rustix::fs::sendfile(&self.fd, file, Some(&mut offset), count) {
                Ok(0) => {
                    // The file became shorter after its size was announced: the frame cannot be
                    // completed, so the connection must end.
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the subfile shrank while it was sent",
                    ));
                }
                Ok(sent) => length -= sent as u64,
                Err(error) => again(error, deadline)?,
            }
        }
        Ok(())
    }

    fn wait_at_most(&self, wait: &Wait, receive: bool, left: Duration) -> io::Result<()> {
        if let Some(time) = wait.change(left) {
            let kind = if receive {
                sockopt::Timeout::Recv
            } else {
                sockopt::Timeout::Send
            };
            sockopt::set_socket_timeout(&self.fd, kind, Some(time))?;
        }
        Ok(())
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn again(error: Errno, deadline: Deadline) -> io::Result<()> {
    match error {
        Errno::INTR => Ok(()),
        Errno::AGAIN if !deadline.over() => Ok(()),
        Errno::AGAIN => Err(io::ErrorKind::TimedOut.into()),
        error => Err(error.into()),
    }
}

fn ended(filled: usize) -> io::Error {
    let what = if filled == 0 {
        "the peer closed the connection"
    } else {
        "the peer closed the connection within a frame"
    };
    io::Error::new(io::ErrorKind::UnexpectedEof, what)
}

fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock {
        io::ErrorKind::TimedOut.into()
    } else {
        error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_would_pace_does_not() {
        use socket2::{Domain, Socket as Raw, Type};
        let raw = Raw::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        if sockopt::set_tcp_congestion(&raw, "bbr").is_err() {
            return; // This kernel does not have it, or does not allow it.
        }
        avoid_pacing(&raw);
        let now = sockopt::tcp_congestion(&raw).expect("its name");
        assert!(matches!(&*now, "cubic" | "reno"), "{now}");
        avoid_pacing(&raw);
        assert_eq!(sockopt::tcp_congestion(&raw).expect("its name"), now);
    }
}
