//! One thread's io_uring: gives places for requests to the kernel and waits until one is there.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use zerocopy::IntoBytes;

use super::super::abi::{self, RingCommand};
use super::super::device::Device;
use super::entry::Entry;

/// Where a submission has the length of what its address is of, in bytes from its beginning.
const LENGTH_AT: usize = 24;

/// A thread's way to the kernel; only for the thread that made it.
pub(super) struct Port {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    device: RawFd,
}

impl Port {
    /// The device outlives it.
    pub fn new(device: &Device) -> io::Result<Port> {
        let ring = IoUring::builder()
            // What comes for this thread is worked on when it waits, not whenever it is in the kernel.
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(4)?;
        let device = device.as_fd().as_raw_fd();
        Ok(Port { ring, device })
    }

    fn push(&mut self, command: u32, place: Option<&[libc::iovec; 2]>, what: RingCommand) {
        let mut bytes = [0; 80];
        bytes[..size_of::<RingCommand>()].copy_from_slice(what.as_bytes());
        let address = place.map(|iovec| iovec.as_ptr() as u64);
        let mut submission = opcode::UringCmd80::new(types::Fd(self.device), command)
            .cmd(bytes)
            .addr(address)
            .build();
        if let Some(iovec) = place {
            // SAFETY: a submission is 128 bytes whose layout the kernel fixes; the library leaves this one out.
            unsafe {
                let length = (&raw mut submission).cast::<u8>().add(LENGTH_AT);
                length.cast::<u32>().write_unaligned(iovec.len() as u32);
            }
        }
        // SAFETY: the kernel reads the vector before the call that submits this returns, and uses the entry's
        // memory only while this thread is in the kernel with it.
        unsafe { self.ring.submission().push(&submission) }.expect("one at a time is under way");
    }

    /// Makes a place for requests known to the kernel.
    pub fn register(&mut self, entry: &Entry) -> io::Result<()> {
        let iovec = entry.iovec();
        let what = RingCommand {
            qid: entry.queue,
            ..RingCommand::default()
        };
        self.push(abi::RING_REGISTER, Some(&iovec), what);
        self.submit()
    }

    /// Asks for what cannot be: the kernel gives the rings up and uses the device.
    pub fn give_up(&mut self) {
        let what = RingCommand {
            qid: u16::MAX,
            ..RingCommand::default()
        };
        self.push(abi::RING_REGISTER, None, what);
        let _ = self.submit();
    }

    /// Gives an answer, and the place back; takes effect with [`Port::wait`].
    pub fn commit(&mut self, entry: &Entry) {
        let what = RingCommand {
            commit_id: entry.commit(),
            qid: entry.queue,
            ..RingCommand::default()
        };
        self.push(abi::RING_COMMIT_AND_FETCH, None, what);
    }

    fn submit(&mut self) -> io::Result<()> {
        loop {
            match self.ring.submit() {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for a request; gives an error number where there will be none.
    pub fn wait(&mut self) -> Result<(), i32> {
        loop {
            if let Some(done) = self.ring.completion().next() {
                return if done.result() < 0 {
                    Err(-done.result())
                } else {
                    Ok(())
                };
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.raw_os_error().unwrap_or(libc::EIO)),
            }
        }
    }
}
