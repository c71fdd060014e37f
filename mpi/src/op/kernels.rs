//! Which loop computes an operation on a basic type.

use half::f16;

use super::arith::{Band, Bor, Bxor, Combine, Land, Lor, Lxor, Max, Min, Prod, Sum, each};
use super::builtin::Builtin;
use super::complex::Complex;
use super::pairs::{LongDouble, Pairs};
use super::quad::Quad;
use crate::datatype::{Element, Scalar};

/// A loop over `count` values: `(input, inout, count)`.
type Loop = unsafe fn(*const u8, *mut u8, usize);

/// The function that computes an operation on a type.
pub(super) enum Kernel {
    /// A loop over basic values.
    Values(Loop),
    /// The comparison of pairs.
    Pairs(Pairs),
}

impl Kernel {
    /// Runs the loop.
    ///
    /// # Safety
    /// `count` elements of the type it was selected for are readable at `input`, and readable and
    /// writable at `inout`; they do not overlap.
    pub unsafe fn run(&self, input: *const u8, inout: *mut u8, count: usize) {
        // SAFETY: passed on from the caller.
        unsafe {
            match self {
                Kernel::Values(run) => run(input, inout, count),
                Kernel::Pairs(pairs) => pairs.run(input, inout, count),
            }
        }
    }
}

/// The loop for an operation, or `None` where there is none. The table of the standard is checked
/// before: this one only knows what can be computed.
pub(super) fn select(builtin: Builtin, element: Element) -> Option<Kernel> {
    let scalar = match element {
        Element::One(scalar) => scalar,
        Element::Pair { value, index } => {
            let largest = match builtin {
                Builtin::Minloc => false,
                Builtin::Maxloc => true,
                _ => return None,
            };
            let pairs = Pairs::new(value.scalar()?, index.scalar()?, largest);
            return Some(Kernel::Pairs(pairs));
        }
    };
    let values = match builtin {
        Builtin::Sum => arithmetic::<Sum>(scalar),
        Builtin::Prod => arithmetic::<Prod>(scalar),
        Builtin::Min => order::<Min>(scalar),
        Builtin::Max => order::<Max>(scalar),
        Builtin::Band => bits::<Band>(scalar),
        Builtin::Bor => bits::<Bor>(scalar),
        Builtin::Bxor => bits::<Bxor>(scalar),
        Builtin::Land => bits::<Land>(scalar),
        Builtin::Lor => bits::<Lor>(scalar),
        Builtin::Lxor => bits::<Lxor>(scalar),
        Builtin::Minloc | Builtin::Maxloc | Builtin::Replace | Builtin::NoOp => None,
    };
    values.map(Kernel::Values)
}

/// Sums and products; signed integers share the loops of the unsigned ones, as they wrap.
fn arithmetic<O>(scalar: Scalar) -> Option<Loop>
where
    O: Combine<u8> + Combine<u16> + Combine<u32> + Combine<u64> + Combine<u128>,
    O: Combine<f16> + Combine<f32> + Combine<f64> + Combine<LongDouble> + Combine<Quad>,
    O: Combine<Complex<f16>> + Combine<Complex<f32>> + Combine<Complex<f64>>,
    O: Combine<Complex<LongDouble>> + Combine<Complex<Quad>>,
{
    Some(match scalar {
        Scalar::I8 | Scalar::U8 => each::<u8, O>,
        Scalar::I16 | Scalar::U16 => each::<u16, O>,
        Scalar::I32 | Scalar::U32 => each::<u32, O>,
        Scalar::I64 | Scalar::U64 => each::<u64, O>,
        Scalar::I128 => each::<u128, O>,
        Scalar::F16 => each::<f16, O>,
        Scalar::F32 => each::<f32, O>,
        Scalar::F64 => each::<f64, O>,
        Scalar::LongDouble => each::<LongDouble, O>,
        Scalar::F128 => each::<Quad, O>,
        Scalar::C16 => each::<Complex<f16>, O>,
        Scalar::C32 => each::<Complex<f32>, O>,
        Scalar::C64 => each::<Complex<f64>, O>,
        Scalar::LongDoubleComplex => each::<Complex<LongDouble>, O>,
        Scalar::C128 => each::<Complex<Quad>, O>,
    })
}

/// Minimum and maximum.
fn order<O>(scalar: Scalar) -> Option<Loop>
where
    O: Combine<i8> + Combine<u8> + Combine<i16> + Combine<u16> + Combine<i32> + Combine<u32>,
    O: Combine<i64> + Combine<u64> + Combine<i128> + Combine<f16> + Combine<f32> + Combine<f64>,
    O: Combine<LongDouble> + Combine<Quad>,
{
    Some(match scalar {
        Scalar::I8 => each::<i8, O>,
        Scalar::U8 => each::<u8, O>,
        Scalar::I16 => each::<i16, O>,
        Scalar::U16 => each::<u16, O>,
        Scalar::I32 => each::<i32, O>,
        Scalar::U32 => each::<u32, O>,
        Scalar::I64 => each::<i64, O>,
        Scalar::U64 => each::<u64, O>,
        Scalar::I128 => each::<i128, O>,
        Scalar::F16 => each::<f16, O>,
        Scalar::F32 => each::<f32, O>,
        Scalar::F64 => each::<f64, O>,
        Scalar::LongDouble => each::<LongDouble, O>,
        Scalar::F128 => each::<Quad, O>,
        _ => return None,
    })
}

/// Operations on bits and on truth values.
fn bits<O>(scalar: Scalar) -> Option<Loop>
where
    O: Combine<u8> + Combine<u16> + Combine<u32> + Combine<u64> + Combine<u128>,
{
    Some(match scalar {
        Scalar::I8 | Scalar::U8 => each::<u8, O>,
        Scalar::I16 | Scalar::U16 => each::<u16, O>,
        Scalar::I32 | Scalar::U32 => each::<u32, O>,
        Scalar::I64 | Scalar::U64 => each::<u64, O>,
        Scalar::I128 => each::<u128, O>,
        _ => return None,
    })
}
