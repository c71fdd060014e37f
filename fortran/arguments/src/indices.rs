//! Indices, which Fortran counts from 1.

use std::ffi::c_int;

/// `MPI_UNDEFINED` of the standard ABI, and of Open MPI.
pub const UNDEFINED: c_int = -32766;

/// Counts indices from 1, as Fortran does.
///
/// # Safety
/// There are as many, if the count is not `MPI_UNDEFINED`.
pub unsafe fn count_from_one(count: c_int, indices: *mut c_int) {
    for i in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe {
            let index = indices.add(i);
            if *index != UNDEFINED {
                *index += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_count_from_one() {
        let mut indices = [0, 4, UNDEFINED, 9];
        // SAFETY: there are four.
        unsafe {
            count_from_one(3, indices.as_mut_ptr());
            count_from_one(UNDEFINED, indices.as_mut_ptr());
        }
        assert_eq!(indices, [1, 5, UNDEFINED, 9]);
    }
}
