//! One kind of number in memory and in `external32`.

use crate::class::{Class, Failure, Result};

/// What the bits of a number mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Signed,
    Unsigned,
    /// IEEE, of the same size in both.
    Real,
    /// IEEE with 128 bits there; here that, or what this processor has for it.
    LongDouble,
}

/// A kind of number and its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number {
    kind: Kind,
    here: usize,
    there: usize,
}

impl Number {
    /// `None` for sizes that nobody has.
    pub fn new(kind: Kind, here: u64, there: u64) -> Option<Number> {
        let possible = match kind {
            Kind::Signed | Kind::Unsigned => (1..=16).contains(&here) && there <= here,
            Kind::Real => here > 0 && here == there,
            Kind::LongDouble => here == 16 && there == 16,
        };
        possible.then_some(Number {
            kind,
            here: here as usize,
            there: there as usize,
        })
    }

    /// Turns all numbers in `native` to where they stand in the file.
    pub fn outward(self, native: &[u8], outside: &mut [u8]) -> Result<()> {
        let numbers = native
            .chunks_exact(self.here)
            .zip(outside.chunks_exact_mut(self.there));
        if self.kind == Kind::LongDouble {
            numbers.for_each(|(from, to)| to.copy_from_slice(&quadruple(from).to_be_bytes()));
            return Ok(());
        }
        if self.here == self.there {
            turn(self.here, native, outside);
            return Ok(());
        }
        for (from, to) in numbers {
            let (low, high) = if cfg!(target_endian = "little") {
                from.split_at(self.there)
            } else {
                let (high, low) = from.split_at(self.here - self.there);
                (low, high)
            };
            let top = if cfg!(target_endian = "little") {
                low[self.there - 1]
            } else {
                low[0]
            };
            let filling = if self.kind == Kind::Signed && top & 0x80 != 0 {
                0xff
            } else {
                0
            };
            if high.iter().any(|&byte| byte != filling) {
                return Err(self.too_large(from));
            }
            turn(self.there, low, to);
        }
        Ok(())
    }

    /// Turns all numbers from the file to where they stand in memory.
    pub fn inward(self, outside: &[u8], native: &mut [u8]) {
        if self.kind != Kind::LongDouble && self.here == self.there {
            turn(self.here, outside, native);
            return;
        }
        let numbers = outside
            .chunks_exact(self.there)
            .zip(native.chunks_exact_mut(self.here));
        for (from, to) in numbers {
            if self.kind == Kind::LongDouble {
                let mut bits = [0; 16];
                bits.copy_from_slice(from);
                long_double(u128::from_be_bytes(bits), to);
                continue;
            }
            let negative = self.kind == Kind::Signed && from[0] & 0x80 != 0;
            to.fill(if negative { 0xff } else { 0 });
            if cfg!(target_endian = "little") {
                turn(self.there, from, &mut to[..self.there]);
            } else {
                to[self.here - self.there..].copy_from_slice(from);
            }
        }
    }

    fn too_large(self, bytes: &[u8]) -> Failure {
        let mut wide = [0u8; 16];
        if cfg!(target_endian = "little") {
            wide[..bytes.len()].copy_from_slice(bytes);
        } else {
            wide[16 - bytes.len()..].copy_from_slice(bytes);
        }
        let unused = 128 - 8 * bytes.len() as u32;
        let number = if self.kind == Kind::Signed {
            (i128::from_ne_bytes(wide) << unused >> unused).to_string()
        } else {
            u128::from_ne_bytes(wide).to_string()
        };
        let why = format!(
            "{number} does not fit into the {} bytes that external32 has for its type",
            self.there
        );
        Failure::new(Class::Conversion, why)
    }
}

/// Between the order of bytes here and the largest first, for numbers of `size` bytes.
fn turn(size: usize, from: &[u8], to: &mut [u8]) {
    /// A loop for one size, which the compiler turns into the processor's own instruction.
    fn of<const N: usize>(from: &[u8], to: &mut [u8]) {
        let (from, _) = from.as_chunks::<N>();
        let (to, _) = to.as_chunks_mut::<N>();
        for (from, to) in from.iter().zip(to) {
            *to = *from;
            to.reverse();
        }
    }
    if size == 1 || cfg!(target_endian = "big") {
        to.copy_from_slice(from);
        return;
    }
    match size {
        2 => of::<2>(from, to),
        4 => of::<4>(from, to),
        8 => of::<8>(from, to),
        16 => of::<16>(from, to),
        _ => {
            for (from, to) in from.chunks_exact(size).zip(to.chunks_exact_mut(size)) {
                to.copy_from_slice(from);
                to.reverse();
            }
        }
    }
}

