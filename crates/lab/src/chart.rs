//! Charts as data; `output::svg` draws them.

use serde::Serialize;

/// A chart: what it says, its axes and its series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Chart {
    /// The heading.
    pub title: String,
    /// Label of the horizontal axis.
    pub x: String,
    /// Label of the vertical axis.
    pub y: String,
    /// True when the paper printed no values for this figure: drawn and labelled as ours.
    pub ours: bool,
    /// What is drawn.
    pub kind: Kind,
}

/// The three forms that the lab draws.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Kind {
    /// Groups of bars: one group per label, one bar per series; `None` leaves a gap.
    Bars {
        /// One label per group.
        groups: Vec<String>,
        /// Name and one value per group.
        series: Vec<(String, Vec<Option<f64>>)>,
    },
    /// Lines with markers.
    Lines {
        /// Name and points of each line, in order of x.
        series: Vec<(String, Vec<(f64, f64)>)>,
        /// Whether x grows by factors rather than by steps.
        log_x: bool,
    },
    /// A cloud of points.
    Scatter {
        /// Name and points of each cloud.
        series: Vec<(String, Vec<(f64, f64)>)>,
    },
}

impl Chart {
    /// Bars per group.
    pub fn bars(
        title: &str,
        y: &str,
        groups: Vec<String>,
        series: Vec<(String, Vec<Option<f64>>)>,
    ) -> Chart {
        let kind = Kind::Bars { groups, series };
        Chart {
            title: title.into(),
            x: String::new(),
            y: y.into(),
            ours: false,
            kind,
        }
    }

    /// Lines over x.
    pub fn lines(title: &str, x: &str, y: &str, series: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
        let kind = Kind::Lines {
            series,
            log_x: false,
        };
        Chart {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            ours: false,
            kind,
        }
    }

    /// A cloud of points.
    pub fn scatter(title: &str, x: &str, y: &str, series: Vec<(String, Vec<(f64, f64)>)>) -> Chart {
        let kind = Kind::Scatter { series };
        Chart {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            ours: false,
            kind,
        }
    }

    /// Labels the chart as ours: the paper plotted it without printing values, or not at all.
    pub fn ours(self) -> Chart {
        Chart { ours: true, ..self }
    }

    /// Lets x grow by factors (lines only).
    pub fn log_x(mut self) -> Chart {
        if let Kind::Lines { log_x, .. } = &mut self.kind {
            *log_x = true;
        }
        self
    }
}
