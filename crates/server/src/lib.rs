//! Daemons: each wires engines into one process. They run as `trireme serve ...`, or
//! embedded in any process.

pub mod descriptors;
pub mod io;
pub mod meta;
pub mod signal;

pub use trireme_store as store;
