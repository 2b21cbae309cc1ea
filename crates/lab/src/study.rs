//! A study: the same measurement over a grid of named series and x values.

use crate::cell::Cell;
use crate::chart::Chart;
use crate::error::Error;
use crate::machine;
use crate::parameter::Settings;
use crate::progress::Progress;
use trireme_sim::fs::Scenario;

/// Points to measure.
#[derive(Default)]
pub struct Study {
    points: Vec<(String, f64, Scenario)>,
}

/// What was measured: throughput in MB/s.
pub struct Measured {
    points: Vec<(String, f64, f64)>,
}

impl Study {
    /// Adds a point of a series.
    pub fn point(&mut self, series: impl Into<String>, x: f64, scenario: Scenario) {
        self.points.push((series.into(), x, scenario));
    }

    /// Runs all points.
    pub fn run(self, settings: &Settings, progress: &Progress) -> Result<Measured, Error> {
        let scenarios: Vec<Scenario> = self.points.iter().map(|point| point.2.clone()).collect();
        let tallies = machine::sweep(&scenarios, settings, progress, |run| {
            // Everybody-reads-everything is normalised by the number of readers, as in the paper.
            run.throughput() * run.file_bytes as f64 / run.bytes as f64
        })?;
        let points = self.points.into_iter().zip(tallies);
        Ok(Measured {
            points: points
                .map(|((series, x, _), y)| (series, x, y.mean()))
                .collect(),
        })
    }
}

impl Measured {
    /// The value of a series at x; not a number if it was not measured.
    pub fn at(&self, series: &str, x: f64) -> f64 {
        let same = |point: &&(String, f64, f64)| point.0 == series && point.1 == x;
        self.points
            .iter()
            .find(same)
            .map_or(f64::NAN, |point| point.2)
    }

    /// All values of a series.
    pub fn values(&self, series: &str) -> Vec<f64> {
        self.points
            .iter()
            .filter(|point| point.0 == series)
            .map(|point| point.2)
            .collect()
    }

    /// Every point as a cell of our own.
    pub fn cells(&self, unit: &str) -> Vec<Cell> {
        let cell =
            |(series, x, y): &(String, f64, f64)| Cell::ours(format!("{series}, {x} {unit}"), *y);
        self.points.iter().map(cell).collect()
    }

    /// A line per series.
    pub fn chart(&self, title: &str, x: &str) -> Chart {
        let mut series: Vec<(String, Vec<(f64, f64)>)> = vec![];
        for (name, x, y) in &self.points {
            match series.iter_mut().find(|line| line.0 == *name) {
                Some(line) => line.1.push((*x, *y)),
                None => series.push((name.clone(), vec![(*x, *y)])),
            }
        }
        Chart::lines(title, x, "MB/s", series).log_x().ours()
    }
}
