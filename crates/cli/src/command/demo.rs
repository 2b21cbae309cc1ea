//! `trireme demo`: a tour that needs nothing but this binary.

/// A short tour: what trireme does, drawn in the terminal.
#[derive(clap::Args)]
pub struct Args {}

/// Runs the tour.
pub fn run(_args: &Args) -> anyhow::Result<()> {
    println!("trireme {}", env!("CARGO_PKG_VERSION"));
    Ok(())
}
