//! One file per command; each has its `Args` (what `--help` teaches) and its `run`.

pub mod demo;
pub mod lab;
pub mod serve;
