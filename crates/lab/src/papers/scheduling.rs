//! "On evaluating decentralized parallel I/O scheduling strategies for parallel file systems"
//! (Isaila, Singh, Carretero, Garcia), and the schedulers of its related work.
//!
//! [`writes`] simulates the decentralised schedules on the very code the client runs; [`workload`]
//! and [`machine`] are what all schedulers are compared on, [`phases`] executes plans made in
//! advance, [`online`] those that decide as they go; [`law`] and [`compare`] hold the experiments.

pub mod compare;
pub mod law;
pub mod machine;
pub mod online;
pub mod phases;
pub mod workload;
pub mod writes;

/// The paper's title, as reports name it.
const PAPER: &str = "\"On evaluating decentralized parallel I/O scheduling strategies for parallel \
                     file systems\" (Isaila, Singh, Carretero, Garcia)";
