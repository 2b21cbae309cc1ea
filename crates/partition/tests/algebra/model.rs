//! The brute-force model: a part is the list of its file offsets, one entry per byte, in view order.

use std::collections::BTreeMap;
use std::ops::Range;
use trireme_partition::Run;

/// One owner's bytes: `offsets[view]` is the file offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub offsets: Vec<u64>,
}

impl Model {
    /// `None` if a byte lies before the file or is there twice.
    pub fn new(offsets: &[i64]) -> Option<Self> {
        let offsets: Vec<u64> = offsets
            .iter()
            .map(|&o| u64::try_from(o).ok())
            .collect::<Option<_>>()?;
        let distinct: std::collections::BTreeSet<_> = offsets.iter().collect();
        (distinct.len() == offsets.len()).then_some(Self { offsets })
    }

    /// File offset to view offset.
    pub fn by_file(&self) -> BTreeMap<u64, u64> {
        self.offsets
            .iter()
            .enumerate()
            .map(|(view, &file)| (file, view as u64))
            .collect()
    }

    /// One past the last file offset.
    pub fn end(&self) -> u64 {
        self.offsets.iter().max().map_or(0, |&last| last + 1)
    }

    /// Maximal runs in a range.
    pub fn runs(&self, range: Range<u64>) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (file, view) in self.by_file() {
            if !range.contains(&file) {
                continue;
            }
            match runs.last_mut() {
                Some(run) if run.file + run.len == file && run.view + run.len == view => {
                    run.len += 1;
                }
                _ => runs.push(Run { file, view, len: 1 }),
            }
        }
        runs
    }
}
