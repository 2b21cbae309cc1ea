//! Bodies of requests and replies, one file per group: `io` for I/O servers, `meta` for the manager.

pub mod io;
pub mod meta;
