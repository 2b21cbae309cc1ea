//! The decisions: pure code, no clock, no I/O, randomness as an argument.
//!
//! The running system and the lab drive the same state machines, so that what is simulated is what
//! runs.
#![forbid(unsafe_code)]

pub mod random;
pub mod schedule;
pub mod transfer;
