//! Error handlers (MPI-5.0 §9.3).

use std::ffi::c_int;

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::callback::Callback;
use crate::constants::*;
use crate::errors::{self, Handler, Installed, Owner};
use crate::handles::{self, Handle};
use crate::state::Mpi;
use crate::support::{arg_error, load, store};
use crate::types::*;

macro_rules! errhandlers {
    ($handle:ident, $handler:ident, $function:ident, $arg:ident,
     $create:ident, $get:ident, $set:ident, $call:ident, $fitting:ident) => {
        /// Makes an error handler of a function of the program.
        ///
        /// # Safety
        /// The function has the declared type; `errhandler` is null or valid.
        pub unsafe fn $create(
            mpi: &Mpi,
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
            mpi: &Mpi,
            $arg: $handle,
            errhandler: *mut MPI_Errhandler,
        ) -> Result<()> {
            check(mpi, $arg)?;
            let handle = handle_of(mpi, mpi.errors.handler($arg));
            // SAFETY: the program passed it for the result.
            unsafe { store(errhandler, "the error handler", handle) }
        }

        /// Gives the object an error handler.
        pub fn $set(mpi: &Mpi, $arg: $handle, errhandler: MPI_Errhandler) -> Result<()> {
            check(mpi, $arg)?;
            mpi.errors.set_handler($arg, $fitting(mpi, errhandler)?);
            Ok(())
        }

        /// An error handler that an object of this kind can have.
        ///
        /// # Errors
        /// `Errhandler` for an invalid handle, or one for objects of another kind.
        pub fn $fitting(mpi: &Mpi, errhandler: MPI_Errhandler) -> Result<Installed> {
            let handler = resolve(mpi, errhandler)?;
            let fits = match handler.action {
                Handler::AreFatal | Handler::Abort | Handler::Return | Handler::$handler(_) => true,
                _ => false,
            };
            if !fits {
                let text = concat!(
                    "the error handler was not made for a ",
                    stringify!($handler)
                );
                return Err(Error::new(ErrorClass::Errhandler, text));
            }
            Ok(handler)
        }

        /// Calls the object's error handler.
        pub fn $call(mpi: &Mpi, $arg: $handle, errorcode: c_int) -> Result<()> {
            check(mpi, $arg)?;
            errors::invoke(mpi, Owner::of($arg), errorcode);
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
    comm_call_errhandler,
    comm_handler
);
errhandlers!(
    MPI_Win,
    Win,
    MPI_Win_errhandler_function,
    win,
    win_create_errhandler,
    win_get_errhandler,
    win_set_errhandler,
    win_call_errhandler,
    win_handler
);
errhandlers!(
    MPI_File,
    File,
    MPI_File_errhandler_function,
    file,
    file_create_errhandler,
    file_get_errhandler,
    file_set_errhandler,
    file_call_errhandler,
    file_handler
);
errhandlers!(
    MPI_Session,
    Session,
    MPI_Session_errhandler_function,
    session,
    session_create_errhandler,
    session_get_errhandler,
    session_set_errhandler,
    session_call_errhandler,
    session_handler
);

/// `MPI_Errhandler_free`: objects that have the handler keep it.
///
/// # Safety
/// `errhandler` is null or valid.
pub unsafe fn errhandler_free(mpi: &Mpi, errhandler: *mut MPI_Errhandler) -> Result<()> {
    // SAFETY: the caller's promise.
    let handle = unsafe { load(errhandler, "the error handler") }?;
    // Handles of the predefined ones may come from MPI_Comm_get_errhandler and are freed like others.
    if predefined(handle).is_none() {
        mpi.errors.free(handle)?;
    }
    // SAFETY: as above.
    unsafe { store(errhandler, "the error handler", MPI_ERRHANDLER_NULL) }
}

fn predefined(handle: MPI_Errhandler) -> Option<Handler> {
    match handle {
        MPI_ERRORS_ARE_FATAL => Some(Handler::AreFatal),
        MPI_ERRORS_ABORT => Some(Handler::Abort),
        MPI_ERRORS_RETURN => Some(Handler::Return),
        _ => None,
    }
}

fn resolve(mpi: &Mpi, handle: MPI_Errhandler) -> Result<Installed> {
    match predefined(handle) {
        Some(handler) => Ok(Installed::predefined(handler)),
        None => mpi.errors.handlers.get(handle),
    }
}

fn handle_of(mpi: &Mpi, handler: Installed) -> MPI_Errhandler {
    match handler.action {
        Handler::AreFatal => MPI_ERRORS_ARE_FATAL,
        Handler::Abort => MPI_ERRORS_ABORT,
        Handler::Return => MPI_ERRORS_RETURN,
        _ => mpi.errors.share(handler),
    }
}

/// The object exists.
fn check<H: Handle>(mpi: &Mpi, object: H) -> Result<()> {
    if mpi.exists(H::KIND, object.raw()) {
        return Ok(());
    }
    Err(handles::invalid(object))
}
