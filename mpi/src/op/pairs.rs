//! `MPI_MINLOC` and `MPI_MAXLOC` on pairs of a value and an index (MPI-5.0 §6.9.4).

use std::ptr;

use half::f16;

use super::arith::Ordered;
use super::quad::Quad;
use crate::datatype::Scalar;

#[cfg(target_arch = "x86_64")]
pub(super) use super::long_double::LongDouble;
/// Elsewhere C's `long double` is IEEE binary128.
#[cfg(not(target_arch = "x86_64"))]
pub(super) use super::quad::Quad as LongDouble;

/// How pairs lie in memory, and which one wins.
#[derive(Clone, Copy)]
pub(super) struct Pairs {
    value: Scalar,
    index: Scalar,
    /// Where the index begins, in bytes from the pair's begin.
    index_at: usize,
    /// Bytes from one pair to the next.
    extent: usize,
    /// Bytes of the pair without the padding after it.
    length: usize,
    /// `MPI_MAXLOC`, not `MPI_MINLOC`.
    largest: bool,
}

impl Pairs {
    /// C structs of these two members.
    pub fn new(value: Scalar, index: Scalar, largest: bool) -> Self {
        let index_at = value.size().next_multiple_of(index.align());
        let length = index_at + index.size();
        Self {
            value,
            index,
            index_at,
            extent: length.next_multiple_of(value.align().max(index.align())),
            length,
            largest,
        }
    }

    /// Keeps the winner of each two pairs in `inout`; of equal values the smaller index.
    ///
    /// # Safety
    /// `count` pairs are readable at `input`, and readable and writable at `inout`.
    pub unsafe fn run(&self, input: *const u8, inout: *mut u8, count: usize) {
        for i in 0..count {
            // SAFETY: `i` is below `count`; the members lie where a C compiler puts them.
            unsafe {
                let (left, right) = (input.add(i * self.extent), inout.add(i * self.extent));
                if self.left_wins(left, right) {
                    // Not the padding at the end: it may lie beyond the last pair's memory.
                    ptr::copy_nonoverlapping(left, right, self.length);
                }
            }
        }
    }

    /// Whether the pair at `left` is to be kept.
    ///
    /// # Safety
    /// Both point to pairs.
    #[inline(always)]
    unsafe fn left_wins(&self, left: *const u8, right: *const u8) -> bool {
        let (first, second) = if self.largest {
            (right, left)
        } else {
            (left, right)
        };
        // SAFETY: the caller vouches for the pairs.
        unsafe {
            if less(self.value, first, second) {
                return true;
            }
            if less(self.value, second, first) {
                return false;
            }
            less(
                self.index,
                left.add(self.index_at),
                right.add(self.index_at),
            )
        }
    }
}

/// Whether one value is less than another; never for types without an order.
///
/// # Safety
/// Both point to values of this representation, at any alignment.
#[inline(always)]
unsafe fn less(scalar: Scalar, left: *const u8, right: *const u8) -> bool {
    macro_rules! compare {
        ($t:ty) => {
            // SAFETY: the caller vouches for both; unaligned accesses.
            unsafe {
                let (left, right) = (left.cast::<$t>(), right.cast::<$t>());
                left.read_unaligned().less(right.read_unaligned())
            }
        };
    }
    match scalar {
        Scalar::I8 => compare!(i8),
        Scalar::U8 => compare!(u8),
        Scalar::I16 => compare!(i16),
        Scalar::U16 => compare!(u16),
        Scalar::I32 => compare!(i32),
        Scalar::U32 => compare!(u32),
        Scalar::I64 => compare!(i64),
        Scalar::U64 => compare!(u64),
        Scalar::I128 => compare!(i128),
        Scalar::F16 => compare!(f16),
        Scalar::F32 => compare!(f32),
        Scalar::F64 => compare!(f64),
        Scalar::LongDouble => compare!(LongDouble),
        Scalar::F128 => compare!(Quad),
        Scalar::C16 | Scalar::C32 | Scalar::C64 | Scalar::LongDoubleComplex | Scalar::C128 => false,
    }
}
