//! Error handlers (MPI-5.0 §9.3).

use std::ffi::c_int;

use rejoin_mpi::Result;

use crate::callback::Callback;
use crate::constants::*;
use crate::errors::{ErrorOwner, Handler, Installed};
use crate::handles::{self, Handle};
use crate::raise;
use crate::state::AbiState;
use crate::support::{arg_error, load, store};
use crate::types::*;

macro_rules! errhandlers {
    ($handle:ident, $handler:ident, $function:ident, $arg:ident,
     $create:ident, $get:ident, $set:ident, $call:ident) => {
        /// Makes an error handler of a function of the program.
        ///
        /// # Safety
        /// The function has the declared type; `errhandler` is null or valid.
        pub unsafe fn $create(
            mpi: &AbiState,
            function: Callback<$function>,
            errhandler: *mut MPI_Errhandler,
        ) -> Result<()> {
            // SAFETY: the caller's promise.
            let function = unsafe { function.get() };
            let function = function.ok_or_else(|| arg_error("the function is null"))?;
            if errhandler.is_null() {
                return Err(arg_error("the pointer for the error handler is null"));
            }
            let handle = Installed::made(Handler::$handler(function));
            let handle = mpi.errors.handlers.insert(handle);
            // SAFETY: the program passed it for the result.
            unsafe { store(errhandler, "the error handler", handle) }
        }

        /// Gives the object's error handler as a handle that the program frees.
        ///
        /// # Safety
        /// `errhandler` is null or valid.
        pub unsafe fn $get(
            mpi: &AbiState,
            $arg: $handle,
            errhandler: *mut MPI_Errhandler,
        ) -> Result<()> {
            check(mpi, $arg)?;
            let handle = mpi.errors.share(mpi.errors.handler($arg));
            // SAFETY: the program passed it for the result.
            unsafe { store(errhandler, "the error handler", handle) }
        }

        /// Gives the object an error handler.
        pub fn $set(mpi: &AbiState, $arg: $handle, errhandler: MPI_Errhandler) -> Result<()> {
            check(mpi, $arg)?;
            mpi.errors
                .set_handler($arg, mpi.errors.find($handle::KIND, errhandler)?);
            Ok(())
        }

        /// Calls the object's error handler.
        pub fn $call(mpi: &AbiState, $arg: $handle, errorcode: c_int) -> Result<()> {
            check(mpi, $arg)?;
            raise::invoke(mpi, ErrorOwner::of($arg), errorcode);
            Ok(())
        }
    };
}

errhandlers!(
    MPI_Comm,
    Comm,
    MPI_Comm_errhandler_function,
    comm,
    comm_create_errhandler,
    comm_get_errhandler,
    comm_set_errhandler,
    comm_call_errhandler
);
errhandlers!(
    MPI_Win,
    Win,
    MPI_Win_errhandler_function,
    win,
    win_create_errhandler,
    win_get_errhandler,
    win_set_errhandler,
    win_call_errhandler
);
errhandlers!(
    MPI_File,
    File,
    MPI_File_errhandler_function,
    file,
    file_create_errhandler,
    file_get_errhandler,
    file_set_errhandler,
    file_call_errhandler
);
errhandlers!(
    MPI_Session,
    Session,
    MPI_Session_errhandler_function,
    session,
    session_create_errhandler,
    session_get_errhandler,
    session_set_errhandler,
    session_call_errhandler
);

/// `MPI_Errhandler_free`: objects that have the handler keep it.
///
/// # Safety
/// `errhandler` is null or valid.
pub unsafe fn errhandler_free(mpi: &AbiState, errhandler: *mut MPI_Errhandler) -> Result<()> {
    // SAFETY: the caller's promise.
    let handle = unsafe { load(errhandler, "the error handler") }?;
    // Handles of the predefined ones may come from MPI_Comm_get_errhandler and are freed like
    // others.
    if Installed::of_predefined(handle).is_none() {
        mpi.errors.free(handle)?;
    }
    // SAFETY: as above.
    unsafe { store(errhandler, "the error handler", MPI_ERRHANDLER_NULL) }
}

/// The object exists.
fn check<H: Handle>(mpi: &AbiState, object: H) -> Result<()> {
    if mpi.exists(H::KIND, object.raw()) {
        return Ok(());
    }
    Err(handles::invalid(object))
}
