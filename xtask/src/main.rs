//! Checks on the repository itself; `cargo run -p xtask` runs them all.

fn main() {}
