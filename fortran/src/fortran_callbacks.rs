//! Functions of the program that the library calls: operations, error handlers, and those of
//! generalized requests. They get integers for handles.

use std::ffi::{c_int, c_void};

use rejoin_fortran_arguments::{Entries, callback_entries};

use crate::fortran_export::{WORLD, fortran, give, refuse};
use crate::fortran_handles::{
    CHandle, COMM, CStatus, ERRHANDLER, FILE, NOTHING, OP, REQUEST, SESSION, TYPE, WIN,
};
use crate::generated::c_functions::*;
use crate::logicals::{of_c, of_fortran};

/// `MPI_ERR_NO_MEM`.
const NO_MEMORY: c_int = 39;

/// An operation with counts of this type, in C and in Fortran.
type Operation<T> = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut T, *mut CHandle);
type FortranOperation<T> = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut T, *mut c_int);
type ErrorHandler = unsafe extern "C" fn(*mut CHandle, *mut c_int);
type CreateHandler = unsafe extern "C" fn(*const c_void, *mut CHandle) -> c_int;
type FortranErrorHandler = unsafe extern "C" fn(*mut c_int, *mut c_int);

/// Says that there are no entries left.
///
/// # Safety
/// The pointer is null or valid.
#[cold]
unsafe fn no_entry(name: &str, ierror: *mut c_int) {
    let why = format!("{name}: 64 functions of a program of Fortran are kept, and no more");
    // SAFETY: the caller's promise.
    unsafe { refuse(WORLD, NO_MEMORY, &why, ierror) }
}

/// `MPI_OP_CREATE`, which differs in its counts only.
macro_rules! operations {
    ($($count:ty: $functions:ident $entries:ident $caller:ident
        [$($name:ident)*] [$($profiling:ident)*] $mpi:ident $pmpi:ident;)*) => {$(
        static $functions: Entries<64> = Entries::new();
        static $entries: [[Operation<$count>; 8]; 8] =
            callback_entries!($caller: Operation<$count>);

        unsafe extern "C" fn $caller<const ENTRY: usize>(
            from: *mut c_void, into: *mut c_void, count: *mut $count, datatype: *mut CHandle,
        ) {
            // SAFETY: the library gives a datatype, and calls an entry that has a function.
            unsafe {
                let function: FortranOperation<$count> =
                    std::mem::transmute($functions.get(ENTRY));
                let mut number = TYPE.number(*datatype);
                function(from, into, count, &mut number);
            }
        }

        fortran! { [$($name)*] [$($profiling)*] $mpi $pmpi |call| (
            function: *const c_void, commute: *const c_int, op: *mut c_int, ierror: *mut c_int
        ) {
            let Some(entry) = $functions.entry(function) else {
                return no_entry(stringify!($mpi), ierror);
            };
            let caller = $entries[entry / 8][entry % 8] as *const c_void;
            let mut made = NOTHING;
            let code = call(caller, of_c(*commute), &mut made);
            if code == 0 {
                OP.give(made, op);
            }
            give(ierror, code);
        } }
    )*};
}

operations! {
    c_int: OPERATIONS OPERATION_ENTRIES operation
    [mpi_op_create_ mpi_op_create_f08_] [pmpi_op_create_ pmpi_op_create_f08_]
    MPI_Op_create PMPI_Op_create;
    i64: LARGE_OPERATIONS LARGE_OPERATION_ENTRIES large_operation
    [mpi_op_create_c_f08_] [pmpi_op_create_c_f08_] MPI_Op_create_c PMPI_Op_create_c;
}

/// Error handlers of one kind of objects.
macro_rules! error_handlers {
    ($($kind:ident: $functions:ident $entries:ident $caller:ident $create:ident
        $name:ident $f08:ident $profiling:ident $profiling_f08:ident $mpi:ident $pmpi:ident;)*) => {$(
        static $functions: Entries<64> = Entries::new();
        static $entries: [[ErrorHandler; 8]; 8] = callback_entries!($caller: ErrorHandler);

        unsafe extern "C" fn $caller<const ENTRY: usize>(object: *mut CHandle, code: *mut c_int) {
            // SAFETY: the library gives an object and a code, and calls an entry with a function.
            unsafe {
                let function: FortranErrorHandler = std::mem::transmute($functions.get(ENTRY));
                let mut number = $kind.number(*object);
                function(&mut number, code);
            }
        }

        /// Makes an error handler of this kind.
        ///
        /// # Safety
        /// The function is the program's, and the places are valid.
        pub unsafe fn $create(
            call: CreateHandler, function: *const c_void, errhandler: *mut c_int,
            ierror: *mut c_int,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let Some(entry) = $functions.entry(function) else {
                    return no_entry(stringify!($mpi), ierror);
                };
                let mut made = NOTHING;
                let code = call($entries[entry / 8][entry % 8] as *const c_void, &mut made);
                if code == 0 {
                    ERRHANDLER.give(made, errhandler);
                }
                give(ierror, code);
            }
        }

        fortran! { [$name $f08] [$profiling $profiling_f08] $mpi $pmpi |call| (
            function: *const c_void, errhandler: *mut c_int, ierror: *mut c_int
        ) {
            $create(call, function, errhandler, ierror);
        } }
    )*};
}

