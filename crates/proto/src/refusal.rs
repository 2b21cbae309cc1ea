//! How a request fails: an errno that programs match on, and a sentence for people.

use serde::{Deserialize, Serialize};

use crate::limits;

/// A refused or failed request, as it travels in a reply's body.
///
/// `errno` has Linux numbers; they are part of the wire format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Linux error number.
    pub errno: i32,
    /// What went wrong, with which thing, and what to do about it.
    pub message: String,
}

/// Linux error numbers used by servers.
#[allow(missing_docs)]
pub mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const EIO: i32 = 5;
    pub const EAGAIN: i32 = 11;
    pub const ENOMEM: i32 = 12;
    pub const EACCES: i32 = 13;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const EFBIG: i32 = 27;
    pub const ENOSPC: i32 = 28;
    pub const EROFS: i32 = 30;
    pub const EPIPE: i32 = 32;
    pub const ERANGE: i32 = 34;
    pub const EDEADLK: i32 = 35;
    pub const ENAMETOOLONG: i32 = 36;
    pub const ENOTEMPTY: i32 = 39;
    pub const ELOOP: i32 = 40;
    pub const ENODATA: i32 = 61;
    pub const EPROTO: i32 = 71;
    pub const EOPNOTSUPP: i32 = 95;
    pub const ETIMEDOUT: i32 = 110;
    pub const ESTALE: i32 = 116;
}

impl Refusal {
    /// A refusal; over-long sentences are cut.
    pub fn new(errno: i32, message: impl Into<String>) -> Refusal {
        let mut message = message.into();
        if message.len() > limits::REFUSAL_BYTES {
            let mut end = limits::REFUSAL_BYTES;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
        }
        Refusal { errno, message }
    }

    /// The peer does not speak as it should.
    pub fn protocol(message: impl Into<String>) -> Refusal {
        Refusal::new(errno::EPROTO, message)
    }

    /// An operating system error met while doing `what`.
    pub fn io(what: impl std::fmt::Display, error: &std::io::Error) -> Refusal {
        Refusal::new(
            error.raw_os_error().unwrap_or(errno::EIO),
            format!("{what}: {error}"),
        )
    }
}

impl From<Refusal> for std::io::Error {
    fn from(refusal: Refusal) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(refusal.errno).kind();
        std::io::Error::new(kind, refusal)
    }
}
