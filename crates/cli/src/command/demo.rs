//! `trireme demo`: a tour that needs nothing but this binary.

mod algebra;
mod paint;

use paint::Paint;

/// A short tour: what trireme does, drawn in the terminal.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the tour.
pub fn run(_args: &Args) -> anyhow::Result<()> {
    println!("trireme {}\n", env!("CARGO_PKG_VERSION"));
    algebra::show(Paint::for_stdout())
}
