//! "Disk-directed I/O for MIMD Multiprocessors" (Kotz, PCS-TR94-226, revised November 1994).

pub mod patterns;
pub mod published;
pub mod sensitivity;
pub mod tables;
pub mod two_phase;

/// The paper's title as reports show it.
pub const PAPER: &str = "Disk-directed I/O for MIMD Multiprocessors (Kotz, PCS-TR94-226, 1994)";
