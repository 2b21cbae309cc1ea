//! Analytic models: closed queueing networks that a user writes down, solved in several ways.
//!
//! A [`Network`] has centres (queues, or pure delays) and classes of jobs that circulate among them.
//! [`exact`] gives the mean values by exact multi-class mean value analysis, [`approximate`] by the
//! iterations of Schweitzer and of Bard, [`bounds`] limits that need no solution at all, and
//! [`event`] simulates the same network, also with service times that no analysis covers.

pub mod approximate;
pub mod bounds;
pub mod event;
pub mod exact;
pub mod network;
pub mod solution;

pub use network::{Centre, CentreKind, Class, Network};
pub use solution::Solution;
