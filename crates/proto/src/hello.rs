//! Challenge and answer before the first frame, as pure functions over fixed-size messages.
//!
//! ```text
//! server -> client  Challenge  64 bytes   who am I, a fresh nonce
//! client -> server  Answer    128 bytes   who am I, my nonce, proof over both messages
//! server -> client  Welcome    96 bytes   verdict, proof over everything so far, incarnation
//! ```
//! Both prove that they hold the key; the key is never sent; a recorded hello is useless
//! because the other side's nonce is fresh; each proof is bound to its direction, so it
//! cannot be sent back. Fixed sizes: nothing that a stranger sends decides how much is read.
//! With [`Key::open`] the same steps prove nothing, which is what an open cluster is.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{Key, limits};

/// First bytes of each hello message.
pub const HELLO_MAGIC: u64 = u64::from_le_bytes(*b"TRIREME\n");

/// What a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Metadata manager.
    Manager = 1,
    /// I/O server.
    Io = 2,
}

/// The server's first message.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Challenge {
    magic: U64,
    version: U16,
    role: U16,
    /// The server's number in the cluster.
    pub server: U32,
    nonce: [u8; 32],
    /// Number of the cluster (0: unknown), so that a stale address file is noticed.
    pub cluster: U64,
    reserved: U64,
}

/// The client's answer.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Answer {
    magic: U64,
    version: U16,
    reserved: U16,
    /// User that the client says it acts for; on Unix sockets the kernel's word counts instead.
    pub uid: U32,
    /// Its group.
    pub gid: U32,
    /// Its process, for logs and same-host transfers.
    pub pid: U32,
    nonce: [u8; 32],
    proof: [u8; 32],
    /// Stays the same for all connections of one client, random: names its locks and sessions.
    pub client: U64,
    /// The server ends this client's connections of lower generations before it answers: a request
    /// that the client has given up can then no longer take effect behind its back.
    pub generation: U32,
    reserved2: [u8; 28],
}

/// The server's verdict.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Welcome {
    magic: U64,
    verdict: U32,
    reserved: U32,
    proof: [u8; 32],
    /// Changes whenever the server may have lost bytes that it had acknowledged.
    pub incarnation: U64,
    reserved2: [u8; 40],
}

const _: () = assert!(size_of::<Challenge>() == 64);
const _: () = assert!(size_of::<Answer>() == 128);
const _: () = assert!(size_of::<Welcome>() == 96);

/// Why a hello failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// Some other protocol.
    #[error("the peer does not speak the trireme protocol")]
    Foreign,
    /// Another version of ours.
    #[error("the peer speaks protocol version {0}, this program speaks {ours}: update the older one", ours = limits::VERSION)]
    Version(u16),
    /// The proof is wrong.
    #[error("the peer could not prove that it has this cluster's key: give it the right --key")]
    Key,
    /// The server has no place left.
    #[error("the server has reached its limit of {max} connections: close some", max = limits::CONNECTIONS)]
    Full,
    /// The client's earlier requests are still being worked on.
    #[error("the server is still busy with requests that this client gave up: try again")]
    Busy,
    /// Not the server that was meant.
    #[error(
        "the peer is another server than the cluster map says: the map or address file is stale"
    )]
    Stranger,
}

impl HelloError {
    fn verdict(self) -> u32 {
        match self {
            HelloError::Foreign => 1,
            HelloError::Version(_) => 2,
            HelloError::Key => 3,
            HelloError::Full => 4,
            HelloError::Stranger => 5,
            HelloError::Busy => 6,
        }
    }
}

const CLIENT_PROOF: &str = "trireme hello client";
const SERVER_PROOF: &str = "trireme hello server";

impl Challenge {
    /// The first message of a server; `nonce` must be fresh and random.
    pub fn new(role: Role, server: u32, cluster: u64, nonce: [u8; 32]) -> Challenge {
        Challenge {
            magic: U64::new(HELLO_MAGIC),
            version: U16::new(limits::VERSION),
            role: U16::new(role as u16),
            server: U32::new(server),
            nonce,
            cluster: U64::new(cluster),
            reserved: U64::ZERO,
        }
    }

    /// What the server is, if known to this version.
    pub fn role(&self) -> Option<Role> {
        match self.role.get() {
            1 => Some(Role::Manager),
            2 => Some(Role::Io),
            _ => None,
        }
    }
}

/// Who a client is, for its [`Answer`].
#[derive(Debug, Clone, Copy)]
pub struct Who {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Process.
    pub pid: u32,
    /// Random number of this client.
    pub client: u64,
    /// How many times this client has given up a request to this server.
    pub generation: u32,
}

impl Answer {
    /// The client's answer to `challenge`; `nonce` must be fresh and random.
    pub fn new(
        challenge: &Challenge,
        key: &Key,
        who: Who,
        nonce: [u8; 32],
    ) -> Result<Answer, HelloError> {
        if challenge.magic.get() != HELLO_MAGIC {
            return Err(HelloError::Foreign);
        }
        if challenge.version.get() != limits::VERSION {
            return Err(HelloError::Version(challenge.version.get()));
        }
        let mut answer = Answer {
            magic: U64::new(HELLO_MAGIC),
            version: U16::new(limits::VERSION),
            reserved: U16::ZERO,
            uid: U32::new(who.uid),
            gid: U32::new(who.gid),
            pid: U32::new(who.pid),
            nonce,
            proof: [0; 32],
            client: U64::new(who.client),
            generation: U32::new(who.generation),
            reserved2: [0; 28],
        };
        answer.proof = key.mac(CLIENT_PROOF, &[challenge.as_bytes(), answer.as_bytes()]);
        Ok(answer)
    }

