//! A connection turned round: the server asks for bytes of the client's buffer, or sends some, while
//! the client waits for the end of its collective.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use trireme_proto::frame::HEADER_BYTES;
use trireme_proto::message::collective::encode_ranges;
use trireme_proto::{Flags, Header, Op};
use zerocopy::IntoBytes;

use crate::out::Out;
use crate::{Deadline, Link};

/// The server's end of a lane. One thread at a time asks or sends on it.
#[derive(Debug, Clone)]
pub struct Backchannel {
    out: Arc<Out>,
}

impl Link {
    /// Takes the connection over; its own thread must not read from it until it is over.
    pub fn backchannel(&self) -> Backchannel {
        Backchannel { out: self.out() }
    }
}

impl Backchannel {
    /// Asks for ranges of the client's buffer.
    pub fn ask(&self, ranges: &[Range<u64>], deadline: Deadline) -> io::Result<()> {
        self.send(Op::MEMGET, ranges, &mut [], deadline)
    }

    /// Fills `into` with what was asked for.
    pub fn take(&self, into: &mut [IoSliceMut<'_>], deadline: Deadline) -> io::Result<()> {
        let mut bytes = [0; HEADER_BYTES];
        self.out.socket.receive_exact(&mut bytes, deadline)?;
        let header = Header::parse(&bytes).map_err(io::Error::other)?;
        let wanted: usize = into.iter().map(|slice| slice.len()).sum();
        if header.op() != Op::MEMGET
            || header.body.get() != 0
            || header.payload.get() as usize != wanted
        {
            return Err(io::Error::other("answered something that nobody asked for"));
        }
        self.out.socket.receive_exact_vectored(into, deadline)
    }

    /// Sends bytes for ranges of the client's buffer.
    pub fn put(
        &self,
        ranges: &[Range<u64>],
        from: &mut [IoSlice<'_>],
        deadline: Deadline,
    ) -> io::Result<()> {
        self.send(Op::MEMPUT, ranges, from, deadline)
    }

    /// Tells the client that nothing more comes for this collective.
    pub fn finish(&self, deadline: Deadline) -> io::Result<()> {
        self.send(Op::PROGRESS, &[], &mut [], deadline)
    }

    fn send(
        &self,
        op: Op,
        ranges: &[Range<u64>],
        from: &mut [IoSlice<'_>],
        deadline: Deadline,
    ) -> io::Result<()> {
        let body = encode_ranges(ranges);
        let mut header = Header::request(op);
        header.add_flags(Flags::REPLY);
        header.body.set(body.len() as u32);
        header
            .payload
            .set(from.iter().map(|slice| slice.len()).sum::<usize>() as u32);
        let mut slices = Vec::with_capacity(from.len() + 2);
        slices.push(IoSlice::new(header.as_bytes()));
        slices.push(IoSlice::new(&body));
        slices.extend_from_slice(from);
        self.out.socket.send_all(&mut slices, deadline)
    }

    /// Whether the client is still at the other end; waits at most `wait` for its going.
    pub fn is_open(&self, wait: std::time::Duration) -> bool {
        let time = Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        };
        let mut fds = [PollFd::new(&self.out.socket, PollFlags::RDHUP)];
        match poll(&mut fds, Some(&time)) {
            Ok(ready) => ready == 0,
            Err(rustix::io::Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// Whether both are the same connection.
    pub fn is(&self, other: &Backchannel) -> bool {
        Arc::ptr_eq(&self.out, &other.out)
    }

    /// Ends the connection.
    pub fn end(&self) {
        self.out.socket.shutdown();
    }
}
