//! The randomness that policies take as an argument: a seeded stream, the same on every machine.

/// A seeded stream of random numbers (SplitMix64): eight bytes of state, no allocation.
///
/// Policies take it by reference and never make their own, so that a run is a function of its
/// seeds. The stream is part of what golden tests pin down: it never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// An independent stream for the `index`-th component under one seed, so that adding a
    /// component shifts no other component's numbers.
    pub fn for_component(seed: u64, index: u64) -> Self {
        Self(mix(seed ^ mix(index.wrapping_add(0x9E37_79B9_7F4A_7C15))))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which must not be zero; its bias of 2^-64 times `bound` is nothing.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0, "no number is below zero");
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// An index into something that has `len` items, at least one.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A number of `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// An exponentially distributed number with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Puts the items into a uniformly random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }
}

fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_never_changes() {
        let mut random = Random::new(1234567);
        assert_eq!(random.bits(), 6457827717110365317);
        assert_eq!(random.bits(), 3203168211198807973);
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        let mut random = Random::for_component(1, 7);
        let n = 100_000;
        let mean = (0..n).map(|_| random.unit()).sum::<f64>() / f64::from(n);
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let mean = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn every_order_of_three_is_as_likely() {
        let mut random = Random::new(9);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut items = [0, 1, 2];
            random.shuffle(&mut items);
            *seen.entry(items).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
