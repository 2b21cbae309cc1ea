//! "User-Level Parallel File I/O" (Wang, Leiss): the nCUBE 2's parallel file system.
//!
//! [`hypercube`] has the machine's routes, [`model`] its queueing network, [`pio`] the event
//! simulation of the paper's transfer algorithm; [`tables`] and [`figures`] are the experiments.

pub mod figures;
pub mod hypercube;
pub mod model;
pub mod pio;
pub mod tables;

/// The paper's title, as reports name it.
const PAPER: &str = "\"User-Level Parallel File I/O\" (Wang, Leiss)";
