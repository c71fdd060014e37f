//! What a program may ask about the library, and calls whose integers mean nothing to MPI.

use std::ffi::c_int;

use crate::bound_library::functions;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};

/// `MPI_Get_version`: that of the program's header.
///
/// # Safety
/// The places are valid.
pub unsafe fn get_version<F: Facade>(version: *mut c_int, subversion: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*version, *subversion) = F::VERSION }
    0
}

/// `MPI_Abi_get_version`: the program's interface is not the standard's.
///
/// # Safety
/// The places are valid.
pub unsafe fn abi_get_version<F: Facade>(major: *mut c_int, minor: *mut c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { (*major, *minor) = (-1, -1) }
    0
}

/// `MPI_Abort`. The code is the exit status of the job, so it stays what it is.
///
/// # Safety
/// It may be called at any time.
pub unsafe fn abort<F: Facade>(comm: F::Comm, code: c_int) -> c_int {
    // SAFETY: any handle may be given.
    result_code::<F>(unsafe { (functions().abort)(comm.abi(), code) })
}

/// `MPI_Pcontrol`. What follows the level is the tool's own.
///
/// # Safety
/// It may be called at any time.
pub unsafe fn pcontrol<F: Facade>(level: c_int) -> c_int {
    let _ = level;
    0
}
