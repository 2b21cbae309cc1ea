//! The lab: named experiments that reproduce published results on simulated machines.
//!
//! An [`Experiment`] turns [`Settings`] into a [`Report`]: cells (a published number beside its
//! simulated twin), tables, charts and prose. The registry lists them; [`output`] prints them as
//! text, JSON, CSV and one HTML page. Models live in the `sim` crate, decisions in `policy`.

pub mod advise;
pub mod bench;
pub mod cell;
pub mod chart;
pub mod error;
pub mod experiment;
pub mod machine;
pub mod output;
pub mod papers;
pub mod parameter;
pub mod progress;
pub mod queueing;
pub mod registry;
pub mod study;
pub mod table;
pub mod user;

pub use cell::{Cell, Class};
pub use chart::Chart;
pub use error::Error;
pub use experiment::{Experiment, Report};
pub use parameter::{Parameter, Settings};
pub use progress::Progress;
pub use table::Table;
