//! The frame header: 64 bytes, little-endian, the same for requests and replies.
//!
//! Parsed by reference, checked once by [`Header::parse`]; nothing after a bad header is read.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::limits;

/// First four bytes of each frame: `TRI` and the frame format's number.
pub const MAGIC: u32 = u32::from_le_bytes(*b"TRI1");

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// What stands before each body and payload. Unused fields are zero.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Header {
    /// [`MAGIC`].
    pub magic: U32,
    /// What is asked; a reply repeats it. See [`Op`].
    pub op: U16,
    /// See [`Flags`].
    pub flags: U16,
    /// Chosen by the asker, repeated in the reply.
    pub id: U64,
    /// Bytes of body after this header.
    pub body: U32,
    /// Bytes of payload after the body.
    pub payload: U32,
    /// Epoch of the cluster map that the request was planned with; 0: not planned with any.
    pub epoch: U32,
    /// How many milliseconds the asker will still wait; 0: unsaid.
    pub patience_ms: U32,
    /// File number.
    pub file: U64,
    /// Offset in the subfile.
    pub offset: U64,
    /// Request: bytes wanted, or a size. Reply: bytes moved, or a size.
    pub length: U64,
    /// Request: the [token](crate::key::Token) of the file. Reply: the server's incarnation.
    pub token: U64,
}

const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

/// What a frame is: bits of [`Header::flags`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u16);

impl Flags {
    /// A reply; without it, a request.
    pub const REPLY: Flags = Flags(1);
    /// A reply whose body is a [`Refusal`](crate::Refusal).
    pub const REFUSED: Flags = Flags(2);
    /// The token grants reading.
    pub const MAY_READ: Flags = Flags(4);
    /// The token grants writing.
    pub const MAY_WRITE: Flags = Flags(8);
    /// The token grants removing.
    pub const MAY_REMOVE: Flags = Flags(16);
    /// The payload lies in the connection's shared memory window; nothing of it is on the socket.
    pub const IN_WINDOW: Flags = Flags(32);
    /// The asker waits for the other members of its group as long as they live; `patience` is for
    /// those of whom the server cannot tell.
    pub const PATIENT: Flags = Flags(64);

    const KNOWN: u16 = 127;

    /// Whether all bits of `other` are set.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// Operation numbers. A number is never given to another operation later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Op(pub u16);

impl Op {
    /// Nothing; shows that the server answers, and its incarnation.
    pub const PING: Op = Op(0x0001);

    /// Bytes of a subfile: `offset`, `length`.
    pub const READ: Op = Op(0x0100);
    /// Bytes into a subfile: `offset`, payload.
    pub const WRITE: Op = Op(0x0101);
    /// Bytes that a view selects; body [`message::io::View`](crate::message::io::View).
    pub const READ_VIEW: Op = Op(0x0102);
    /// Bytes to where a view says; same body, and a payload.
    pub const WRITE_VIEW: Op = Op(0x0103);
    /// Size and times of a subfile.
    pub const STAT: Op = Op(0x0104);
    /// Sets the subfile's size to `length`.
    pub const TRUNCATE: Op = Op(0x0105);
    /// Makes a subfile durable; `length` is the incarnation that the asker wrote to, or 0.
    pub const SYNC: Op = Op(0x0106);
    /// Removes a subfile.
    pub const REMOVE: Op = Op(0x0107);
    /// Space of the server's disks.
    pub const SPACE: Op = Op(0x0108);
    /// A page of the numbers of all subfiles, for fsck.
    pub const LIST: Op = Op(0x0109);
    /// Registers the shared memory window whose descriptor comes with this frame.
    pub const WINDOW: Op = Op(0x010a);
    /// A descriptor of a subfile comes with the answer, on Unix sockets only: for reading if `length` is
    /// 0, else for writing.
    pub const LEND: Op = Op(0x010b);

    /// Reserves, frees or zeroes a range of a subfile; body
    /// [`message::io::Allocate`](crate::message::io::Allocate).
    pub const ALLOCATE: Op = Op(0x0110);
    /// The next data or hole of a subfile from `offset` on, or whether it can reach there; body
    /// [`message::io::Seek`](crate::message::io::Seek), answer in `length`.
    pub const SEEK: Op = Op(0x0111);
    /// Waits for all members of a group; body [`message::group::Join`](crate::message::group::Join).
    pub const JOIN: Op = Op(0x0180);
    /// Lends the connection to the server; body [`message::group::Lane`](crate::message::group::Lane).
    pub const LANE: Op = Op(0x0181);
    /// Exchanges bytes among all members; body [`message::group::Gather`](crate::message::group::Gather).
    pub const GATHER: Op = Op(0x0182);
    /// A disk-directed collective; body
    /// [`message::collective::Collective`](crate::message::collective::Collective).
    pub const COLLECTIVE: Op = Op(0x0183);
    /// Whoever directs a transfer wants bytes of a member's buffer; body: ranges of it.
    pub const MEMGET: Op = Op(0x0184);
    /// Whoever directs a transfer has bytes for a member's buffer; body: ranges of it, and a payload.
    pub const MEMPUT: Op = Op(0x0185);
    /// A collective goes on; sent while a member waits for its end.
    pub const PROGRESS: Op = Op(0x0186);
    /// Which members of a group are gone; body [`message::group::Seat`](crate::message::group::Seat).
    pub const ABSENT: Op = Op(0x0187);

