//! CSV: one line per cell, the columns of the JSON output.

use crate::experiment::Report;

/// All cells as CSV with a heading.
pub fn render(reports: &[Report]) -> String {
    let mut text = "experiment,cell,published,simulated,error,class,calibrated,ok\n".to_string();
    let optional = |x: Option<f64>| x.map_or_else(String::new, |x| x.to_string());
    for cell in reports.iter().flat_map(|report| &report.cells) {
        text += &format!(
            "{},{},{},{},{},{},{},{}\n",
            quote(&cell.experiment),
            quote(&cell.cell),
            optional(cell.published),
            cell.simulated,
            optional(cell.error),
            cell.class.letter(),
            cell.calibrated,
            cell.ok
        );
    }
    text
}

fn quote(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Cell, Class};

    #[test]
    fn one_line_per_cell_with_quotes_where_needed() {
        let cells = vec![Cell::new("a, b", 2.0, 3.0, Class::L), Cell::ours("c", 1.5)];
        let text = render(&[Report {
            cells,
            ..Report::default()
        }]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], ",\"a, b\",2,3,0.5,L,false,false");
        assert_eq!(lines[2], ",c,,1.5,,S,false,true");
    }
}