error_handlers! {
    COMM: COMM_HANDLERS COMM_HANDLER_ENTRIES comm_handler create_comm_errhandler
    mpi_comm_create_errhandler_ mpi_comm_create_errhandler_f08_
    pmpi_comm_create_errhandler_ pmpi_comm_create_errhandler_f08_
    MPI_Comm_create_errhandler PMPI_Comm_create_errhandler;
    FILE: FILE_HANDLERS FILE_HANDLER_ENTRIES file_handler create_file_errhandler
    mpi_file_create_errhandler_ mpi_file_create_errhandler_f08_
    pmpi_file_create_errhandler_ pmpi_file_create_errhandler_f08_
    MPI_File_create_errhandler PMPI_File_create_errhandler;
    SESSION: SESSION_HANDLERS SESSION_HANDLER_ENTRIES session_handler create_session_errhandler
    mpi_session_create_errhandler_ mpi_session_create_errhandler_f08_
    pmpi_session_create_errhandler_ pmpi_session_create_errhandler_f08_
    MPI_Session_create_errhandler PMPI_Session_create_errhandler;
    WIN: WIN_HANDLERS WIN_HANDLER_ENTRIES win_handler create_win_errhandler
    mpi_win_create_errhandler_ mpi_win_create_errhandler_f08_
    pmpi_win_create_errhandler_ pmpi_win_create_errhandler_f08_
    MPI_Win_create_errhandler PMPI_Win_create_errhandler;
}

type Query = unsafe extern "C" fn(*mut isize, *mut CStatus, *mut c_int);
type Free = unsafe extern "C" fn(*mut isize, *mut c_int);
type Cancel = unsafe extern "C" fn(*mut isize, *const c_int, *mut c_int);

/// A generalized request of the program (MPI-5.0 §13.2). Its state is a value, which the program's
/// functions may change.
struct Generalized {
    query: Query,
    free: Free,
    cancel: Cancel,
    state: isize,
}

unsafe extern "C" fn query(request: *mut c_void, status: *mut CStatus) -> c_int {
    let mut code = 0;
    // SAFETY: the library gives what `MPI_Grequest_start` gave it, and a status.
    unsafe {
        let request = &mut *request.cast::<Generalized>();
        (request.query)(&mut request.state, status, &mut code);
    }
    code
}

unsafe extern "C" fn free(request: *mut c_void) -> c_int {
    let mut code = 0;
    // SAFETY: as above; the library calls this once, at the end.
    unsafe {
        let mut request = Box::from_raw(request.cast::<Generalized>());
        (request.free)(&mut request.state, &mut code);
    }
    code
}

unsafe extern "C" fn cancel(request: *mut c_void, complete: c_int) -> c_int {
    let mut code = 0;
    // SAFETY: as above.
    unsafe {
        let request = &mut *request.cast::<Generalized>();
        (request.cancel)(&mut request.state, &of_fortran(complete != 0), &mut code);
    }
    code
}

fortran! { [mpi_grequest_start_ mpi_grequest_start_f08_]
    [pmpi_grequest_start_ pmpi_grequest_start_f08_] MPI_Grequest_start PMPI_Grequest_start |call| (
    query_fn: Query, free_fn: Free, cancel_fn: Cancel, state: *const isize, request: *mut c_int,
    ierror: *mut c_int
) {
    let own = Generalized { query: query_fn, free: free_fn, cancel: cancel_fn, state: *state };
    let own = Box::into_raw(Box::new(own));
    let entries = [query as *const c_void, free as *const c_void, cancel as *const c_void];
    let mut made = NOTHING;
    let code = call(entries[0], entries[1], entries[2], own.cast(), &mut made);
    match code {
        0 => REQUEST.give(made, request),
        _ => drop(Box::from_raw(own)),
    }
    give(ierror, code);
} }

/// Conversions of data representations are not there. The address of the null function counts.
#[unsafe(no_mangle)]
extern "C" fn mpi_conversion_fn_null_() {}
#[unsafe(no_mangle)]
extern "C" fn mpi_conversion_fn_null_c_() {}
