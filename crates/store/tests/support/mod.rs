//! Numbers that come back with the same seed.
#![allow(dead_code)]

pub mod disk;

/// xorshift64*.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 8) % limit
    }

    /// Sizes from 1 to `limit`, small ones as likely as large ones.
    pub fn size(&mut self, limit: u64) -> u64 {
        let bits = 64 - u64::from(limit.leading_zeros());
        let top = 1 << self.below(bits + 1);
        1 + self.below(top.min(limit))
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| (self.next() >> 32) as u8).collect()
    }
}

/// Another seed for each run of a soak; always the same otherwise.
pub fn seed() -> u64 {
    std::env::var("TRIREME_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(0)
}

/// How much longer a soak takes than a test.
pub fn times(count: u64) -> u64 {
    let soak = std::env::var_os("TRIREME_SOAK").is_some();
    if soak { count * 20 } else { count }
}
