//! IEEE binary128 in integer arithmetic (IEEE 754-2019 §4.3.1, §6): no machine we run on has it in
//! hardware, and Rust's own type is not stable.

use super::arith::{Arithmetic, Ordered};

/// The bits of a binary128, in the byte order of the machine, at any alignment.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Quad([u8; 16]);

/// Bits of the fraction.
const FRACTION: u32 = 112;
const HIDDEN: u128 = 1 << FRACTION;
const MAX_EXPONENT: i32 = 0x7fff;
const BIAS: i32 = 0x3fff;
const SIGN: u128 = 1 << 127;
const INFINITY: u128 = 0x7fff << FRACTION;
const NOT_A_NUMBER: u128 = INFINITY | HIDDEN >> 1;
/// Bits below the last one that decide on rounding: two exact ones, and one that says whether
/// anything is below them.
const GUARD: u32 = 3;

impl Quad {
    pub fn from_bits(bits: u128) -> Self {
        Self(bits.to_ne_bytes())
    }

    pub fn bits(self) -> u128 {
        u128::from_ne_bytes(self.0)
    }

    fn is_nan(self) -> bool {
        self.bits() & !SIGN > INFINITY
    }
}

/// Exponent (1 for the numbers near zero) and significand with its leading bit.
fn parts(magnitude: u128) -> (i32, u128) {
    let fraction = magnitude & (HIDDEN - 1);
    match (magnitude >> FRACTION) as i32 {
        0 => (1, fraction),
        exponent => (exponent, fraction | HIDDEN),
    }
}

/// Shifts right; what falls out stays visible in the lowest bit.
fn shift_sticky(value: u128, by: u32) -> u128 {
    match by {
        0 => value,
        1..128 => value >> by | u128::from(value << (128 - by) != 0),
        _ => u128::from(value != 0),
    }
}

/// The nearest number to `significand * 2^exponent`, ties to even. The significand has `GUARD` bits
/// below its last one, and its leading bit is in place unless the exponent is 1.
fn round(sign: u128, exponent: i32, significand: u128) -> u128 {
    let rest = significand & ((1 << GUARD) - 1);
    let mut kept = significand >> GUARD;
    let half = 1 << (GUARD - 1);
    kept += u128::from(rest > half || (rest == half && kept & 1 == 1));
    if exponent >= MAX_EXPONENT {
        return sign | INFINITY;
    }
    // A carry raises the exponent by itself; a missing leading bit makes it 0.
    sign | ((((exponent - 1) as u128) << FRACTION) + kept)
}

fn add(a: u128, b: u128) -> u128 {
    let (a, b) = if a & !SIGN >= b & !SIGN {
        (a, b)
    } else {
        (b, a)
    };
    let (large, small) = (a & !SIGN, b & !SIGN);
    let (sign, opposite) = (a & SIGN, (a ^ b) & SIGN != 0);
    if large > INFINITY || (opposite && small == INFINITY) {
        return NOT_A_NUMBER;
    }
    if large == INFINITY {
        return a;
    }
    let ((mut exponent, x), (e, y)) = (parts(large), parts(small));
    let x = x << GUARD;
    let y = shift_sticky(y << GUARD, (exponent - e) as u32);
    if !opposite {
        let mut sum = x + y;
        if sum >> (FRACTION + GUARD + 1) != 0 {
            sum = shift_sticky(sum, 1);
            exponent += 1;
        }
        return round(sign, exponent, sum);
    }
    let difference = x - y;
    if difference == 0 {
        return 0; // exact cancellation is positive
    }
    let missing = difference.leading_zeros() as i32 - (127 - (FRACTION + GUARD) as i32);
    let shift = missing.min(exponent - 1);
    round(sign, exponent - shift, difference << shift)
}

/// The 256-bit product as (high, low).
fn wide_product(a: u128, b: u128) -> (u128, u128) {
    let mask = u128::from(u64::MAX);
    let (a1, a0, b1, b0) = (a >> 64, a & mask, b >> 64, b & mask);
    let low = a0 * b0;
    let middle = a1 * b0 + (low >> 64); // cannot overflow: a1 * b0 <= (2^64 - 1)^2
    let (middle, carry) = middle.overflowing_add(a0 * b1);
    let high = a1 * b1 + (middle >> 64) + (u128::from(carry) << 64);
    (high, middle << 64 | low & mask)
}

fn multiply(a: u128, b: u128) -> u128 {
    let sign = (a ^ b) & SIGN;
    let (a, b) = (a & !SIGN, b & !SIGN);
    if a.max(b) > INFINITY || (a.max(b) == INFINITY && a.min(b) == 0) {
        return NOT_A_NUMBER;
    }
    if a.max(b) == INFINITY {
        return sign | INFINITY;
    }
    if a.min(b) == 0 {
        return sign;
    }
    let normal = |magnitude| {
        let (exponent, significand) = parts(magnitude);
        let missing = significand.leading_zeros() as i32 - 15;
        (exponent - missing, significand << missing)
    };
    let ((ea, x), (eb, y)) = (normal(a), normal(b));
    // The product has its leading bit at 224 or 225; bring it to 112 + GUARD.
    let (high, low) = wide_product(x, y);
    let mut exponent = ea + eb - BIAS;
    let shift = FRACTION - GUARD;
    let mut product = high << (128 - shift) | low >> shift;
    product |= u128::from(low << (128 - shift) != 0);
    if product >> (FRACTION + GUARD + 1) != 0 {
        product = shift_sticky(product, 1);
        exponent += 1;
    }
    if exponent < 1 {
        product = shift_sticky(product, (1 - exponent) as u32);
        exponent = 1;
    }
    round(sign, exponent, product)
}

impl Arithmetic for Quad {
    fn plus(self, other: Self) -> Self {
        Self::from_bits(add(self.bits(), other.bits()))
    }

    fn minus(self, other: Self) -> Self {
        Self::from_bits(add(self.bits(), other.bits() ^ SIGN))
    }

    fn times(self, other: Self) -> Self {
        Self::from_bits(multiply(self.bits(), other.bits()))
    }
}

impl Ordered for Quad {
    fn less(self, other: Self) -> bool {
        if self.is_nan() || other.is_nan() {
            return false;
        }
        signed_magnitude(self.bits(), SIGN) < signed_magnitude(other.bits(), SIGN)
    }

    fn below(self, other: Self) -> bool {
        total(self.bits(), SIGN) < total(other.bits(), SIGN)
    }
}

/// A number whose order is that of all bit patterns with this sign bit, the negative zero below the other.
pub(super) fn total(bits: u128, sign: u128) -> i128 {
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign != 0 {
        !magnitude
    } else {
        magnitude
    }
}

/// A number whose order is that of the sign-and-magnitude number with this sign bit.
pub(super) fn signed_magnitude(bits: u128, sign: u128) -> i128 {
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        assert!(inf.plus(quad(f64::NEG_INFINITY)).is_nan());
        assert!(inf.times(zero).is_nan() && nan.plus(zero).is_nan());
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
