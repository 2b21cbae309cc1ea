//! Simulated time: integer picoseconds, so that sums never depend on rounding.

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Rem, Sub};

/// An instant or a span, in picoseconds. 2^64 ps are 213 days: far beyond any run of the lab.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    /// The start of every simulation.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const NEVER: Time = Time(u64::MAX);

    /// From whole nanoseconds.
    pub const fn ns(n: u64) -> Time {
        Time(n * 1_000)
    }

    /// From whole microseconds.
    pub const fn us(n: u64) -> Time {
        Time(n * 1_000_000)
    }

    /// From whole milliseconds.
    pub const fn ms(n: u64) -> Time {
        Time(n * 1_000_000_000)
    }

    /// From seconds, rounded to the nearest picosecond; negative values become zero.
    pub fn from_seconds(s: f64) -> Time {
        Time((s * 1e12 + 0.5).max(0.0) as u64)
    }

    /// From milliseconds, rounded to the nearest picosecond.
    pub fn from_ms(ms: f64) -> Time {
        Time((ms * 1e9 + 0.5).max(0.0) as u64)
    }

    /// From microseconds, rounded to the nearest picosecond.
    pub fn from_us(us: f64) -> Time {
        Time((us * 1e6 + 0.5).max(0.0) as u64)
    }

    /// In seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 * 1e-12
    }

    /// In milliseconds.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 * 1e-9
    }

    /// In microseconds.
    pub fn as_us(self) -> f64 {
        self.0 as f64 * 1e-6
    }

    /// The difference, or zero if `other` is later.
    pub fn saturating_sub(self, other: Time) -> Time {
        Time(self.0.saturating_sub(other.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}

impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}

impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, n: u64) -> Time {
        Time(self.0 * n)
    }
}

impl Div<u64> for Time {
    type Output = Time;
    fn div(self, n: u64) -> Time {
        Time(self.0 / n)
    }
}

impl Rem for Time {
    type Output = Time;
    fn rem(self, other: Time) -> Time {
        Time(self.0 % other.0)
    }
}

impl std::iter::Sum for Time {
    fn sum<I: Iterator<Item = Time>>(times: I) -> Time {
        times.fold(Time::ZERO, Add::add)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_ms())
    }
}
