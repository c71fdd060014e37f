//! What Open MPI's former binding for C++, `libmpi_cxx.so.40` of 4.1, needs here beside MPI's
//! functions. That library stays the one of Open MPI: its `mpicxx` links C++ programs with it,
//! whether they use it or not.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rejoin_facade::bound_library::program_symbol;
use rejoin_facade::export_macros::{absent, raise_program_code};
use rejoin_facade::{Facade, callback_entries};

use crate::OpenMpi;
use crate::generated::predefined::ompi_mpi_errors_are_fatal;
use crate::predefined_objects::{Object, ObjectAddress, object};

type Datatype = <OpenMpi as Facade>::Datatype;
type Operation = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
/// Calls the last argument, a function of C++.
type Intercept =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype, *mut c_void);

/// The binding's function for all operations.
static INTERCEPT: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
/// The functions of the program's operations.
static FUNCTIONS: [AtomicPtr<c_void>; 64] = [const { AtomicPtr::new(std::ptr::null_mut()) }; 64];
/// How many of them are taken; an operation that is freed may still be in use.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The operation that this thread has made, and whose function it has not given yet.
    static NEW: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

unsafe extern "C" fn operation<const ENTRY: usize>(
    from: *mut c_void,
    into: *mut c_void,
    count: *mut c_int,
    datatype: *mut Datatype,
) {
    let function = FUNCTIONS[ENTRY].load(Ordering::Acquire);
    // SAFETY: the binding's function, which was found before this operation was made.
    unsafe {
        let intercept = INTERCEPT.load(Ordering::Acquire);
        let intercept: Intercept = std::mem::transmute(intercept);
        intercept(from, into, count, datatype, function);
    }
}

static OPERATIONS: [[Operation; 8]; 8] = callback_entries!(operation: Operation);

/// The function that an operation is to call: the binding has one function for all operations, and
/// names the function of the program later ([`ompi_op_set_cxx_callback`]). Null if there are too
/// many.
pub fn own_operation(given: *const c_void) -> *const c_void {
    if given.is_null() || given != program_symbol(c"ompi_mpi_cxx_op_intercept") {
        return given;
    }
    INTERCEPT.store(given.cast_mut(), Ordering::Release);
    let entry = TAKEN.fetch_add(1, Ordering::Relaxed);
    let Some(operation) = OPERATIONS.as_flattened().get(entry) else {
        eprintln!("Rejoin keeps 64 operations of a program of C++: no more operations");
        return std::ptr::null();
    };
    NEW.set(Some(entry));
    *operation as *const c_void
}

/// Gives the operation that this thread has just made its function.
#[unsafe(no_mangle)]
extern "C" fn ompi_op_set_cxx_callback(_op: <OpenMpi as Facade>::Op, function: *mut c_void) {
    if let Some(entry) = NEW.take() {
        FUNCTIONS[entry].store(function, Ordering::Release);
    }
}

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
/// Data representations of C++, of which there are none: `MPI_Register_datarep` is not there.
#[unsafe(no_mangle)]
pub static ompi_registered_datareps: Object<6> = object(0, 0);
