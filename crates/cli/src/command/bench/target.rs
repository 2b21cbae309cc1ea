//! What must hold, and whether it does by what a benchmark has just measured.

use serde::Serialize;

/// One target.
#[derive(Debug, Clone, Serialize)]
pub struct Target {
    /// What must hold.
    pub what: String,
    /// What was measured: the worst case and where it is.
    pub measured: String,
    /// Whether it holds; none if the run did not measure it.
    pub pass: Option<bool>,
    /// Where it does not hold.
    pub misses: Vec<String>,
}

impl Target {
    pub fn verdict(&self) -> &'static str {
        match self.pass {
            Some(true) => "PASS",
            Some(false) => "FAIL",
            None => "not measured",
        }
    }
}

/// Prints targets with their verdicts.
pub fn print(targets: &[Target]) {
    for target in targets {
        println!("{:<12} {}", target.verdict(), target.what);
        println!("{:<12}   {}", "", target.measured);
        for miss in &target.misses {
            println!("{:<12}   below: {miss}", "");
        }
    }
}

/// The same as a table of a page.
pub fn table(targets: &[Target]) -> trireme_lab::Table {
    let mut table = trireme_lab::Table::new("targets", &["target", "verdict", "measured"]);
    for target in targets {
        table.row([target.what.as_str(), target.verdict(), &target.measured]);
    }
    table
}
