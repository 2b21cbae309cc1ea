//! A cell: one published number with its simulated twin, and whether they agree.

use serde::Serialize;

/// How near a simulated value has to come to the published one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Class {
    /// Exact arithmetic: 0.5 %.
    X,
    /// Tight: 3 %.
    T,
    /// Moderate: 10 %.
    M,
    /// Loose: 30 %.
    L,
    /// Shape only: an ordering or a claim in prose, which holds or does not.
    S,
}

impl Class {
    /// The allowed relative error; infinite for shapes, whose `ok` is decided by their claim.
    pub fn tolerance(self) -> f64 {
        match self {
            Class::X => 0.005,
            Class::T => 0.03,
            Class::M => 0.10,
            Class::L => 0.30,
            Class::S => f64::INFINITY,
        }
    }

    /// The class as one letter.
    pub fn letter(self) -> &'static str {
        match self {
            Class::X => "X",
            Class::T => "T",
            Class::M => "M",
            Class::L => "L",
            Class::S => "S",
        }
    }
}

/// One number of a study. The field names are those of the JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// The experiment's name.
    pub experiment: String,
    /// Which cell, readable and unique within the experiment ("TC rb 8192 B MB/s").
    pub cell: String,
    /// What the paper printed; none for what it only plotted or did not study.
    pub published: Option<f64>,
    /// What we got.
    pub simulated: f64,
    /// Relative error as a fraction (0.03 = 3 %); for percentages the difference in points / 100.
    pub error: Option<f64>,
    /// The tolerance class.
    pub class: Class,
    /// Whether a constant of the model was fitted on this cell.
    pub calibrated: bool,
    /// Whether the cell is within its tolerance, or its claim holds.
    pub ok: bool,
}

impl Cell {
    /// A cell compared with a published value within its class's tolerance.
    pub fn new(cell: impl Into<String>, published: f64, simulated: f64, class: Class) -> Cell {
        Cell::within(cell, published, simulated, class, class.tolerance())
    }

    /// A cell whose paper-specific tolerance (a fraction) differs from its class's.
    pub fn within(
        cell: impl Into<String>,
        published: f64,
        simulated: f64,
        class: Class,
        tolerance: f64,
    ) -> Cell {
        let error = (simulated - published) / published;
        Cell {
            experiment: String::new(),
            cell: cell.into(),
            published: Some(published),
            simulated,
            error: Some(error),
            class,
            calibrated: false,
            ok: error.abs() <= tolerance,
        }
    }

    /// A percentage compared with a published percentage, within `points` percentage points.
    pub fn points(
        cell: impl Into<String>,
        published: f64,
        simulated: f64,
        class: Class,
        points: f64,
    ) -> Cell {
        let error = (simulated - published) / 100.0;
        Cell {
            error: Some(error),
            ok: error.abs() * 100.0 <= points,
            ..Cell::within(cell, published, simulated, class, f64::INFINITY)
        }
    }

    /// A claim made in prose, with the number that decides it.
    pub fn claim(cell: impl Into<String>, simulated: f64, holds: bool) -> Cell {
        Cell {
            experiment: String::new(),
            cell: cell.into(),
            published: None,
            simulated,
            error: None,
            class: Class::S,
            calibrated: false,
            ok: holds,
        }
    }

    /// A number of our own, which no paper printed: there is nothing to fail.
    pub fn ours(cell: impl Into<String>, simulated: f64) -> Cell {
        Cell::claim(cell, simulated, true)
    }

    /// Marks the cell as used for fitting a constant.
    pub fn calibrated(self, calibrated: bool) -> Cell {
        Cell { calibrated, ..self }
    }

    /// Shows a published value beside a claim, without judging the distance.
    pub fn beside(self, published: f64) -> Cell {
        let error = (self.simulated - published) / published;
        Cell {
            published: Some(published),
            error: Some(error),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerances_decide() {
        assert!(Cell::new("a", 10.0, 10.29, Class::T).ok);
        assert!(!Cell::new("a", 10.0, 10.31, Class::T).ok);
        assert!(!Cell::new("a", 10.0, 9.69, Class::T).ok);
        assert!(Cell::points("a", 95.0, 98.0, Class::M, 3.0).ok);
        assert!(!Cell::points("a", 3.4, 9.5, Class::M, 6.0).ok);
        assert!(!Cell::new("a", 10.0, f64::NAN, Class::L).ok);
        assert!(!Cell::claim("a", 1.0, false).ok);
    }
}
