//! What can go wrong between two processes; each message names the peer and the remedy.

use std::time::Duration;

use trireme_proto::frame::FrameError;
use trireme_proto::hello::HelloError;
use trireme_proto::{Refusal, refusal::errno};

/// A failed call.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    /// Nothing answers there.
    #[error(
        "cannot reach {peer}: {source}; is the server running? (`trireme status` shows, `trireme up` starts)"
    )]
    Unreachable {
        /// Who was called.
        peer: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The deadline is over.
    #[error("{peer} did not answer within {} s: it is stopped, overloaded or cut off; try again or raise the deadline", total.as_secs_f64())]
    TimedOut {
        /// Who was called.
        peer: String,
        /// The deadline's length.
        total: Duration,
    },
    /// The connection broke after the request may have been sent.
    #[error("lost the connection to {peer}: {source}")]
    Lost {
        /// Who was called.
        peer: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// No agreement at the start.
    #[error("{peer} refused the connection: {source}")]
    Hello {
        /// Who was called.
        peer: String,
        /// Why.
        source: HelloError,
    },
    /// The peer sent something that is no frame.
    #[error("{peer} does not follow the protocol: {source}")]
    Frame {
        /// Who was called.
        peer: String,
        /// Why.
        source: FrameError,
    },
    /// The server says no.
    #[error("{peer}: {source}")]
    Refused {
        /// Who was called.
        peer: String,
        /// Its answer.
        source: Refusal,
    },
}

impl NetError {
    /// The Linux error number that says it best.
    pub fn errno(&self) -> i32 {
        match self {
            NetError::Refused { source, .. } => source.errno,
            NetError::TimedOut { .. } => errno::ETIMEDOUT,
            NetError::Hello {
                source: HelloError::Key,
                ..
            } => errno::EACCES,
            NetError::Hello { .. } | NetError::Frame { .. } => errno::EPROTO,
            NetError::Unreachable { source, .. } => source.raw_os_error().unwrap_or(errno::EIO),
            NetError::Lost { .. } => errno::EIO,
        }
    }

    /// Whether the same request may succeed a little later on a new connection.
    pub fn passing(&self) -> bool {
        match self {
            NetError::Unreachable { .. } | NetError::Lost { .. } => true,
            NetError::Hello { source, .. } => {
                matches!(source, HelloError::Full | HelloError::Busy)
            }
            _ => false,
        }
    }
}

impl From<NetError> for std::io::Error {
    fn from(error: NetError) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno()).kind();
        std::io::Error::new(kind, error)
    }
}
