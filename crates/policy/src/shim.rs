//! TEMPORARY stand-in for the partition crate's named patterns.
#![allow(missing_docs)]
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub file: u64,
    pub view: u64,
    pub len: u64,
}

#[derive(Clone)]
pub struct Part {
    runs: std::sync::Arc<Vec<Run>>,
}

pub struct Partition {
    parts: Vec<Part>,
}

impl Partition {
    pub fn named(name: &str, record: u64, file: u64, p: u32) -> Result<Partition, String> {
        let p = u64::from(p);
        let n = file / record;
        let letters: Vec<char> = name.chars().skip(1).collect();
        let side = (p as f64).sqrt() as u64;
        let (rows, cols) = match record {
            8 => (1280 * (file >> 20) / 10, 1024),
            8192 => (40 * (file >> 20) / 10, 32),
            _ => (n / 32, 32),
        };
        let dist = |d: char, i: u64, n: u64, p: u64| match d {
            'n' => 0,
            'b' => i / n.div_ceil(p),
            _ => i % p,
        };
        let mut runs: Vec<Vec<Run>> = vec![vec![]; p as usize];
        for r in 0..n {
            let owner = match letters[..] {
                ['a'] => {
                    continue;
                }
                [d] => dist(d, r, n, p),
                [a, b] => {
                    let (i, j) = (r / cols, r % cols);
                    let (pr, pc) = match (a, b) {
                        ('n', _) => (1, p),
                        (_, 'n') => (p, 1),
                        _ => (side, side),
                    };
                    dist(a, i, rows, pr) * pc + dist(b, j, cols, pc)
                }
                _ => return Err(name.into()),
            };
            let list = &mut runs[owner as usize];
            match list.last_mut() {
                Some(run) if run.file + run.len == r * record => run.len += record,
                last => {
                    let view = last.map_or(0, |run| run.view + run.len);
                    list.push(Run {
                        file: r * record,
                        view,
                        len: record,
                    });
                }
            }
        }
        if letters == ['a'] {
            for list in &mut runs {
                list.push(Run {
                    file: 0,
                    view: 0,
                    len: file,
                });
            }
        }
        let parts = runs
            .into_iter()
            .map(|runs| Part { runs: runs.into() })
            .collect();
        Ok(Partition { parts })
    }

    pub fn parts(&self) -> u32 {
        self.parts.len() as u32
    }

    pub fn part(&self, i: u32) -> Result<Part, String> {
        Ok(self.parts[i as usize].clone())
    }
}

impl Part {
    pub fn runs(&self, range: Range<u64>) -> impl Iterator<Item = Run> + '_ {
        let first = self
            .runs
            .partition_point(|run| run.file + run.len <= range.start);
        self.runs[first..]
            .iter()
            .take_while(move |run| run.file < range.end)
            .map(move |run| {
                let start = run.file.max(range.start);
                let end = (run.file + run.len).min(range.end);
                Run {
                    file: start,
                    view: run.view + start - run.file,
                    len: end - start,
                }
            })
    }
}