    /// The server's check of a client's answer to its own `challenge`.
    pub fn check(&self, challenge: &Challenge, key: &Key) -> Result<(), HelloError> {
        if self.magic.get() != HELLO_MAGIC {
            return Err(HelloError::Foreign);
        }
        if self.version.get() != limits::VERSION {
            return Err(HelloError::Version(self.version.get()));
        }
        let mut unproved = *self;
        unproved.proof = [0; 32];
        let proof = key.mac(CLIENT_PROOF, &[challenge.as_bytes(), unproved.as_bytes()]);
        if same(&proof, &self.proof) {
            Ok(())
        } else {
            Err(HelloError::Key)
        }
    }
}

impl Welcome {
    /// The server's verdict on an answer that it checked.
    pub fn new(challenge: &Challenge, answer: &Answer, key: &Key, incarnation: u64) -> Welcome {
        let mut welcome = Welcome::refuse(HelloError::Foreign);
        welcome.verdict = U32::ZERO;
        welcome.incarnation = U64::new(incarnation);
        welcome.proof = welcome.proof(challenge, answer, key);
        welcome
    }

    /// A refusal. It proves nothing and says little.
    pub fn refuse(error: HelloError) -> Welcome {
        Welcome {
            magic: U64::new(HELLO_MAGIC),
            verdict: U32::new(error.verdict()),
            reserved: U32::ZERO,
            proof: [0; 32],
            incarnation: U64::ZERO,
            reserved2: [0; 40],
        }
    }

    /// The client's check of the server's verdict.
    pub fn check(
        &self,
        challenge: &Challenge,
        answer: &Answer,
        key: &Key,
    ) -> Result<(), HelloError> {
        if self.magic.get() != HELLO_MAGIC {
            return Err(HelloError::Foreign);
        }
        match self.verdict.get() {
            0 if same(&self.proof, &self.proof(challenge, answer, key)) => Ok(()),
            0 | 3 => Err(HelloError::Key),
            2 => Err(HelloError::Version(challenge.version.get())),
            4 => Err(HelloError::Full),
            6 => Err(HelloError::Busy),
            _ => Err(HelloError::Foreign),
        }
    }

    fn proof(&self, challenge: &Challenge, answer: &Answer, key: &Key) -> [u8; 32] {
        let mut unproved = *self;
        unproved.proof = [0; 32];
        key.mac(
            SERVER_PROOF,
            &[challenge.as_bytes(), answer.as_bytes(), unproved.as_bytes()],
        )
    }
}

/// Compares without telling by its time where the first difference is.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    blake3::Hash::from_bytes(*a) == blake3::Hash::from_bytes(*b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Who = Who {
        uid: 1000,
        gid: 100,
        pid: 42,
        client: 7,
        generation: 0,
    };

    #[test]
    fn both_sides_prove_the_key() {
        let key = Key::new([9; 32]);
        let challenge = Challenge::new(Role::Io, 3, 1, [1; 32]);
        let answer = Answer::new(&challenge, &key, WHO, [2; 32]).unwrap();
        answer.check(&challenge, &key).unwrap();
        let welcome = Welcome::new(&challenge, &answer, &key, 77);
        welcome.check(&challenge, &answer, &key).unwrap();
        assert_eq!(welcome.incarnation.get(), 77);
    }

    #[test]
    fn a_wrong_key_is_noticed_by_either_side() {
        let (right, wrong) = (Key::new([9; 32]), Key::open());
        let challenge = Challenge::new(Role::Io, 3, 1, [1; 32]);
        let answer = Answer::new(&challenge, &wrong, WHO, [2; 32]).unwrap();
        assert_eq!(answer.check(&challenge, &right), Err(HelloError::Key));
        let welcome = Welcome::new(&challenge, &answer, &wrong, 0);
        assert_eq!(
            welcome.check(&challenge, &answer, &right),
            Err(HelloError::Key)
        );
    }

    #[test]
    fn a_recorded_answer_is_useless_against_a_fresh_challenge() {
        let key = Key::new([9; 32]);
        let old = Challenge::new(Role::Io, 3, 1, [1; 32]);
        let answer = Answer::new(&old, &key, WHO, [2; 32]).unwrap();
        let fresh = Challenge::new(Role::Io, 3, 1, [8; 32]);
        assert_eq!(answer.check(&fresh, &key), Err(HelloError::Key));
    }

    #[test]
    fn a_changed_user_breaks_the_proof() {
        let key = Key::new([9; 32]);
        let challenge = Challenge::new(Role::Manager, 0, 1, [1; 32]);
        let mut answer = Answer::new(&challenge, &key, WHO, [2; 32]).unwrap();
        answer.uid = U32::new(0);
        assert_eq!(answer.check(&challenge, &key), Err(HelloError::Key));
    }
}
