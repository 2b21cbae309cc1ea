//! Where the kernel puts one request at a time and takes its answer from: a page of headers, and room for
//! the bytes of the largest read or write.

use std::fmt;

use zerocopy::{FromBytes, IntoBytes};

use super::super::abi::{InHeader, OutHeader, RingHead};
use super::super::session::{MAX_WRITE, PAGE, SLOT, Slot};

/// Bytes of the fixed arguments of a request, whatever they are.
pub(in super::super) type Arguments = [u8; 128];

/// One place for requests. It belongs to the kernel until a request is there, then to whoever carries that
/// out, and to the kernel again with the answer.
pub(in super::super) struct Entry {
    /// The queue of the kernel that it serves: one for each processor.
    pub queue: u16,
    head: *mut RingHead,
    payload: *mut u8,
    _memory: Slot,
}

// SAFETY: the pointers are to memory that it owns; who may use that is the protocol's matter (see above).
unsafe impl Send for Entry {}
// SAFETY: as above.
unsafe impl Sync for Entry {}

impl fmt::Debug for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "an entry of queue {}", self.queue)
    }
}

impl Entry {
    pub fn new(queue: u16, mut memory: Slot) -> Entry {
        let bytes = memory.bytes();
        assert!(bytes.len() >= SLOT, "a slot holds a request");
        // Of what does not begin on a page the part before the next one is left out.
        let start = bytes.as_ptr().align_offset(PAGE);
        let room = &mut bytes[start..];
        assert!(room.len() >= PAGE + MAX_WRITE, "a slot holds a request");
        let head = room.as_mut_ptr();
        // SAFETY: within `room`.
        let payload = unsafe { head.add(PAGE) };
        Entry {
            queue,
            head: head.cast(),
            payload,
            _memory: memory,
        }
    }

    /// What the kernel is told when it gets to know this place.
    pub fn iovec(&self) -> [libc::iovec; 2] {
        [
            libc::iovec {
                iov_base: self.head.cast(),
                iov_len: size_of::<RingHead>(),
            },
            libc::iovec {
                iov_base: self.payload.cast(),
                iov_len: MAX_WRITE,
            },
        ]
    }

    fn head(&self) -> RingHead {
        // SAFETY: on a page of ours, aligned; any bytes are a head.
        unsafe { self.head.read() }
    }

    /// The request's header, its fixed arguments, and how many bytes follow them.
    pub fn request(&self) -> (InHeader, Arguments, usize) {
        let head = self.head();
        let header = InHeader::read_from_prefix(&head.in_out);
        let header = header.expect("the room is larger").0;
        let length = (head.in_out_size as usize).min(MAX_WRITE);
        (header, head.op_in, length)
    }

    /// The bytes that came with a request, or room for those that go with its answer.
    ///
    /// # Safety
    /// Only between a request and its answer, and by one at a time.
    #[expect(clippy::mut_from_ref, reason = "the memory is not the entry's own")]
    pub unsafe fn bytes(&self, length: usize) -> &mut [u8] {
        // SAFETY: of ours, and the caller is alone with it.
        unsafe { std::slice::from_raw_parts_mut(self.payload, length.min(MAX_WRITE)) }
    }

    /// Puts an answer here whose bytes, `length` of them, are in place.
    ///
    /// # Safety
    /// As for [`Entry::bytes`].
    pub unsafe fn answer(&self, unique: u64, error: i32, length: usize) {
        let mut head = RingHead {
            commit_id: unique,
            in_out_size: length as u32,
            ..RingHead::default()
        };
        let out = OutHeader {
            len: (size_of::<OutHeader>() + length) as u32,
            error,
            unique,
        };
        head.in_out[..size_of::<OutHeader>()].copy_from_slice(out.as_bytes());
        // SAFETY: on a page of ours, and the caller is alone with it.
        unsafe { self.head.write(head) };
    }

    /// The number that the kernel knows the request or its answer by.
    pub fn commit(&self) -> u64 {
        self.head().commit_id
    }
}