    /// Every request to the manager; body `message::meta::Call`, answered by `message::meta::Reply`.
    pub const META: Op = Op(0x0200);

    /// Whether it leaves all bytes and sizes as they are: when its client gives up another one, it need
    /// not be stopped.
    pub fn is_harmless(self) -> bool {
        matches!(
            self,
            Op::PING
                | Op::READ
                | Op::READ_VIEW
                | Op::STAT
                | Op::SYNC
                | Op::SPACE
                | Op::LIST
                | Op::LEND
                | Op::SEEK
        )
    }

    /// Whether it is a group's: what becomes of it is the concern of all members.
    pub fn is_joint(self) -> bool {
        matches!(self, Op::JOIN | Op::GATHER | Op::COLLECTIVE | Op::ABSENT)
    }
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Not our protocol, or the stream is out of step.
    #[error("frame starts with {0:#010x} instead of {MAGIC:#010x}")]
    Magic(u32),
    /// A body longer than any message.
    #[error("frame announces a body of {0} bytes, the limit is {max}", max = limits::BODY_BYTES)]
    Body(u32),
    /// A payload longer than any transfer.
    #[error("frame announces a payload of {0} bytes, the limit is {max}", max = limits::PAYLOAD_BYTES)]
    Payload(u32),
    /// Flags from another version.
    #[error("frame has unknown flags {0:#06x}")]
    Flags(u16),
}

impl Header {
    /// A request, everything else zero.
    pub fn request(op: Op) -> Header {
        let mut header = Header::new_zeroed();
        header.magic = U32::new(MAGIC);
        header.op = U16::new(op.0);
        header
    }

    /// The reply to `self`, everything else zero.
    pub fn reply(&self) -> Header {
        let mut header = Header::request(self.op());
        header.flags = U16::new(Flags::REPLY.0);
        header.id = self.id;
        header
    }

    /// Checks what must hold of any frame before more is read.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Header, FrameError> {
        let header = Header::read_from_bytes(bytes).expect("sizes are equal");
        header.check()?;
        Ok(header)
    }

    /// The checks of [`Header::parse`], for a header that was received in place.
    pub fn check(&self) -> Result<(), FrameError> {
        if self.magic.get() != MAGIC {
            return Err(FrameError::Magic(self.magic.get()));
        }
        if self.body.get() > limits::BODY_BYTES {
            return Err(FrameError::Body(self.body.get()));
        }
        if self.payload.get() > limits::PAYLOAD_BYTES {
            return Err(FrameError::Payload(self.payload.get()));
        }
        if self.flags.get() & !Flags::KNOWN != 0 {
            return Err(FrameError::Flags(self.flags.get()));
        }
        Ok(())
    }

    /// The operation.
    pub fn op(&self) -> Op {
        Op(self.op.get())
    }

    /// The flags.
    pub fn flags(&self) -> Flags {
        Flags(self.flags.get())
    }

    /// Sets more flags.
    pub fn add_flags(&mut self, flags: Flags) {
        self.flags = U16::new(self.flags.get() | flags.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_survives_the_wire() {
        let mut header = Header::request(Op::READ);
        header.file = U64::new(7);
        header.offset = U64::new(1 << 40);
        let bytes: [u8; HEADER_BYTES] = header.as_bytes().try_into().unwrap();
        assert_eq!(&bytes[..4], b"TRI1");
        assert_eq!(Header::parse(&bytes), Ok(header));
    }

    #[test]
    fn oversized_and_foreign_frames_are_refused_by_name() {
        let mut header = Header::request(Op::READ);
        header.payload = U32::new(limits::PAYLOAD_BYTES + 1);
        assert_eq!(
            header.check(),
            Err(FrameError::Payload(limits::PAYLOAD_BYTES + 1))
        );
        let mut header = Header::request(Op::READ);
        header.body = U32::new(u32::MAX);
        assert_eq!(header.check(), Err(FrameError::Body(u32::MAX)));
        assert!(
            Header::parse(
                b"GET / HTTP/1.1\r\nHost: example\r\nAccept: everything at all please\r\n"[..64]
                    .try_into()
                    .unwrap()
            )
            .is_err()
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes: [u8; 32], more: [u8; 32]) {
            let mut all = [0; HEADER_BYTES];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&more);
            let _ = Header::parse(&all);
            all[..4].copy_from_slice(b"TRI1");
            if let Ok(header) = Header::parse(&all) {
                prop_assert!(header.body.get() <= limits::BODY_BYTES);
                prop_assert!(header.payload.get() <= limits::PAYLOAD_BYTES);
            }
        }
    }
}
