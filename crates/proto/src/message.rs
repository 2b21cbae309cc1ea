//! Bodies of requests and replies, one file per kind: `io` for I/O servers, `group` and `collective` for
//! processes that work together, `meta` for the manager.

pub mod collective;
pub mod group;
pub mod io;
pub mod meta;
