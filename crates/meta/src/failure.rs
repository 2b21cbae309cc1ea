//! How an operation fails inside the manager; on the wire it becomes a `Refusal`.

use trireme_proto::Refusal;

/// The error numbers that metadata operations give, with Linux' values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Errno {
    Perm = 1,
    NoEnt = 2,
    Io = 5,
    BadF = 9,
    Again = 11,
    Access = 13,
    Busy = 16,
    Exist = 17,
    NotDir = 20,
    IsDir = 21,
    Inval = 22,
    FBig = 27,
    NoSpc = 28,
    RoFs = 30,
    MLink = 31,
    Range = 34,
    Deadlock = 35,
    NameTooLong = 36,
    NotEmpty = 39,
    Loop = 40,
    NoData = 61,
    Proto = 71,
    TooBig = 7,
    NotSup = 95,
    TimedOut = 110,
    Stale = 116,
}

impl Errno {
    /// The number that the system call interface uses.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The reason in words, as `strerror` would say it.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Perm => "operation not permitted",
            Self::NoEnt => "no such file or directory",
            Self::Io => "input/output error",
            Self::BadF => "not an open file of this session",
            Self::Again => "held by somebody else, try again",
            Self::Access => "permission denied",
            Self::Busy => "in use",
            Self::Exist => "exists already",
            Self::NotDir => "not a directory",
            Self::IsDir => "is a directory",
            Self::Inval => "invalid argument",
            Self::FBig => "file too large",
            Self::NoSpc => "no space left on device",
            Self::RoFs => "read-only",
            Self::MLink => "too many links",
            Self::Range => "result too large",
            Self::Deadlock => "would deadlock",
            Self::NameTooLong => "name too long",
            Self::NotEmpty => "directory not empty",
            Self::Loop => "too many symbolic links",
            Self::NoData => "no such attribute",
            Self::Proto => "protocol error",
            Self::TooBig => "argument list too long",
            Self::NotSup => "not supported",
            Self::TimedOut => "timed out",
            Self::Stale => "the file is gone",
        }
    }
}

/// An operation that failed: the number for programs, the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, as a number.
    pub errno: Errno,
    /// What it was about and, where there is one, the remedy.
    pub what: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.what.is_empty() {
            f.write_str(self.errno.reason())
        } else {
            write!(f, "{}: {}", self.what, self.errno.reason())
        }
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Self::new(failure.errno.code(), failure.to_string())
    }
}
