//! The trireme client library.

pub mod namespace;
