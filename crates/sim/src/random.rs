//! Chance, the same on every machine: one seeded stream per named component.
//!
//! A stream depends on the run's seed and the component's name only, so that adding a component
//! shifts nobody else's numbers. Logarithms are computed here from the four basic operations,
//! because the C library's differ in the last bit between platforms.

use crate::time::Time;

/// A random stream (xoshiro256++ by Blackman and Vigna), seeded by name.
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

impl Stream {
    /// The stream of component `name` in the run with `seed`.
    pub fn new(seed: u64, name: &str) -> Stream {
        // FNV-1a over the name, mixed with the seed, expanded by SplitMix64.
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
        });
        let mut x = hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut state = [0; 4];
        for word in &mut state {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            *word = z ^ (z >> 31);
        }
        Stream { state }
    }

    /// The stream of member `index` of a family of components.
    pub fn indexed(seed: u64, name: &str, index: usize) -> Stream {
        Stream::new(seed, &format!("{name}/{index}"))
    }

    /// 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in [low, high).
    #[inline]
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Uniform in 0..n (n > 0); the bias of the multiplication is below n / 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// Exponential with the given mean.
    #[inline]
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 - unit is in (0, 1]: never the logarithm of zero.
        -mean * ln(1.0 - self.unit())
    }

    /// An exponential span with the given mean.
    #[inline]
    pub fn exponential_time(&mut self, mean: Time) -> Time {
        Time((self.exponential(mean.0 as f64) + 0.5) as u64)
    }

    /// A span uniform in [0, limit).
    #[inline]
    pub fn time_below(&mut self, limit: Time) -> Time {
        Time(if limit.0 == 0 { 0 } else { self.below(limit.0) })
    }

    /// Puts `items` into random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Natural logarithm of a positive normal number from +, -, *, / alone (error below 1e-15).
pub fn ln(x: f64) -> f64 {
    const SQRT_2_BITS: u64 = 0x3ff6_a09e_667f_3bcd;
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut m = bits & MANTISSA | 1023 << 52;
    if m > SQRT_2_BITS {
        m -= 1 << 52;
        exponent += 1;
    }
    let m = f64::from_bits(m);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let mut series = 1.0 / 23.0;
    for odd in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        series = series * z + 1.0 / odd;
    }
    exponent as f64 * std::f64::consts::LN_2 + 2.0 * s * series
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_pinned_by_seed_and_name() {
        let mut disk = Stream::new(1, "disk");
        assert_eq!(
            [disk.bits(), disk.bits()],
            [14724967117197233550, 7779706091426933833]
        );
        assert_ne!(Stream::new(1, "disk").bits(), Stream::new(2, "disk").bits());
        assert_ne!(Stream::new(1, "disk").bits(), Stream::new(1, "bus").bits());
    }

    #[test]
    fn ln_agrees_with_the_library() {
        let mut stream = Stream::new(7, "ln");
        for _ in 0..100_000 {
            let x = stream.unit() + f64::MIN_POSITIVE;
            assert!(
                (ln(x) - x.ln()).abs() <= 4e-16 * x.ln().abs().max(1.0),
                "ln({x})"
            );
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn moments_are_right() {
        let mut stream = Stream::new(3, "moments");
        let n = 1_000_000;
        let (mut sum, mut exponential, mut small) = (0.0, 0.0, 0);
        for _ in 0..n {
            sum += stream.unit();
            exponential += stream.exponential(2.0);
            small += stream.below(10);
        }
        assert!((sum / n as f64 - 0.5).abs() < 0.002);
        assert!((exponential / n as f64 - 2.0).abs() < 0.01);
        assert!((small as f64 / n as f64 - 4.5).abs() < 0.02);
    }
}
