//! Arguments of Fortran: integers for handles, texts that end with blanks, and addresses that stand
//! for something. Logical values are those of C with the compilers that the other MPIs are built
//! with (gfortran: 1 and 0).

use std::ffi::{c_int, c_void};

pub use rejoin_fortran_arguments::{OutText, UNDEFINED, count_from_one, in_text, in_trimmed_text};

use crate::abi_types::AbiHandle;
use crate::facade_traits::{Facade, ProgramHandle, ProgramStatus, Sentinel};

/// A place before the library has written a handle.
pub fn nothing<H: ProgramHandle>() -> H {
    H::of_abi(AbiHandle(0))
}

/// The handles of an array of integers.
///
/// # Safety
/// There are as many integers.
pub unsafe fn handles<H: ProgramHandle>(count: c_int, numbers: *const c_int) -> Vec<H> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: the caller's promise.
    let number = |i| unsafe { *numbers.add(i) };
    (0..count).map(|i| H::of_fortran(number(i))).collect()
}

/// Gives the program the integers of these handles.
///
/// # Safety
/// There are as many places.
pub unsafe fn give_all<H: ProgramHandle>(handles: &[H], places: *mut c_int) {
    for (i, handle) in handles.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { *places.add(i) = handle.fortran() }
    }
}

/// Whether a program means this variable.
fn is_at<F: Facade, T>(given: *const T, which: Sentinel) -> bool {
    given.addr() == F::sentinel(which)
}

/// A buffer, or what its address stands for in C.
pub fn buffer_at<F: Facade>(given: *mut c_void) -> *mut c_void {
    if is_at::<F, _>(given, Sentinel::Bottom) {
        return std::ptr::null_mut();
    }
    match is_at::<F, _>(given, Sentinel::InPlace) {
        true => std::ptr::without_provenance_mut(F::IN_PLACE),
        false => given,
    }
}

fn ignored<F: Facade>() -> *mut F::Status {
    std::ptr::without_provenance_mut(F::Status::IGNORED)
}

/// A status, or C's address of an ignored one.
pub fn status_at<F: Facade>(given: *mut F::Status) -> *mut F::Status {
    match is_at::<F, _>(given, Sentinel::StatusIgnore) {
        true => ignored::<F>(),
        false => given,
    }
}

/// Statuses, or C's address of ignored ones.
pub fn statuses_at<F: Facade>(given: *mut F::Status) -> *mut F::Status {
    match is_at::<F, _>(given, Sentinel::StatusesIgnore) {
        true => ignored::<F>(),
        false => given,
    }
}

/// Weights, or what their address stands for in C.
pub fn fortran_weights<F: Facade>(given: *mut c_int) -> *mut c_int {
    let [unweighted, empty] = F::no_weights();
    if is_at::<F, _>(given, Sentinel::Unweighted) {
        return std::ptr::without_provenance_mut(unweighted);
    }
    match is_at::<F, _>(given, Sentinel::WeightsEmpty) {
        true => std::ptr::without_provenance_mut(empty),
        false => given,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{ErrorFirst, Sample, Small};

    #[test]
    fn addresses_stand_for_what_they_are_named_after() {
        let at = |which| std::ptr::without_provenance_mut::<c_void>(Sample::sentinel(which));
        let mut own = ErrorFirst::default();
        let own: *mut ErrorFirst = &mut own;
        assert!(buffer_at::<Sample>(at(Sentinel::Bottom)).is_null());
        assert_eq!(
            buffer_at::<Sample>(at(Sentinel::InPlace)).addr(),
            Sample::IN_PLACE
        );
        assert_eq!(buffer_at::<Sample>(own.cast()), own.cast());
        assert_eq!(
            status_at::<Sample>(at(Sentinel::StatusIgnore).cast()).addr(),
            1
        );
        assert_eq!(
            statuses_at::<Sample>(at(Sentinel::StatusesIgnore).cast()).addr(),
            1
        );
        assert_eq!(status_at::<Sample>(own), own);
        for (which, address) in [(Sentinel::Unweighted, 2), (Sentinel::WeightsEmpty, 3)] {
            assert_eq!(fortran_weights::<Sample>(at(which).cast()).addr(), address);
        }
        assert_eq!(fortran_weights::<Sample>(own.cast()), own.cast());
    }

    #[test]
    fn handles_become_integers() {
        let numbers = [7, 0x180, 13];
        let mut back = [0; 3];
        // SAFETY: the lengths are those of the arrays.
        unsafe {
            let handles: Vec<Small> = handles(3, numbers.as_ptr());
            assert_eq!(handles[1].abi(), AbiHandle(0x180));
            give_all(&handles, back.as_mut_ptr());
        }
        assert_eq!(back, numbers);
    }
}
