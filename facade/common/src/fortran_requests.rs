//! Generalized requests of Fortran.

use std::ffi::{c_int, c_void};

use crate::abi_types::AbiStatus;
use crate::bound_library::functions;
use crate::callbacks::function;
use crate::export_macros::result_code;
use crate::facade_traits::{Facade, ProgramHandle};
use crate::fortran_arguments::nothing;
use crate::fortran_entries::give;
use crate::handle_places::OutHandle;
use crate::status_copies::status_in;

type Query<S> = unsafe extern "C" fn(*mut isize, *mut S, *mut c_int);
type Free = unsafe extern "C" fn(*mut isize, *mut c_int);
type Cancel = unsafe extern "C" fn(*mut isize, *const c_int, *mut c_int);

/// The program's functions, and the number that they get.
struct FortranRequest<S> {
    query: Option<Query<S>>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    state: isize,
}

unsafe extern "C" fn query<F: Facade>(request: *mut c_void, status: *mut AbiStatus) -> c_int {
    let (mut own, mut error) = (F::Status::default(), 0);
    // SAFETY: the library gives what `MPI_Grequest_start` gave it, and a status.
    unsafe {
        let request = &mut *request.cast::<FortranRequest<F::Status>>();
        if let Some(call) = request.query {
            call(&mut request.state, &mut own, &mut error);
            *status = status_in::<F>(&own);
        }
    }
    F::error_in(error)
}

unsafe extern "C" fn free<F: Facade>(request: *mut c_void) -> c_int {
    let mut error = 0;
    // SAFETY: as above; the library calls this once, at the end.
    unsafe {
        let mut request = Box::from_raw(request.cast::<FortranRequest<F::Status>>());
        if let Some(call) = request.free {
            call(&mut request.state, &mut error);
        }
    }
    F::error_in(error)
}

unsafe extern "C" fn cancel<F: Facade>(request: *mut c_void, complete: c_int) -> c_int {
    let mut error = 0;
    // SAFETY: as above.
    unsafe {
        let request = &mut *request.cast::<FortranRequest<F::Status>>();
        if let Some(call) = request.cancel {
            call(&mut request.state, &complete, &mut error);
        }
    }
    F::error_in(error)
}

/// `MPI_GREQUEST_START`.
///
/// # Safety
/// The functions are of their types; the places are valid.
pub unsafe fn fortran_grequest_start<F: Facade>(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    state: *const isize,
    request: *mut c_int,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let made = Box::into_raw(Box::new(FortranRequest::<F::Status> {
            query: function(query_fn),
            free: function(free_fn),
            cancel: function(cancel_fn),
            state: *state,
        }));
        let mut place = nothing::<F::Request>();
        let mut handle = OutHandle::new(&raw mut place);
        let code = (functions().grequest_start)(
            query::<F> as *const c_void,
            free::<F> as *const c_void,
            cancel::<F> as *const c_void,
            made.cast(),
            handle.place(),
        );
        handle.give();
        match code {
            0 => *request = place.fortran(),
            _ => drop(Box::from_raw(made)),
        }
        give(ierror, result_code::<F>(code));
    }
}
