//! "Performance Evaluation of a Parallel I/O Architecture" (Baylor, Benveniste, Hsu): PIOS.
//!
//! [`topology`] wires switches as data, [`traffic`] makes or reads traces, [`io_node`] models an I/O
//! node, [`network`] simulates packets through the switches and puts it all together, [`load`] has
//! the paper's arithmetic; [`study`] runs points, [`figures`] holds the experiments.

pub mod figures;
pub mod io_node;
pub mod load;
pub mod network;
pub mod study;
pub mod topology;
pub mod traffic;

pub use trireme_sim::statistics::Tally;
pub use trireme_sim::time::Time;

/// The paper's title, as reports name it.
const PAPER: &str =
    "\"Performance Evaluation of a Parallel I/O Architecture\" (Baylor, Benveniste, Hsu)";
