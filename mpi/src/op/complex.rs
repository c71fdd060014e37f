//! Complex numbers: two reals in a row.

use super::arith::Arithmetic;

/// A complex number as C and Fortran lay it out.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Complex<T> {
    re: T,
    im: T,
}

impl<T: Arithmetic> Arithmetic for Complex<T> {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Self {
            re: self.re.plus(other.re),
            im: self.im.plus(other.im),
        }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        Self {
            re: self.re.minus(other.re),
            im: self.im.minus(other.im),
        }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Self {
            re: self.re.times(other.re).minus(self.im.times(other.im)),
            im: self.re.times(other.im).plus(self.im.times(other.re)),
        }
    }
}
