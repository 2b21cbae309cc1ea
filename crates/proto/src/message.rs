//! Messages.
pub mod meta;
