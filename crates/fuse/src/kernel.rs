//! The kernel's side of FUSE: its structures, its device, the request loop. Knows nothing of trireme.
//!
//! Why not a ready-made crate: those that were looked at (fuser 0.18 among them) answer
//! `FUSE_INTERRUPT` with ENOSYS, after which nobody can be got out of a lock or a dead server's
//! file by a signal; and they own the buffer that requests are read into, while here the data of a
//! write must land in memory that the I/O servers read by themselves.

pub mod abi;
mod abort;
mod backing;
pub mod device;
mod permit;
pub mod request;
mod ring;
pub mod session;
mod signal;
mod watch;
mod working;

pub use abort::AbortSwitch;
pub use backing::{Backing, times_tell_all};
pub use device::{Device, MountOptions, READ_AHEAD, remount, set_read_ahead, unmount};
pub use permit::Permit;
pub use request::{Notifier, Reply, Request, split_name};
pub use session::{FileSystem, MAX_WRITE, SLOT, Session, THREADS, waiting_for_kernel};
