//! The lab's ground floor: an event kernel and the models that run on it.
//!
//! Everything is deterministic: time is an integer, simultaneous events keep the order in which
//! they were planned, and every named component draws from its own seeded stream. Nothing here
//! knows a paper or prints a result; that is the `lab` crate's job.

pub mod agenda;
pub mod disk;
pub mod fs;
pub mod machine;
pub mod queueing;
pub mod random;
pub mod replicate;
pub mod statistics;
pub mod time;
pub mod trace;

pub use agenda::Agenda;
pub use random::Stream;
pub use time::Time;
