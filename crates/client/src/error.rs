//! Why a call failed; every error has an errno for programs and a sentence for people.

use std::path::PathBuf;

use trireme_net::NetError;
use trireme_proto::refusal::errno;

/// A failed call.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something between this process and a server, or the server's own answer.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The same, of a call on a named file.
    #[error("{}", describe(path, source))]
    At {
        /// Which file.
        path: String,
        /// What happened.
        source: NetError,
    },
    /// No cluster is known.
    #[error(
        "no cluster found: start one with `trireme up`, or name one with --cluster or TRIREME_CLUSTER ({why})"
    )]
    NoCluster {
        /// Where it was looked for.
        why: String,
    },
    /// An address file that cannot be used.
    #[error("{path}: {why}", path = path.display())]
    Descriptor {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// An I/O server that the cluster map does not have.
    #[error(
        "I/O server {0} holds a part of the file but is not in the cluster map: start it (`trireme status`)"
    )]
    NoServer(u32),
    /// An argument that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Beyond the end of the largest file.
    #[error("{0}")]
    TooLarge(String),
    /// A partition that makes no sense.
    #[error(transparent)]
    Partition(#[from] trireme_partition::Error),
    /// This machine's word on something local.
    #[error("{what}: {source}")]
    Local {
        /// What was tried.
        what: String,
        /// What came back.
        source: std::io::Error,
    },
}

impl Error {
    /// The Linux error number that says it best.
    pub fn errno(&self) -> i32 {
        match self {
            Error::Net(error) | Error::At { source: error, .. } => error.errno(),
            Error::NoCluster { .. } | Error::Descriptor { .. } => errno::ENOENT,
            Error::NoServer(_) => errno::EIO,
            Error::Invalid(_) | Error::Partition(_) => errno::EINVAL,
            Error::TooLarge(_) => errno::EFBIG,
            Error::Local { source, .. } => source.raw_os_error().unwrap_or(errno::EIO),
        }
    }

    pub(crate) fn local(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
        let what = what.into();
        move |source| Error::Local { what, source }
    }
}

/// A refusal is about the file, whoever refused: "/a/b: no such file or directory". The rest is about
/// a server.
fn describe(path: &str, source: &NetError) -> String {
    let NetError::Refused { source, .. } = source else {
        return format!("{path}: {source}");
    };
    let last = path.rsplit('/').next().unwrap_or(path);
    let message = source.message.as_str();
    let reason = [path, last]
        .iter()
        .find_map(|name| message.strip_prefix(name)?.strip_prefix(": "))
        .unwrap_or(message);
    format!("{path}: {reason}")
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> std::io::Error {
        let kind = std::io::Error::from_raw_os_error(error.errno()).kind();
        std::io::Error::new(kind, error)
    }
}
