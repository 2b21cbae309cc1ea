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
}
