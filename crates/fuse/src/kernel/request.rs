//! One request of the kernel, and the one answer that it gets.

use std::io::IoSlice;
use std::os::fd::AsFd;
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::abi::{self, InHeader, OutHeader};
use super::ring::{Entry, Rings};
use super::session::{Shared, waiting_for_kernel};

/// What the kernel asks.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Who, what and about which inode.
    pub header: InHeader,
    /// The arguments.
    pub(super) body: &'a [u8],
    /// What follows the fixed ones, where that lies elsewhere.
    pub(super) data: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// The fixed arguments and what follows them.
    pub fn take<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<(T, &'a [u8]), i32> {
        let (fixed, rest) = T::read_from_prefix(self.body).map_err(|_| libc::EINVAL)?;
        Ok((fixed, self.data.unwrap_or(rest)))
    }

    /// The arguments of a request that has none that are fixed.
    pub fn names(&self) -> &'a [u8] {
        self.data.unwrap_or(self.body)
    }

    /// Only the fixed arguments.
    pub fn arguments<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<T, i32> {
        Ok(self.take()?.0)
    }
}

/// The name at the front of `bytes`, which a NUL ends, and what follows it.
pub fn split_name(bytes: &[u8]) -> Result<(&[u8], &[u8]), i32> {
    let end = bytes.iter().position(|byte| *byte == 0);
    let end = end.ok_or(libc::EINVAL)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// The way back to the kernel for one request. Dropped without a word it says EIO, so that nobody
/// waits for ever.
#[derive(Debug)]
pub struct Reply {
    shared: Arc<Shared>,
    unique: u64,
    open: bool,
    /// Where the answer goes, if the request did not come through the device.
    entry: Option<Arc<Entry>>,
    /// The request's bytes lie where the answer goes.
    in_place: bool,
    /// Whoever answers has more to do then.
    more_to_do: bool,
}

impl Reply {
    pub(super) fn new(shared: Arc<Shared>, unique: u64, opcode: u32, expected: bool) -> Reply {
        if expected {
            shared.requests.begin(unique, opcode);
        }
        Reply {
            shared,
            unique,
            open: expected,
            entry: None,
            in_place: false,
            more_to_do: false,
        }
    }

    /// For a request that came to an entry; `in_place` when it is carried out with the bytes that lie there.
    pub(super) fn through(
        shared: Arc<Shared>,
        entry: Arc<Entry>,
        header: &InHeader,
        in_place: bool,
    ) -> Reply {
        shared
            .requests
            .begin_in_ring(header, entry.clone(), in_place);
        Reply {
            shared,
            unique: header.unique,
            open: true,
            entry: Some(entry),
            in_place,
            more_to_do: false,
        }
    }

    /// Whether the bytes of the request, or those of its answer, are where the kernel puts others as soon as
    /// it has been answered.
    pub fn is_in_place(&self) -> bool {
        self.in_place
    }

    /// Room for the bytes of the answer where the kernel takes them from, if there is such a place. For what
    /// takes no time: nobody can be interrupted while it is used.
    pub fn room(&mut self, length: usize) -> Option<&mut [u8]> {
        let entry = self.entry.as_ref().filter(|_| self.in_place)?;
        // SAFETY: nobody answers in our place while it is used, and `self` is borrowed as long as the room is.
        Some(unsafe { entry.bytes(length) })
    }

    /// Gives the first bytes of the room.
    pub fn filled(mut self, length: usize) -> bool {
        let Some(entry) = self.entry.take() else {
            return false;
        };
        if !std::mem::take(&mut self.open) || !self.shared.requests.end(self.unique) {
            return false;
        }
        // SAFETY: not answered before, by the line above.
        unsafe { entry.answer(self.unique, 0, length) };
        Rings::answer(&self.shared, entry, self.unique, self.more_to_do);
        true
    }

    /// The bytes of the request, and the room, are not used any more: what follows may take its time.
    pub fn leaves_place(&mut self) {
        if std::mem::take(&mut self.in_place) {
            self.shared.rings.takes_time();
            self.shared.requests.leaves_place(self.unique);
        }
    }

    /// The answer is not the end: whoever gives it has more to do, for which nobody shall wait.
    #[must_use]
    pub fn before_the_rest(mut self) -> Reply {
        self.more_to_do = true;
        self
    }

    /// The request's number, by which an interrupt names it.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// Says that it failed. False when nobody waits any more.
    pub fn error(self, errno: i32) -> bool {
        self.send(-errno, &[])
    }

    /// Says that it succeeded, with nothing to tell.
    pub fn done(self) -> bool {
        self.send(0, &[])
    }

    /// Gives a structure.
    pub fn give<T: IntoBytes + Immutable>(self, what: &T) -> bool {
        self.send(0, what.as_bytes())
    }

    /// Gives bytes.
    pub fn bytes(self, bytes: &[u8]) -> bool {
        self.send(0, bytes)
    }

    /// Gives a structure, or says why not.
    pub fn result<T: IntoBytes + Immutable>(self, result: Result<T, i32>) -> bool {
        match result {
            Ok(what) => self.give(&what),
            Err(errno) => self.error(errno),
        }
    }

    /// Says that it succeeded, or why not.
    pub fn outcome(self, result: Result<(), i32>) -> bool {
        match result {
            Ok(()) => self.done(),
            Err(errno) => self.error(errno),
        }
    }

    fn send(mut self, error: i32, payload: &[u8]) -> bool {
        if !std::mem::take(&mut self.open) || !self.shared.requests.end(self.unique) {
            return false;
        }
        let entry = self.entry.take();
        let more = self.more_to_do;
        answer(&self.shared, entry, self.unique, error, payload, more)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if self.open && self.shared.requests.end(self.unique) {
            let entry = self.entry.take();
            let more = self.more_to_do;
            answer(&self.shared, entry, self.unique, -libc::EIO, &[], more);
        }
    }
}

/// Answers a request, by whichever way it came; for the one that may.
pub(super) fn answer(
    shared: &Arc<Shared>,
    entry: Option<Arc<Entry>>,
    unique: u64,
    error: i32,
    payload: &[u8],
    more_to_do: bool,
) -> bool {
    let Some(entry) = entry else {
        return send(shared, unique, error, &[payload]);
    };
    // SAFETY: only one may answer, and whoever carries the request out is not using the bytes.
    unsafe {
        entry.bytes(payload.len())[..payload.len()].copy_from_slice(payload);
        entry.answer(unique, error, payload.len());
    }
    Rings::answer(shared, entry, unique, more_to_do);
    true
}

/// Writes an answer; false when the kernel no longer wants it.
pub(super) fn send(shared: &Shared, unique: u64, error: i32, payload: &[&[u8]]) -> bool {
    let length: usize = payload.iter().map(|part| part.len()).sum();
    let header = OutHeader {
        len: (size_of::<OutHeader>() + length) as u32,
        error,
        unique,
    };
    let part = |index: usize| IoSlice::new(payload.get(index).copied().unwrap_or_default());
    let slices = [IoSlice::new(header.as_bytes()), part(0), part(1)];
    loop {
        match rustix::io::writev(shared.device.as_fd(), &slices) {
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                if error != rustix::io::Errno::NOENT {
                    tracing::debug!("an answer of {length} bytes: {error}");
                }
                return false;
            }
        }
    }
}

