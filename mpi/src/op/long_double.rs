//! C's `long double` on x86-64: the x87 80-bit format in the first 10 of 16 bytes. Rust has no such
//! type and libraries compute it in integers, so the x87 unit is driven directly.

use std::arch::asm;

use super::arith::{Arithmetic, Ordered, total};

/// A `long double`, at any alignment. The 6 bytes of padding mean nothing.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct LongDouble([u8; 16]);

const SIGN: u128 = 1 << 79;
/// Infinity: above it, apart from the sign, lies what is not a number.
const INFINITY: u128 = 0x7fff << 64 | 1 << 63;

impl LongDouble {
    fn bits(self) -> u128 {
        u128::from_le_bytes(self.0) & (SIGN | (SIGN - 1))
    }

    fn is_nan(self) -> bool {
        self.bits() & !SIGN > INFINITY
    }
}

macro_rules! x87 {
    ($left:expr, $instruction:literal, $right:expr) => {{
        let (left, mut right) = ($left.0, $right.0);
        // SAFETY: reads 10 of the 16 bytes of each operand and writes 10 of the second. By the
        // calling convention the x87 stack is empty on entry; it is empty again afterwards.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                $instruction,
                "fstp tbyte ptr [{right}]",
                left = in(reg) left.as_ptr(),
                right = in(reg) right.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        LongDouble(right)
    }};
}

impl Arithmetic for LongDouble {
    fn plus(self, other: Self) -> Self {
        x87!(self, "faddp st(1), st", other)
    }

    fn minus(self, other: Self) -> Self {
        x87!(self, "fsubp st(1), st", other)
    }

    fn times(self, other: Self) -> Self {
        x87!(self, "fmulp st(1), st", other)
    }
}

impl Ordered for LongDouble {
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

/// A number whose order is that of the sign-and-magnitude number with this sign bit.
fn signed_magnitude(bits: u128, sign: u128) -> i128 {
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign != 0 {
        -magnitude
    } else {
        magnitude
    }
}

#[cfg(test)]
impl LongDouble {
    /// A binary64 as `long double`: always exact.
    pub fn from_f64(value: f64) -> Self {
        let mut out = [0; 16];
        // SAFETY: reads 8 bytes and writes 10 of 16; the x87 stack is balanced.
        unsafe {
            asm!(
                "fld qword ptr [{from}]",
                "fstp tbyte ptr [{to}]",
                from = in(reg) &value,
                to = in(reg) out.as_mut_ptr(),
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        Self(out)
    }

    /// The 16 bytes.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_has_64_bits_of_precision() {
        let (one, tiny) = (
            LongDouble::from_f64(1.0),
            LongDouble::from_f64(2f64.powi(-63)),
        );
        let sum = one.plus(tiny);
        assert_eq!(sum.bits(), one.bits() + 1);
        assert_eq!(sum.minus(one).bits(), tiny.bits());
        assert_eq!(one.minus(sum).bits(), tiny.bits() | SIGN);
        let product = LongDouble::from_f64(3.0).times(LongDouble::from_f64(-0.5));
        assert_eq!(product.bits(), LongDouble::from_f64(-1.5).bits());
    }

    #[test]
    fn the_order_is_that_of_numbers() {
        let sorted = [
            f64::NEG_INFINITY,
            -2.0,
            -1e-300,
            0.0,
            1e-300,
            1.0,
            f64::INFINITY,
        ];
        for (i, a) in sorted.iter().enumerate() {
            for (j, b) in sorted.iter().enumerate() {
                let less = LongDouble::from_f64(*a).less(LongDouble::from_f64(*b));
                assert_eq!(less, i < j, "{a} {b}");
            }
        }
        let (zero, nan) = (LongDouble::from_f64(0.0), LongDouble::from_f64(f64::NAN));
        assert!(!LongDouble::from_f64(-0.0).less(zero));
        assert!(!nan.less(zero) && !zero.less(nan));
    }
}
