//! Checks on the repository itself: who depends on whom, and that it stays tidy.
//!
//! `cargo run -p xtask` runs them all and names every offence; `./test` calls it.

mod layers;
mod tidy;

use std::path::Path;

fn main() -> anyhow::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the repository");
    let mut offences = layers::check(root)?;
    offences.extend(tidy::check(root)?);
    for offence in &offences {
        eprintln!("{offence}");
    }
    if !offences.is_empty() {
        std::process::exit(1);
    }
    println!("layers and tidiness: nothing to complain about");
    Ok(())
}