/// Messages from us to the kernel.
#[derive(Debug, Clone)]
pub struct Notifier {
    pub(super) shared: Arc<Shared>,
}

impl Notifier {
    /// Attributes and cached bytes of an inode are old: forget them. `length` 0 means to the end.
    ///
    /// Waits for pages that are being read or written right now, and has changed ones written first, so never
    /// call it from what answers a read or a write of pages. Whoever else does needs a thread of ours for that:
    /// the caller does not count as one meanwhile.
    pub fn forget_data(&self, inode: u64, offset: u64, length: u64) {
        let what = abi::NotifyInvalInode {
            ino: inode,
            off: offset as i64,
            len: length as i64,
        };
        // An inode that the kernel does not know needs no forgetting.
        let tell = || send(&self.shared, 0, abi::NOTIFY_INVAL_INODE, &[what.as_bytes()]);
        waiting_for_kernel(tell);
    }

    /// Attributes of an inode are old: the kernel asks for them again. Waits for nothing.
    pub fn forget_attributes(&self, inode: u64) {
        let what = abi::NotifyInvalInode {
            ino: inode,
            off: -1,
            len: 0,
        };
        send(&self.shared, 0, abi::NOTIFY_INVAL_INODE, &[what.as_bytes()]);
    }

    /// Puts bytes into the kernel's cache of an inode; false when it does not want them.
    ///
    /// Waits for pages that are being read right now, so never call it from what answers a read.
    pub fn store_data(&self, inode: u64, offset: u64, bytes: &[u8]) -> bool {
        let what = abi::NotifyStore {
            nodeid: inode,
            offset,
            size: bytes.len() as u32,
            padding: 0,
        };
        send(
            &self.shared,
            0,
            abi::NOTIFY_STORE,
            &[what.as_bytes(), bytes],
        )
    }
}
