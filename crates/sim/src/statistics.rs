//! Means with their confidence intervals, over observations and over time.

use crate::time::Time;

/// Count, mean and variance of observations, in one pass (Welford).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Tally {
    /// Adds one observation.
    pub fn add(&mut self, x: f64) {
        self.count += 1;
        let delta = x - self.mean;
        self.mean += delta / self.count as f64;
        self.squares += delta * (x - self.mean);
    }

    /// The number of observations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean, zero if there is no observation.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The sample's standard deviation, zero below two observations.
    pub fn deviation(&self) -> f64 {
        if self.count < 2 {
            0.0
        } else {
            (self.squares / (self.count - 1) as f64).sqrt()
        }
    }

    /// Half the width of the 95 % confidence interval of the mean (Student's t), infinite below
    /// two observations.
    pub fn half_width(&self) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        student_95(self.count - 1) * self.deviation() / (self.count as f64).sqrt()
    }

    /// Whether the 95 % confidence interval covers `x`.
    pub fn covers(&self, x: f64) -> bool {
        (x - self.mean).abs() <= self.half_width()
    }
}

impl FromIterator<f64> for Tally {
    fn from_iter<I: IntoIterator<Item = f64>>(observations: I) -> Self {
        let mut tally = Tally::default();
        observations.into_iter().for_each(|x| tally.add(x));
        tally
    }
}

/// The mean over time of a quantity that changes in steps, such as a queue's length.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverTime {
    value: f64,
    since: Time,
    start: Time,
    area: f64,
}

impl OverTime {
    /// The quantity is `value` from `now` on.
    #[inline]
    pub fn set(&mut self, now: Time, value: f64) {
        self.area += self.value * (now - self.since).0 as f64;
        self.since = now;
        self.value = value;
    }

    /// Forgets the past: the mean counts from `now` on (the end of a warm-up).
    pub fn restart(&mut self, now: Time) {
        self.set(now, self.value);
        self.area = 0.0;
        self.start = now;
    }

    /// The mean until `now`.
    pub fn mean(&self, now: Time) -> f64 {
        let span = (now - self.start).0 as f64;
        if span == 0.0 {
            return self.value;
        }
        (self.area + self.value * (now - self.since).0 as f64) / span
    }
}

/// The 97.5 % quantile of Student's t.
pub fn student_95(freedom: u64) -> f64 {
    const TABLE: [f64; 30] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
        2.052, 2.048, 2.045, 2.042,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=30 => TABLE[freedom as usize - 1],
        // The first term of the expansion around the normal quantile: error below 0.001.
        _ => 1.96 + 2.372 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_of_a_known_sample() {
        let tally: Tally = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
            .into_iter()
            .collect();
        assert_eq!(tally.mean(), 5.0);
        assert!((tally.deviation() - 2.13809).abs() < 1e-5);
        assert!((tally.half_width() - 2.365 * 2.13809 / 8f64.sqrt()).abs() < 1e-4);
        assert!(tally.covers(4.0) && !tally.covers(7.0));
    }

    #[test]
    fn mean_over_time_weighs_by_duration() {
        let mut length = OverTime::default();
        length.set(Time(10), 2.0);
        length.set(Time(30), 0.0);
        assert_eq!(length.mean(Time(40)), 1.0);
        length.restart(Time(40));
        length.set(Time(50), 4.0);
        assert_eq!(length.mean(Time(60)), 2.0);
    }
}