/// Bits of the fraction of an 80-bit number, and of a 128-bit one, without the bit before the point.
const SHORT_FRACTION: u32 = 63;
const LONG_FRACTION: u32 = 112;

/// A `long double` of this machine with 128 bits: exact.
fn quadruple(native: &[u8]) -> u128 {
    let mut bits = [0; 16];
    bits.copy_from_slice(native);
    let bits = u128::from_ne_bytes(bits);
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        return bits;
    }
    // Sign and exponent (16 bits), then a fraction with the bit before the point.
    let head = (bits >> 64) & 0xffff;
    let fraction = bits & (u128::from(u64::MAX) >> 1);
    head << LONG_FRACTION | fraction << (LONG_FRACTION - SHORT_FRACTION)
}

/// The nearest `long double` of this machine.
fn long_double(bits: u128, native: &mut [u8]) {
    if !cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
        native.copy_from_slice(&bits.to_ne_bytes());
        return;
    }
    let surplus = LONG_FRACTION - SHORT_FRACTION;
    let exponent = (bits >> LONG_FRACTION) & 0x7fff;
    let fraction = bits & ((1 << LONG_FRACTION) - 1);
    let mut short = fraction >> surplus;
    let special = exponent == 0x7fff;
    if special {
        // What is no number stays none, whichever bits said so.
        short |= u128::from(fraction != 0) << (SHORT_FRACTION - 1);
    } else {
        let (rest, half) = (fraction & ((1 << surplus) - 1), 1 << (surplus - 1));
        short += u128::from(rest > half || (rest == half && short & 1 == 1));
    }
    // A carry goes on into the exponent, as it should.
    let head = (bits >> LONG_FRACTION & 0xffff) + (short >> SHORT_FRACTION);
    let short = short & ((1 << SHORT_FRACTION) - 1);
    let before_the_point = u128::from(head & 0x7fff != 0) << SHORT_FRACTION;
    native.copy_from_slice(&(head << 64 | before_the_point | short).to_ne_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_come_back_as_they_went() {
        let number = Number::new(Kind::LongDouble, 16, 16).unwrap();
        // One, minus one and a half, the smallest, the largest, infinity, none; with this processor's bits.
        let heads: [(u128, u128); 6] = [
            (0x3fff, 1 << 63),
            (0xbfff, 3 << 62),
            (0, 1),
            (0x7ffe, u128::from(u64::MAX)),
            (0x7fff, 1 << 63),
            (0x7fff, 3 << 62),
        ];
        for (head, fraction) in heads {
            let native = (head << 64 | fraction).to_ne_bytes();
            let (mut outside, mut again) = ([0; 16], [0; 16]);
            number.outward(&native, &mut outside).unwrap();
            number.inward(&outside, &mut again);
            assert_eq!(again, native, "{head:x} {fraction:x}");
        }
        let mut outside = [0; 16];
        let half = (0xbfff_u128 << 64 | 3 << 62).to_ne_bytes();
        number.outward(&half, &mut outside).unwrap();
        assert_eq!(outside[..4], [0xbf, 0xff, 0x80, 0]);
    }

    #[test]
    fn a_fraction_that_is_too_long_is_rounded() {
        // 1.11...1 becomes 2.
        let bits = 0x3fffu128 << 112 | ((1 << 112) - 1);
        let mut native = [0; 16];
        long_double(bits, &mut native);
        assert_eq!(u128::from_ne_bytes(native), 0x4000 << 64 | 1 << 63);
        // Something that is no number only by its last bit is still none.
        long_double(0x7fff << 112 | 1, &mut native);
        assert_ne!(u128::from_ne_bytes(native) & (1 << 62), 0);
    }

    #[test]
    fn unsigned_numbers_use_all_bits() {
        let number = Number::new(Kind::Unsigned, 8, 4).unwrap();
        let (mut outside, mut again) = ([0; 4], [0; 8]);
        let native = 0xfedc_ba98_u64.to_ne_bytes();
        number.outward(&native, &mut outside).unwrap();
        assert_eq!(outside, [0xfe, 0xdc, 0xba, 0x98]);
        number.inward(&outside, &mut again);
        assert_eq!(again, native);
        let large = u64::MAX.to_ne_bytes();
        assert!(number.outward(&large, &mut outside).is_err());
    }
}
