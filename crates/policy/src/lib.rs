//! Decisions of the file system, as pure code: event in, decision out.
//!
//! Nothing here owns a clock, a thread, a file or a random generator; whoever needs chance
//! passes it in. The running servers and the lab's simulated machines drive the same code.
#![forbid(unsafe_code)]

pub mod cache;
pub mod plan;
pub mod random;
pub mod schedule;
pub mod transfer;
