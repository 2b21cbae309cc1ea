//! JSON: one object with `cells` (and, beside them, verdicts and whole reports).

use crate::experiment::Report;

/// All reports as one JSON object. `cells` is the flat list that scripts want.
pub fn render(reports: &[Report]) -> String {
    let cells: Vec<_> = reports.iter().flat_map(|report| &report.cells).collect();
    let verdicts: Vec<_> = reports
        .iter()
        .map(|report| {
            serde_json::json!({
                "experiment": report.experiment,
                "ok": report.ok(),
                "verdict": report.verdict(),
                "changed": report.changed,
            })
        })
        .collect();
    let object = serde_json::json!({ "cells": cells, "verdicts": verdicts });
    serde_json::to_string_pretty(&object).expect("strings and finite numbers only")
}
