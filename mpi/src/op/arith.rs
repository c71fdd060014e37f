//! The arithmetic of basic values and the loop over them.
//!
//! IEEE binary16 is computed in binary32. Its precision is large enough that the second rounding
//! does not change sums and products (Figueroa, "When is double rounding innocuous?", 1995).

use half::f16;

/// A value with sum, difference and product.
pub(super) trait Arithmetic: Copy {
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

/// A value with an order; numbers that are not comparable are not less.
pub(super) trait Ordered: Copy {
    fn less(self, other: Self) -> bool;

    /// Whether the value is less in an order of all values, in which only equal bits are equal:
    /// IEEE 754's totalOrder. So the smaller and the larger of many are the same bits in whatever
    /// order they are compared.
    #[inline(always)]
    fn below(self, other: Self) -> bool {
        self.less(other)
    }
}

/// A number whose order is that of all bit patterns with this sign bit, the negative zero below the
/// other.
pub(super) fn total(bits: u128, sign: u128) -> i128 {
    let magnitude = (bits & (sign - 1)) as i128;
    if bits & sign != 0 {
        !magnitude
    } else {
        magnitude
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Arithmetic for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}

macro_rules! ordered {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
    )*};
}

macro_rules! ordered_floats {
    ($($t:ty)*) => {$(
        impl Ordered for $t {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                self.total_cmp(&other).is_lt()
            }
        }
    )*};
}

integers!(u8 u16 u32 u64 u128);
floats!(f16 f32 f64);
ordered!(i8 u8 i16 u16 i32 u32 i64 u64 i128);
ordered_floats!(f16 f32 f64);

/// An operation on two values of a type: `left op right`.
pub(super) trait Combine<T> {
    fn combine(left: T, right: T) -> T;
}

/// `left + right`.
pub(super) struct Sum;
/// `left * right`.
pub(super) struct Prod;
/// The smaller one.
pub(super) struct Min;
/// The larger one.
pub(super) struct Max;
/// Bits set in both.
pub(super) struct Band;
/// Bits set in one or both.
pub(super) struct Bor;
/// Bits set in one.
pub(super) struct Bxor;
/// Both values are not zero.
pub(super) struct Land;
/// One or both values are not zero.
pub(super) struct Lor;
/// Exactly one value is not zero.
pub(super) struct Lxor;

impl<T: Arithmetic> Combine<T> for Sum {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left.plus(right)
    }
}

impl<T: Arithmetic> Combine<T> for Prod {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        left.times(right)
    }
}

impl<T: Ordered> Combine<T> for Min {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        if left.below(right) { left } else { right }
    }
}

impl<T: Ordered> Combine<T> for Max {
    #[inline(always)]
    fn combine(left: T, right: T) -> T {
        if right.below(left) { left } else { right }
    }
}

macro_rules! bit_operations {
    ($($t:ty)*) => {$(
        impl Combine<$t> for Band {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                left & right
            }
        }
        impl Combine<$t> for Bor {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                left | right
            }
        }
        impl Combine<$t> for Bxor {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                left ^ right
            }
        }
        impl Combine<$t> for Land {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                ((left != 0) & (right != 0)) as $t
            }
        }
        impl Combine<$t> for Lor {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                ((left != 0) | (right != 0)) as $t
            }
        }
        impl Combine<$t> for Lxor {
            #[inline(always)]
            fn combine(left: $t, right: $t) -> $t {
                ((left != 0) ^ (right != 0)) as $t
            }
        }
    )*};
}

bit_operations!(u8 u16 u32 u64 u128);

/// `inout[i] = input[i] op inout[i]`; the loop vectorises where the operation does.
///
/// # Safety
/// `count` values of `T` are readable at `input`, and readable and writable at `inout`, at any
/// alignment; they do not overlap.
pub(super) unsafe fn each<T: Copy, O: Combine<T>>(input: *const u8, inout: *mut u8, count: usize) {
    let (input, inout) = (input.cast::<T>(), inout.cast::<T>());
    for i in 0..count {
        // SAFETY: `i` is below `count`; unaligned accesses.
        unsafe {
            let (left, right) = (input.add(i).read_unaligned(), inout.add(i));
            right.write_unaligned(O::combine(left, right.read_unaligned()));
        }
    }
}
