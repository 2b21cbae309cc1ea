//! `trireme demo`: a tour that needs nothing but this binary.

mod algebra;
mod cluster;
mod collective;
mod paint;

use paint::Paint;

/// A short tour: the algebra of layouts, a real cluster that loses a server on the way, and a matrix
/// written and read by four processes together
#[derive(clap::Args)]
pub struct Args {}

const NEXT: &str = "
What to try next
  trireme up --servers 4 --dir /tmp/t --detach     start a cluster that stays
  trireme cp -r DIR trireme:/ ; trireme ls -l /    put something on it
  trireme where /FILE                              see which bytes lie on which server
  trireme bench meta                               measure it beside the local file system
  trireme bench patterns --quick                   collectives, every pattern and method
  trireme lab list                                 the papers' experiments, simulated
  trireme down                                     stop; `up --dir /tmp/t` brings the data back";

/// Runs the tour.
pub fn run(_args: &Args) -> anyhow::Result<()> {
    println!("trireme {}\n", env!("CARGO_PKG_VERSION"));
    algebra::show(Paint::for_stdout())?;
    cluster::show()?;
    println!("{NEXT}");
    Ok(())
}
