//! File systems on the simulated machine, and the scenario that one run is made of.
//!
//! Plans, cache rules and the division of bytes come from the `policy` and `partition` crates;
//! this module only turns their decisions into messages, processor work and disk requests.

mod caching;
mod clients;
mod costs;
mod directed;
mod disk_queue;
mod layout;
mod scenario;
mod traditional;

pub use costs::Costs;
pub use layout::Layout;
pub use scenario::{Availability, Method, Outcome, Phase, Scenario, ScenarioError};
