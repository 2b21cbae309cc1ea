//! Why a partition was refused: each error names the number that is wrong, and why.

/// A refused partition, part or operation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An argument has a value for which no partition exists.
    #[error("{what} is {value}: {why}")]
    Invalid {
        /// The argument's name, as the caller knows it.
        what: &'static str,
        /// Its value.
        value: i128,
        /// Why it cannot be.
        why: &'static str,
    },
    /// Two numbers that must agree do not.
    #[error("{what} is {value} but {with} is {other}: {why}")]
    Mismatch {
        /// The first argument's name.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The second argument's name.
        with: &'static str,
        /// Its value.
        other: u64,
        /// Why they must agree.
        why: &'static str,
    },
    /// An offset or size does not fit a file of 2^63 bytes.
    #[error("{what} does not fit: a file ends at 2^63 bytes")]
    Overflow {
        /// What was being computed.
        what: &'static str,
    },
    /// A pattern places a byte of the file twice.
    #[error(
        "the pattern places file offset {offset} (relative to its start) twice: \
         a {what} of {value} bytes is too small"
    )]
    Overlap {
        /// Which number makes the bytes collide.
        what: &'static str,
        /// Its value.
        value: i64,
        /// The first offset that collides, relative to the pattern's first byte.
        offset: u64,
    },
    /// An interleaving without a regular description has too many pieces to list.
    #[error(
        "the pattern interleaves irregularly and would need a list of {pieces} pieces; \
         at most {limit} are listed: describe it with nested strides instead"
    )]
    TooIrregular {
        /// Pieces that it would need.
        pieces: u64,
        /// The limit, [`crate::MAX_LISTED`].
        limit: u64,
    },
    /// Nesting deeper than [`crate::MAX_DEPTH`].
    #[error("the pattern is nested {depth} deep; at most {limit} levels are allowed")]
    TooDeep {
        /// The depth asked for.
        depth: usize,
        /// The limit, [`crate::MAX_DEPTH`].
        limit: usize,
    },
    /// A part number that the partition does not have.
    #[error("part {part} does not exist: the partition has parts 0 to {}", .parts.saturating_sub(1))]
    NoSuchPart {
        /// The number asked for.
        part: u32,
        /// How many parts there are.
        parts: u32,
    },
    /// A pattern name or a text that nobody taught us.
    #[error("'{text}' is not a partition: {why}")]
    Text {
        /// What was read.
        text: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// An encoded partition that cannot be one.
    #[error("encoded partition refused at byte {at}: {why}")]
    Encoding {
        /// Where in the input.
        at: usize,
        /// What is wrong there.
        why: &'static str,
    },
}

impl Error {
    /// Shorthand for [`Error::Invalid`].
    pub(crate) fn invalid(what: &'static str, value: impl Into<i128>, why: &'static str) -> Self {
        Self::Invalid {
            what,
            value: value.into(),
            why,
        }
    }

    /// Shorthand for [`Error::Overflow`], as a closure-free `ok_or`.
    pub(crate) fn overflow(what: &'static str) -> Self {
        Self::Overflow { what }
    }
}
