//! Bodies of requests and replies, one file per group.

pub mod cluster;
pub mod io;
