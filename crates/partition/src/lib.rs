//! The algebra of layouts and views: which owner has which byte of a file.
#![forbid(unsafe_code)]

mod error;

pub use error::Error;
