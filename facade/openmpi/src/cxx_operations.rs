//! Operations of Open MPI's binding for C++: it has one function for all of them, which calls the
//! program's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use rejoin_facade::bound_library::program_symbol;
use rejoin_facade::callback_entries;
use rejoin_facade::handle_kinds::{DATATYPE, OP};

use crate::object_handles::ObjectHandle;

type Operation =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut ObjectHandle<DATATYPE>);
/// Calls the last argument, a function of C++.
type Intercept = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    *mut c_int,
    *mut ObjectHandle<DATATYPE>,
    *mut c_void,
);

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
    datatype: *mut ObjectHandle<DATATYPE>,
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
extern "C" fn ompi_op_set_cxx_callback(_op: ObjectHandle<OP>, function: *mut c_void) {
    if let Some(entry) = NEW.take() {
        FUNCTIONS[entry].store(function, Ordering::Release);
    }
}
