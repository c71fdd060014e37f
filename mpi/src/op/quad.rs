//! IEEE binary128 (IEEE 754-2019 §4.3.1), which no machine we run on has in hardware: computed by
//! `rustc_apfloat`, as Rust's own type is not stable.

use rustc_apfloat::{Float, ieee};

use super::arith::{Arithmetic, Ordered, total};

/// The bits of a binary128, in the byte order of the machine, at any alignment.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Quad([u8; 16]);

const SIGN: u128 = 1 << 127;

impl Quad {
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_ne_bytes())
    }

    pub fn bits(self) -> u128 {
        u128::from_ne_bytes(self.0)
    }

    fn number(self) -> ieee::Quad {
        ieee::Quad::from_bits(self.bits())
    }
}

impl From<ieee::Quad> for Quad {
    fn from(number: ieee::Quad) -> Self {
        Self::from_bits(number.to_bits())
    }
}

impl Arithmetic for Quad {
    fn plus(self, other: Self) -> Self {
        (self.number() + other.number()).value.into()
    }

    fn minus(self, other: Self) -> Self {
        (self.number() - other.number()).value.into()
    }

    fn times(self, other: Self) -> Self {
        (self.number() * other.number()).value.into()
    }
}

impl Ordered for Quad {
    fn less(self, other: Self) -> bool {
        self.number() < other.number()
    }

    fn below(self, other: Self) -> bool {
        total(self.bits(), SIGN) < total(other.bits(), SIGN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bits of the fraction.
    const FRACTION: u32 = 112;
    const INFINITY: u128 = 0x7fff << FRACTION;

    /// A binary64 as binary128: always exact.
    fn quad(value: f64) -> Quad {
        let bits = value.to_bits();
        let sign = u128::from(bits >> 63) << 127;
        let fraction = u128::from(bits & ((1 << 52) - 1)) << 60;
        match (bits >> 52 & 0x7ff) as u128 {
            0 if fraction == 0 => Quad::from_bits(sign),
            0 => quad(value * 2f64.powi(64)).times(quad(2f64.powi(-64))),
            0x7ff => Quad::from_bits(sign | INFINITY | fraction),
            e => Quad::from_bits(sign | (e + 0x3fff - 0x3ff) << FRACTION | fraction),
        }
    }

    #[test]
    fn special_values() {
        let (zero, inf, nan) = (quad(0.0), quad(f64::INFINITY), quad(f64::NAN));
        assert!(inf.plus(quad(f64::NEG_INFINITY)).number().is_nan());
        assert!(inf.times(zero).number().is_nan() && nan.plus(zero).number().is_nan());
        assert_eq!(inf.times(quad(-2.0)).bits(), SIGN | INFINITY);
        assert_eq!(quad(-0.0).plus(quad(-0.0)).bits(), SIGN);
        assert_eq!(quad(1.5).minus(quad(1.5)).bits(), 0);
        assert!(!nan.less(zero) && !zero.less(nan) && !quad(-0.0).less(zero));
        let largest = Quad::from_bits(INFINITY - 1);
        assert_eq!(largest.plus(largest).bits(), INFINITY);
        let smallest = Quad::from_bits(1);
        assert_eq!(smallest.times(quad(0.5)).bits(), 0);
        assert_eq!(smallest.times(quad(0.75)).bits(), 1);
    }

    #[test]
    fn halves_go_to_the_even_neighbour() {
        let one = 0x3fff_u128 << FRACTION;
        let half_ulp = Quad::from_bits((0x3fff - 113) << FRACTION);
        let up = Quad::from_bits((0x3fff - 113) << FRACTION | 1);
        assert_eq!(Quad::from_bits(one).plus(half_ulp).bits(), one);
        assert_eq!(Quad::from_bits(one | 1).plus(half_ulp).bits(), one + 2);
        assert_eq!(Quad::from_bits(one).plus(up).bits(), one + 1);
    }

    proptest! {
        #[test]
        fn sums_and_products_of_integers_are_exact(a in any::<i32>(), b in any::<i32>()) {
            let (x, y) = (quad(a.into()), quad(b.into()));
            let sum = quad(f64::from(a) + f64::from(b));
            prop_assert_eq!(x.plus(y).bits(), sum.bits());
            // 62 bits: as a high and a low half that binary64 holds exactly.
            let product = i64::from(a) * i64::from(b);
            let (high, low) = (product >> 32, product & 0xffff_ffff);
            let wanted = quad(high as f64 * 2f64.powi(32)).plus(quad(low as f64));
            if product != 0 {
                prop_assert_eq!(x.times(y).bits(), wanted.bits());
            }
            prop_assert_eq!(x.less(y), a < b);
        }

        #[test]
        fn products_of_doubles_are_exact(a in any::<f64>(), b in any::<f64>()) {
            // The error of a product of two binary64 is itself one: a * b = p + fma(a, b, -p).
            let (p, wide) = (a * b, quad(a).times(quad(b)));
            let error = a.mul_add(b, -p);
            let safe = p.is_finite() && p.abs() > 1e-200;
            prop_assume!(safe);
            prop_assert_eq!(quad(p).plus(quad(error)).bits(), wide.bits());
        }
    }
}
