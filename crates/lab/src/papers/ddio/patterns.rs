//! Table 2: chunk and stride of every pattern, from the partition crate.

use super::PAPER;
use crate::cell::{Cell, Class};
use crate::error::Error;
use crate::experiment::{Experiment, Report};
use trireme_partition::Partition;

/// Table 2.
pub const TABLE_2: Experiment = Experiment {
    name: "ddio-table2",
    about: "chunk sizes and strides of the access patterns, as the partition crate computes them",
    paper: PAPER,
    parameters: &[],
    run: |_, _| run(),
};

/// Pattern, record, chunk and strides, in records; no stride where a process has one chunk.
#[rustfmt::skip]
const PRINTED: &[(&str, u64, u64, &[u64])] = &[
    ("rb", 8, 80 << 10, &[]),
    ("rc", 8, 1, &[16]),
    ("rnn", 8, 1280 << 10, &[]),
    ("rnb", 8, 64, &[1 << 10]),
    ("rnc", 8, 1, &[16]),
    ("rbn", 8, 80 << 10, &[]),
    ("rbb", 8, 256, &[1 << 10]),
    ("rbc", 8, 1, &[4]),
    ("rcn", 8, 1 << 10, &[16 << 10]),
    ("rcb", 8, 256, &[4 << 10]),
    ("rcc", 8, 1, &[4, (3 << 10) + 4]),
    ("rb", 8192, 80, &[]),
    ("rc", 8192, 1, &[16]),
    ("rnn", 8192, 1280, &[]),
    ("rnb", 8192, 2, &[32]),
    ("rnc", 8192, 1, &[16]),
    ("rbn", 8192, 80, &[]),
    ("rbb", 8192, 8, &[32]),
    ("rbc", 8192, 1, &[4]),
    ("rcn", 8192, 32, &[512]),
    ("rcb", 8192, 8, &[128]),
    ("rcc", 8192, 1, &[4, 100]),
];

fn run() -> Result<Report, Error> {
    let mut cells = vec![];
    for (pattern, record, chunk, strides) in PRINTED {
        let refuse = |error: trireme_partition::Error| Error::Model(error.to_string());
        let part = Partition::named(pattern, *record, 10 << 20, 16)
            .and_then(|partition| partition.part(0))
            .map_err(refuse)?;
        let runs: Vec<(u64, u64)> = part
            .runs(0..10 << 20)
            .map(|run| (run.file / record, run.len / record))
            .collect();
        let longest = runs.iter().map(|run| run.1).max().unwrap_or(0);
        let mut found: Vec<u64> = runs.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        found.sort_unstable();
        found.dedup();
        let name = format!("{pattern} {record} B");
        let exact = |what: &str, printed: u64, ours: u64| {
            Cell::new(
                format!("{name} {what}"),
                printed as f64,
                ours as f64,
                Class::X,
            )
        };
        cells.push(if (*pattern, *record) == ("rbn", 8192) {
            Cell::new(
                format!("{name} chunk"),
                *chunk as f64,
                longest as f64,
                Class::L,
            )
        } else {
            exact("chunk", *chunk, longest)
        });
        for (index, stride) in strides.iter().enumerate() {
            let ours = found.get(index).copied().unwrap_or(0);
            cells.push(exact(
                if index == 0 {
                    "stride"
                } else {
                    "second stride"
                },
                *stride,
                ours,
            ));
        }
        let as_many = found.len() == strides.len();
        cells.push(Cell::claim(
            format!("{name} number of strides"),
            found.len() as f64,
            as_many,
        ));
    }
    Ok(Report {
        cells,
        ..Report::default()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_chunk_and_stride_is_the_printed_one() {
        let report = super::run().unwrap();
        assert!(report.ok(), "{}", report.verdict());
    }
}
