//! The numbers that the paper printed, and how near we expect to come.

use crate::cell::Class;
use trireme_sim::fs::{Layout, Method, Scenario};

/// One printed throughput.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Printed {
    /// The layout, and so the table.
    pub layout: Layout,
    /// The file system.
    pub method: Method,
    /// The pattern's short name.
    pub pattern: &'static str,
    /// Bytes of a record.
    pub record: u64,
    /// MB/s.
    pub throughput: f64,
}

/// Table 3: random-blocks layout. Pattern, then TC, DD, DDs for 8-byte and for 8192-byte records
/// (0 where the paper has a dash: these patterns do not depend on the record size).
#[rustfmt::skip]
const TABLE_3: [(&str, [f64; 3], [f64; 3]); 19] = [
    ("ra", [0.0, 0.0, 0.0], [66.7, 70.7, 99.8]),
    ("rn", [0.0, 0.0, 0.0], [4.3, 4.4, 6.2]),
    ("rb", [3.8, 4.4, 6.2], [3.8, 4.4, 6.2]),
    ("rc", [2.1, 4.4, 6.2], [4.4, 4.4, 6.2]),
    ("rnb", [3.3, 4.4, 6.2], [4.4, 4.4, 6.2]),
    ("rbb", [3.7, 4.4, 6.2], [4.3, 4.4, 6.2]),
    ("rcb", [4.1, 4.4, 6.2], [4.5, 4.4, 6.2]),
    ("rbc", [2.0, 4.4, 6.2], [4.2, 4.4, 6.2]),
    ("rcc", [2.3, 4.4, 6.2], [4.2, 4.4, 6.2]),
    ("rcn", [4.4, 4.4, 6.2], [3.9, 4.4, 6.2]),
    ("wn", [0.0, 0.0, 0.0], [4.9, 4.9, 7.4]),
    ("wb", [5.0, 5.0, 7.5], [5.0, 5.0, 7.5]),
    ("wc", [1.4, 5.0, 7.4], [4.9, 5.0, 7.5]),
    ("wnb", [4.9, 5.0, 7.5], [4.9, 5.0, 7.5]),
    ("wbb", [4.9, 5.0, 7.5], [4.9, 5.0, 7.5]),
    ("wcb", [4.9, 5.0, 7.5], [5.0, 5.0, 7.5]),
    ("wbc", [0.7, 5.0, 7.4], [4.9, 5.0, 7.5]),
    ("wcc", [1.5, 5.0, 7.4], [5.0, 5.0, 7.5]),
    ("wcn", [4.9, 5.0, 7.5], [5.0, 5.0, 7.5]),
];

/// Table 4: contiguous layout. Pattern, then TC, DD for 8-byte and for 8192-byte records.
#[rustfmt::skip]
const TABLE_4: [(&str, [f64; 2], [f64; 2]); 19] = [
    ("ra", [0.0, 0.0], [469.1, 522.9]),
    ("rn", [0.0, 0.0], [31.4, 32.7]),
    ("rb", [5.6, 32.8], [5.6, 32.8]),
    ("rc", [2.6, 19.3], [31.4, 32.8]),
    ("rnb", [18.4, 32.8], [31.4, 32.7]),
    ("rbb", [6.2, 32.8], [8.3, 32.8]),
    ("rcb", [27.6, 32.8], [10.5, 32.8]),
    ("rbc", [2.0, 15.9], [6.6, 32.8]),
    ("rcc", [2.4, 16.2], [10.1, 32.8]),
    ("rcn", [31.4, 32.8], [6.7, 32.7]),
    ("wn", [0.0, 0.0], [31.6, 31.4]),
    ("wb", [9.6, 34.8], [9.6, 34.8]),
    ("wc", [1.4, 17.2], [31.6, 34.8]),
    ("wnb", [31.6, 34.8], [8.7, 34.8]),
    ("wbb", [9.1, 34.8], [9.4, 34.8]),
    ("wcb", [31.6, 34.8], [10.0, 34.8]),
    ("wbc", [0.8, 13.7], [7.8, 34.8]),
    ("wcc", [1.5, 13.7], [9.5, 34.8]),
    ("wcn", [31.6, 34.8], [10.3, 34.7]),
];

/// The 19 patterns in the order of the tables.
pub fn patterns() -> impl Iterator<Item = &'static str> {
    TABLE_4.iter().map(|(pattern, ..)| *pattern)
}

