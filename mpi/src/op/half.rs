//! IEEE binary16 by way of binary32, whose precision is large enough that one rounding more does
//! not change sums and products (Figueroa, "When is double rounding innocuous?", 1995).

use super::arith::{Arithmetic, Ordered};

/// The bits of a binary16.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Half(pub u16);

impl Half {
    /// The same number as binary32.
    pub fn to_f32(self) -> f32 {
        let bits = u32::from(self.0);
        let (sign, exponent, fraction) = (bits >> 15 << 31, bits >> 10 & 0x1f, bits & 0x3ff);
        match exponent {
            0 => {
                let value = fraction as f32 * f32::from_bits((127 - 24) << 23);
                f32::from_bits(sign | value.to_bits())
            }
            0x1f => f32::from_bits(sign | 0xff << 23 | fraction << 13),
            _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
        }
    }

    /// The nearest binary16, ties to even.
    pub fn from_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let (sign, magnitude) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        let rounded = if magnitude > 0x7f80_0000 {
            0x7e00 | (magnitude >> 13 & 0x3ff) as u16 // not a number
        } else if magnitude >= 0x4780_0000 {
            0x7c00 // 65536 and above
        } else if magnitude >= 0x3880_0000 {
            // A carry out of the fraction raises the exponent, up to infinity.
            let odd = magnitude >> 13 & 1;
            ((magnitude - (112 << 23) + 0xfff + odd) >> 13) as u16
        } else {
            // Below the smallest normal number: adding 0.5 leaves the fraction in the low bits.
            let shifted = f32::from_bits(magnitude) + 0.5;
            (shifted.to_bits() - 0.5f32.to_bits()) as u16
        };
        Half(sign | rounded)
    }
}

impl Arithmetic for Half {
    fn plus(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() + other.to_f32())
    }

    fn minus(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() - other.to_f32())
    }

    fn times(self, other: Self) -> Self {
        Self::from_f32(self.to_f32() * other.to_f32())
    }
}

impl Ordered for Half {
    fn less(self, other: Self) -> bool {
        self.to_f32() < other.to_f32()
    }

    fn below(self, other: Self) -> bool {
        // No number loses its place on the way to binary32.
        self.to_f32().total_cmp(&other.to_f32()).is_lt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_survives_the_way_through_binary32() {
        for bits in 0..=u16::MAX {
            let half = Half(bits);
            let back = Half::from_f32(half.to_f32());
            if half.to_f32().is_nan() {
                assert!(back.to_f32().is_nan());
            } else {
                assert_eq!(back.0, bits);
            }
        }
    }

    #[test]
    fn rounding_goes_to_the_nearest_even_number() {
        // Between two neighbours the middle goes to the even one, all else to the nearer one.
        for bits in 0..0x7bffu16 {
            let (low, high) = (Half(bits).to_f32(), Half(bits + 1).to_f32());
            let middle = (low + high) / 2.0;
            let even = if bits & 1 == 0 { bits } else { bits + 1 };
            assert_eq!(Half::from_f32(middle).0, even, "{bits:#x}");
            assert_eq!(Half::from_f32(middle.next_down()).0, bits);
            assert_eq!(Half::from_f32(middle.next_up()).0, bits + 1);
        }
        assert_eq!(Half::from_f32(65519.9).0, 0x7bff);
        assert_eq!(Half::from_f32(65520.0).0, 0x7c00);
        assert_eq!(Half::from_f32(1e30).0, 0x7c00);
    }
}
