//! trireme as a mounted POSIX file system, through FUSE.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let cluster = trireme::Cluster::find()?;
//! let mount = trireme_fuse::Mount::start(&cluster, "/mnt".as_ref(), trireme_fuse::Options::default())?;
//! mount.wait(); // until somebody unmounts it
//! # Ok(()) }
//! ```
//!
//! | module | owns |
//! |---|---|
//! | [`kernel`] | the kernel's protocol: structures, device, threads, interrupts |
//! | `fs` | what each request means, one file per group of them; a translation to the client library |
//! | `buffer` | memory that bytes pass through, one for each thread |
//! | [`bare`] | a file system that passes everything on to a local directory: what FUSE itself costs |
//!
//! What a mount promises, and what it does not support, is in `docs/mount.md`.

pub mod bare;
mod buffer;
mod fs;
pub mod kernel;
mod mount;

pub use mount::{Mount, Options};
