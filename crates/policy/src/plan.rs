//! Plans of collective operations: which blocks in which order, and who gets what of each.
//!
//! A plan is derived from partitions alone. The disk-directed method visits blocks in an order
//! that suits the disk and moves each member's share; the independent method turns a member's
//! part into requests of at most one block; the two-phase method first moves data in a
//! distribution that conforms to the file and then exchanges it among the members.

mod directed;
mod independent;
mod two_phase;

pub use directed::{Share, Step, disk_directed, shares};
pub use independent::{Request, requests};
pub use two_phase::{Conforming, Exchange, exchange};
