//! Generalized requests (MPI-5.0 §13.2).

use std::ffi::{c_int, c_void};

use rejoin_mpi::request::GeneralizedCallbacks;
use rejoin_mpi::{Result, Status};

use crate::callback::{Callback, outside};
use crate::constants::*;
use crate::functions::point_to_point::request::{self, give, real};
use crate::functions::point_to_point::status::{bytes, is_cancelled};
use crate::state::AbiState;
use crate::types::*;

/// The program's three functions; null ones do nothing.
struct Functions {
    query: Option<MPI_Grequest_query_function>,
    free: Option<MPI_Grequest_free_function>,
    cancel: Option<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
}

fn result(code: c_int) -> Result<(), i32> {
    if code == MPI_SUCCESS {
        Ok(())
    } else {
        Err(code)
    }
}

impl GeneralizedCallbacks for Functions {
    fn query(&self) -> (Status, Result<(), i32>) {
        let mut status = MPI_Status {
            MPI_SOURCE: MPI_ANY_SOURCE,
            MPI_TAG: MPI_ANY_TAG,
            ..MPI_Status::default()
        };
        let said = match self.query {
            None => Ok(()),
            // SAFETY: the program's function, with the state it gave.
            Some(f) => result(outside(|| unsafe { f(self.extra_state, &raw mut status) })),
        };
        let status = Status {
            source: status.MPI_SOURCE,
            tag: status.MPI_TAG,
            count: bytes(&status),
            cancelled: is_cancelled(&status),
        };
        (status, said)
    }

    fn free(&self) -> Result<(), i32> {
        match self.free {
            None => Ok(()),
            // SAFETY: the program's function, with the state it gave.
            Some(f) => result(outside(|| unsafe { f(self.extra_state) })),
        }
    }

    fn cancel(&self, complete: bool) -> Result<(), i32> {
        match self.cancel {
            None => Ok(()),
            // SAFETY: the program's function, with the state it gave.
            Some(f) => result(outside(|| unsafe {
                f(self.extra_state, c_int::from(complete))
            })),
        }
    }
}

/// `MPI_Grequest_start`.
///
/// # Safety
/// The functions have their types; `request` is null or valid.
pub unsafe fn grequest_start(
    mpi: &AbiState,
    query_fn: Callback<MPI_Grequest_query_function>,
    free_fn: Callback<MPI_Grequest_free_function>,
    cancel_fn: Callback<MPI_Grequest_cancel_function>,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    // SAFETY: the caller's.
    let functions = unsafe {
        Functions {
            query: query_fn.get(),
            free: free_fn.get(),
            cancel: cancel_fn.get(),
            extra_state,
        }
    };
    let id = mpi.core()?.grequest_start(Box::new(functions));
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// `MPI_Grequest_complete`.
pub fn grequest_complete(mpi: &AbiState, request: MPI_Request) -> Result<()> {
    mpi.core()?.grequest_complete(real(request)?)
}
