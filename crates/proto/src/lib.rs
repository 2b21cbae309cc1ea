//! The wire.
pub mod message;