/// All 105 cells of Table 3.
pub fn table_3() -> Vec<Printed> {
    let methods = [
        Method::Traditional,
        Method::Directed,
        Method::DirectedSorted,
    ];
    let mut cells = vec![];
    for (pattern, small, large) in &TABLE_3 {
        for (record, values) in [(8, small), (8192, large)] {
            for (method, throughput) in methods.into_iter().zip(*values) {
                let layout = Layout::RandomBlocks;
                cells.push(Printed {
                    layout,
                    method,
                    pattern,
                    record,
                    throughput,
                });
            }
        }
    }
    cells.retain(|cell| cell.throughput > 0.0);
    cells
}

/// All 70 cells of Table 4.
pub fn table_4() -> Vec<Printed> {
    let methods = [Method::Traditional, Method::Directed];
    let mut cells = vec![];
    for (pattern, small, large) in &TABLE_4 {
        for (record, values) in [(8, small), (8192, large)] {
            for (method, throughput) in methods.into_iter().zip(*values) {
                let layout = Layout::Contiguous;
                cells.push(Printed {
                    layout,
                    method,
                    pattern,
                    record,
                    throughput,
                });
            }
        }
    }
    cells.retain(|cell| cell.throughput > 0.0);
    cells
}

impl Printed {
    /// The scenario of this cell on a given machine.
    pub fn scenario(&self, base: &Scenario) -> Scenario {
        Scenario {
            method: self.method,
            pattern: self.pattern.into(),
            record: self.record,
            layout: self.layout,
            ..base.clone()
        }
    }

    /// The cell's name in tables and JSON.
    pub fn name(&self) -> String {
        format!("{} {} {} B", self.method_name(), self.pattern, self.record)
    }

    /// The paper's abbreviation of the method.
    pub fn method_name(&self) -> &'static str {
        match self.method {
            Method::Traditional => "TC",
            Method::Directed => "DD",
            Method::DirectedSorted => "DDs",
            Method::TwoPhase(_) => "2P",
        }
    }

    /// Whether the pattern deals single 8-byte records round the processors.
    pub fn fine_grained(&self) -> bool {
        self.record == 8 && self.pattern.ends_with('c')
    }

    /// Whether the disks alone decide: the cells that must come within 3 %.
    pub fn disk_bound(&self) -> bool {
        let random_directed =
            self.layout == Layout::RandomBlocks && self.method != Method::Traditional;
        let streaming = self.layout == Layout::Contiguous
            && self.method == Method::Directed
            && !self.fine_grained()
            && self.pattern != "wn";
        random_directed || streaming
    }

    /// The tolerance class, and the tolerance where it differs from the class's.
    pub fn class(&self) -> (Class, f64) {
        let traditional = self.method == Method::Traditional;
        let contiguous = self.layout == Layout::Contiguous;
        let loose = traditional && self.fine_grained()
            || contiguous
                && traditional
                && self.record == 8192
                && ["rcb", "rcc", "wnb", "wcb"].contains(&self.pattern)
            || contiguous && traditional && self.record == 8 && self.pattern == "wbb"
            || contiguous && self.method == Method::Directed && self.pattern == "wn";
        match () {
            () if self.disk_bound() => (Class::T, 0.03),
            () if loose && (contiguous || self.pattern.starts_with('w')) => (Class::L, 0.30),
            () if contiguous && traditional && self.pattern == "ra" => (Class::L, 0.12),
            () if contiguous && traditional => (Class::M, 0.12),
            () => (Class::M, 0.10),
        }
    }

    /// Whether a constant of the model was fitted on this cell.
    pub fn calibrated(&self) -> bool {
        let fitted: &[(Method, &str, u64)] = &[
            (Method::Traditional, "rc", 8),
            (Method::Traditional, "rcc", 8),
            (Method::Traditional, "wcc", 8),
            (Method::Directed, "rc", 8),
            (Method::Directed, "rbc", 8),
            (Method::Directed, "wc", 8),
            (Method::Directed, "wbc", 8),
            (Method::Directed, "wb", 8192),
        ];
        self.layout == Layout::Contiguous
            && fitted.contains(&(self.method, self.pattern, self.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_175_cells() {
        assert_eq!(table_3().len(), 105);
        assert_eq!(table_4().len(), 70);
        assert_eq!(table_4().iter().filter(|cell| cell.calibrated()).count(), 8);
        assert_eq!(patterns().count(), 19);
    }
}
