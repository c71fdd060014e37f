//! Views that let one implementation serve the int form and the large-count form of a function
//! (MPI-5.0 §2.5.8).

use std::ffi::c_int;

use crate::constants::MPI_UNDEFINED;

/// An array of counts or displacements as the program passed it: ints in the plain form, 64-bit
/// numbers in the `_c` form.
#[derive(Clone, Copy, Debug)]
pub enum Counts {
    /// Of the plain form.
    Int(*const c_int),
    /// Of the large-count form, and addresses of both.
    Long(*const i64),
}

impl Counts {
    /// Whether the program passed a null pointer (allowed when the array is not significant).
    pub fn is_null(self) -> bool {
        match self {
            Self::Int(p) => p.is_null(),
            Self::Long(p) => p.is_null(),
        }
    }

    /// Element `index`.
    ///
    /// # Safety
    /// The program's array has more than `index` elements.
    #[inline]
    pub unsafe fn get(self, index: usize) -> i64 {
        match self {
            // SAFETY: the caller's promise.
            Self::Int(p) => i64::from(unsafe { p.add(index).read() }),
            // SAFETY: the caller's promise.
            Self::Long(p) => unsafe { p.add(index).read() },
        }
    }

    /// The first `len` elements.
    ///
    /// # Safety
    /// The program's array has at least `len` elements.
    pub unsafe fn to_vec(self, len: usize) -> Vec<i64> {
        // SAFETY: the caller's promise.
        (0..len).map(|i| unsafe { self.get(i) }).collect()
    }
}

impl From<*const c_int> for Counts {
    fn from(p: *const c_int) -> Self {
        Self::Int(p)
    }
}

impl From<*const i64> for Counts {
    fn from(p: *const i64) -> Self {
        Self::Long(p)
    }
}

impl From<*const isize> for Counts {
    fn from(p: *const isize) -> Self {
        Self::Long(p.cast())
    }
}

/// A count that the call gives back, or reads and gives back (the position of `MPI_Pack`).
#[derive(Clone, Copy, Debug)]
pub enum OutCount {
    /// Of the plain form.
    Int(*mut c_int),
    /// Of the large-count form, and addresses of both.
    Long(*mut i64),
}

/// A value does not fit the int of the plain form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoesNotFit;

impl OutCount {
    /// Whether the program passed a null pointer.
    pub fn is_null(self) -> bool {
        match self {
            Self::Int(p) => p.is_null(),
            Self::Long(p) => p.is_null(),
        }
    }

    /// Whether this is the large-count form.
    pub fn is_long(self) -> bool {
        matches!(self, Self::Long(_))
    }

    /// The value that the program passed in.
    ///
    /// # Safety
    /// The pointer is valid and its target initialised.
    pub unsafe fn get(self) -> i64 {
        match self {
            // SAFETY: the caller's promise.
            Self::Int(p) => i64::from(unsafe { p.read() }),
            // SAFETY: the caller's promise.
            Self::Long(p) => unsafe { p.read() },
        }
    }

    /// Stores `value`. A value that does not fit the plain form is stored as `MPI_UNDEFINED` and
    /// reported. Queries (`MPI_Type_size`, `MPI_Get_count`) ignore the report; other functions
    /// return an error.
    ///
    /// # Safety
    /// The pointer is valid.
    pub unsafe fn set(self, value: i64) -> Result<(), DoesNotFit> {
        match self {
            Self::Int(p) => {
                let narrow = c_int::try_from(value);
                // SAFETY: the caller's promise.
                unsafe { p.write(narrow.unwrap_or(MPI_UNDEFINED)) };
                narrow.map(|_| ()).map_err(|_| DoesNotFit)
            }
            Self::Long(p) => {
                // SAFETY: the caller's promise.
                unsafe { p.write(value) };
                Ok(())
            }
        }
    }
}

impl From<*mut c_int> for OutCount {
    fn from(p: *mut c_int) -> Self {
        Self::Int(p)
    }
}

impl From<*mut i64> for OutCount {
    fn from(p: *mut i64) -> Self {
        Self::Long(p)
    }
}

impl From<*mut isize> for OutCount {
    fn from(p: *mut isize) -> Self {
        Self::Long(p.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read_alike() {
        let (ints, longs) = ([1, -2, 3], [1i64, -2, 3]);
        let views = [Counts::from(ints.as_ptr()), Counts::from(longs.as_ptr())];
        for view in views {
            assert!(!view.is_null());
            // SAFETY: both arrays have three elements.
            assert_eq!(unsafe { view.to_vec(3) }, [1, -2, 3]);
        }
        assert!(Counts::from(std::ptr::null::<c_int>()).is_null());
    }

    #[test]
    fn what_does_not_fit_becomes_undefined() {
        let (mut int, mut long) = (7, 7i64);
        let (narrow, wide) = (OutCount::from(&raw mut int), OutCount::from(&raw mut long));
        // SAFETY: both variables live.
        unsafe {
            assert_eq!(narrow.get(), 7);
            assert_eq!(narrow.set(1 << 40), Err(DoesNotFit));
            assert_eq!(wide.set(1 << 40), Ok(()));
        }
        assert_eq!((int, long), (MPI_UNDEFINED, 1 << 40));
        // SAFETY: as above.
        assert_eq!(unsafe { narrow.set(-5) }, Ok(()));
        assert_eq!(int, -5);
    }
}
