//! What Open MPI's former binding for C++, `libmpi_cxx.so.40` of 4.1, needs here beside MPI's
//! functions and its operations. That library stays the one of Open MPI: its `mpicxx` links C++
//! programs with it, whether they use it or not.

use std::ffi::{c_int, c_void};

use rejoin_facade::export_macros::{absent, raise_program_code};

use crate::OpenMpi;
use crate::generated::predefined::ompi_mpi_errors_are_fatal;
use crate::predefined_objects::{Object, ObjectAddress, object};

/// Error handlers of C++ are not there: errors end the job. The binding writes into what it gets.
#[unsafe(no_mangle)]
extern "C" fn ompi_errhandler_create(_: c_int, _: *const c_void, _: c_int) -> ObjectAddress {
    absent::<OpenMpi>("MPI::Comm::Create_errhandler");
    ObjectAddress::of(&ompi_mpi_errors_are_fatal)
}

/// An error of the binding itself, for the handler of `MPI_COMM_WORLD`.
#[unsafe(no_mangle)]
extern "C" fn ompi_errhandler_invoke(
    _handler: *const c_void,
    _object: *const c_void,
    _kind: c_int,
    code: c_int,
    _message: *const std::ffi::c_char,
) -> c_int {
    raise_program_code::<OpenMpi>(code)
}

/// Attributes of C++ are not there.
#[unsafe(no_mangle)]
extern "C" fn ompi_attr_create_keyval() -> c_int {
    absent::<OpenMpi>("MPI::Comm::Create_keyval")
}

/// Codes of errors within Open MPI, of which there are none.
#[unsafe(no_mangle)]
pub static ompi_errcodes_intern: Object<13> = object(0, 0);
#[unsafe(no_mangle)]
pub static ompi_errcode_intern_lastused: c_int = 0;
/// Data representations of C++, of which there are none.
#[unsafe(no_mangle)]
pub static ompi_registered_datareps: Object<6> = object(0, 0);
