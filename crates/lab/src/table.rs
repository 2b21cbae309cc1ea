//! A plain table of strings: titles, columns, rows; how it looks is the output's affair.

use serde::Serialize;

/// A table that an experiment wants shown besides its cells.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Table {
    /// What the table shows.
    pub title: String,
    /// The columns' headings.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        Table {
            title: title.into(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: vec![],
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl ToString>) {
        let row: Vec<String> = cells.into_iter().map(|cell| cell.to_string()).collect();
        assert_eq!(
            row.len(),
            self.columns.len(),
            "a row of `{}` has a gap",
            self.title
        );
        self.rows.push(row);
    }
}

/// A number with as many digits as a reader wants: about three significant ones.
pub fn figure(x: f64) -> String {
    match x.abs() {
        _ if !x.is_finite() => "-".into(),
        a if a >= 100.0 && x.fract() == 0.0 => format!("{x:.0}"),
        a if a >= 10.0 => format!("{x:.1}"),
        a if a >= 0.1 || a == 0.0 => format!("{x:.2}"),
        _ => format!("{x:.4}"),
    }
}
