//! Functions of the program that the library calls: operations, error handlers, and those of
//! generalized requests. They get handles, statuses and codes of Open MPI.
//!
//! The standard gives operations and error handlers no state, so each function of the program has
//! an entry of its own. An entry is never given back: a handle that is freed may still be in use.
//! A function that is given again has its entry already.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::bound_library::functions;
use crate::export_macros::{export, raise, result_code};
use crate::fortran_arguments::TYPE;
use crate::generated::conversions::{error_in, error_out};
use crate::handle_places::handle_out;
use crate::program_types::{AbiHandle, AbiStatus, ProgramHandle, ProgramStatus};
use crate::status_copies::OneStatus;

/// `MPI_ERR_NO_MEM` of both.
const NO_MEMORY: c_int = 39;

/// The program's functions of one kind, by their entries.
struct Entries<const N: usize> {
    functions: [AtomicPtr<c_void>; N],
    adding: Mutex<()>,
}

impl<const N: usize> Entries<N> {
    const fn new() -> Self {
        Self {
            functions: [const { AtomicPtr::new(std::ptr::null_mut()) }; N],
            adding: Mutex::new(()),
        }
    }

    fn get(&self, entry: usize) -> *mut c_void {
        self.functions[entry].load(Ordering::Relaxed)
    }

    /// The number of the entry that calls this function; `None` if all call others.
    fn entry(&self, function: *const c_void) -> Option<usize> {
        let _adding = self.adding.lock();
        (0..N).find(|entry| {
            if self.get(*entry).is_null() {
                self.functions[*entry].store(function.cast_mut(), Ordering::Relaxed);
            }
            std::ptr::eq(self.get(*entry), function)
        })
    }
}

/// An array of one function for each of 64 entries.
macro_rules! entries {
    ($function:ident: $type:ty) => {
        entries!($function: $type; 0 8 16 24 32 40 48 56)
    };
    ($function:ident: $type:ty; $($first:literal)*) => {{
        const ALL: [[$type; 8]; 8] = [$([
            $function::<{ $first }>, $function::<{ $first + 1 }>, $function::<{ $first + 2 }>,
            $function::<{ $first + 3 }>, $function::<{ $first + 4 }>, $function::<{ $first + 5 }>,
            $function::<{ $first + 6 }>, $function::<{ $first + 7 }>,
        ]),*];
        ALL
    }};
}

type Operation = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut ProgramHandle);
type FortranOperation = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
type AbiOperation = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut AbiHandle);
type ErrorHandler = unsafe extern "C" fn(*mut ProgramHandle, *mut c_int);
type AbiErrorHandler = unsafe extern "C" fn(*mut AbiHandle, *mut c_int);

static OPERATIONS: Entries<64> = Entries::new();
static OPERATION_ENTRIES: [[AbiOperation; 8]; 8] = entries!(operation: AbiOperation);
static FORTRAN_OPERATIONS: Entries<64> = Entries::new();
static FORTRAN_OPERATION_ENTRIES: [[AbiOperation; 8]; 8] =
    entries!(fortran_operation: AbiOperation);
static ERROR_HANDLERS: Entries<64> = Entries::new();
static ERROR_HANDLER_ENTRIES: [[AbiErrorHandler; 8]; 8] = entries!(error_handler: AbiErrorHandler);

unsafe extern "C" fn operation<const ENTRY: usize>(
    from: *mut c_void,
    into: *mut c_void,
    count: *mut c_int,
    datatype: *mut AbiHandle,
) {
    // SAFETY: the library gives a datatype, and calls an entry that has a function.
    unsafe {
        let function: Operation = std::mem::transmute(OPERATIONS.get(ENTRY));
        let mut datatype = (*datatype).program();
        function(from, into, count, &mut datatype);
    }
}

unsafe extern "C" fn fortran_operation<const ENTRY: usize>(
    from: *mut c_void,
    into: *mut c_void,
    count: *mut c_int,
    datatype: *mut AbiHandle,
) {
    // SAFETY: as above.
    unsafe {
        let function: FortranOperation = std::mem::transmute(FORTRAN_OPERATIONS.get(ENTRY));
        let mut number = 0;
        TYPE.give((*datatype).program(), &mut number);
        function(from, into, count, &mut number);
    }
}

unsafe extern "C" fn error_handler<const ENTRY: usize>(object: *mut AbiHandle, code: *mut c_int) {
    // SAFETY: the library gives an object and a code, and calls an entry that has a function.
    unsafe {
        let function: ErrorHandler = std::mem::transmute(ERROR_HANDLERS.get(ENTRY));
        let (mut object, mut code) = ((*object).program(), error_out(*code));
        function(&mut object, &mut code);
    }
}

/// Makes an object of the library for a function of the program. No function stays none, which the
/// library refuses.
fn with_entry<const N: usize>(
    entries: &Entries<N>,
    function: *const c_void,
    made: *mut ProgramHandle,
    caller: impl FnOnce(usize) -> *const c_void,
    make: impl FnOnce(*const c_void) -> c_int,
) -> c_int {
    let code = if function.is_null() {
        make(function)
    } else if let Some(entry) = entries.entry(function) {
        make(caller(entry))
    } else {
        eprintln!(
            "Rejoin keeps {N} functions of a program of Open MPI: no more operations or error handlers"
        );
        return raise(NO_MEMORY);
    };
    // SAFETY: the program gives a place.
    unsafe { handle_out(made) };
    result_code(code)
}

/// `MPI_OP_CREATE`.
///
/// # Safety
/// The place is valid.
pub unsafe fn create_fortran_operation(
    function: *const c_void,
    commute: c_int,
    op: *mut ProgramHandle,
) -> c_int {
    let caller = |entry: usize| FORTRAN_OPERATION_ENTRIES[entry / 8][entry % 8] as *const c_void;
    with_entry(&FORTRAN_OPERATIONS, function, op, caller, |caller| {
        // SAFETY: the caller is of the operation's type; the place is valid.
        unsafe { (functions().op_create)(caller, commute, op.cast()) }
    })
}

export! { MPI_Op_create PMPI_Op_create (
    function: *const c_void, commute: c_int, op: *mut ProgramHandle
) -> c_int {
    let caller = |entry: usize| OPERATION_ENTRIES[entry / 8][entry % 8] as *const c_void;
    with_entry(&OPERATIONS, function, op, caller, |caller| {
        (functions().op_create)(caller, commute, op.cast())
    })
} }

/// The constructors of error handlers differ in their objects only.
macro_rules! error_handlers {
    ($($name:ident $profiling:ident $function:ident;)*) => {$(
        export! { $name $profiling (function: *const c_void, made: *mut ProgramHandle) -> c_int {
            let caller = |entry: usize| ERROR_HANDLER_ENTRIES[entry / 8][entry % 8] as *const c_void;
            with_entry(&ERROR_HANDLERS, function, made, caller, |caller| {
                (functions().$function)(caller, made.cast())
            })
        } }
    )*};
}

error_handlers! {
    MPI_Comm_create_errhandler PMPI_Comm_create_errhandler comm_create_errhandler;
    MPI_Errhandler_create PMPI_Errhandler_create comm_create_errhandler;
    MPI_File_create_errhandler PMPI_File_create_errhandler file_create_errhandler;
    MPI_Session_create_errhandler PMPI_Session_create_errhandler session_create_errhandler;
    MPI_Win_create_errhandler PMPI_Win_create_errhandler win_create_errhandler;
}

type Query = unsafe extern "C" fn(*mut c_void, *mut ProgramStatus) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// A generalized request of the program, which may have given no function.
struct Generalized {
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    state: *mut c_void,
}

unsafe extern "C" fn query(request: *mut c_void, status: *mut AbiStatus) -> c_int {
    let mut own = ProgramStatus::default();
    // SAFETY: the library gives what `MPI_Grequest_start` gave it, and a status.
    unsafe {
        let request = &*request.cast::<Generalized>();
        let Some(query) = request.query else {
            return 0;
        };
        let code = query(request.state, &mut own);
        *status = *OneStatus::of(&own).read();
        error_in(code)
    }
}

unsafe extern "C" fn free(request: *mut c_void) -> c_int {
    // SAFETY: as above; the library calls this once, at the end.
    unsafe {
        let request = Box::from_raw(request.cast::<Generalized>());
        request.free.map_or(0, |free| error_in(free(request.state)))
    }
}

unsafe extern "C" fn cancel(request: *mut c_void, complete: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        let request = &*request.cast::<Generalized>();
        request
            .cancel
            .map_or(0, |cancel| error_in(cancel(request.state, complete)))
    }
}

export! { MPI_Grequest_start PMPI_Grequest_start (
    query_fn: Option<Query>, free_fn: Option<Free>, cancel_fn: Option<Cancel>, state: *mut c_void,
    request: *mut ProgramHandle
) -> c_int {
    let made = Generalized { query: query_fn, free: free_fn, cancel: cancel_fn, state };
    let made = Box::into_raw(Box::new(made));
    let entries = [query as *const c_void, free as *const c_void, cancel as *const c_void];
    let [query, free, cancel] = entries;
    let code = (functions().grequest_start)(query, free, cancel, made.cast(), request.cast());
    handle_out(request);
    if code != 0 {
        drop(Box::from_raw(made));
    }
    result_code(code)
} }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_keeps_its_entry_and_no_entry_is_given_twice() {
        let entries = Entries::<2>::new();
        let [first, second, third] = [0x10, 0x20, 0x30].map(std::ptr::without_provenance);
        let got = [first, second, first, third].map(|f| entries.entry(f));
        assert_eq!(got, [Some(0), Some(1), Some(0), None]);
        assert_eq!(entries.get(1).cast_const(), second);
    }

    #[test]
    fn each_entry_is_a_function_of_its_own() {
        let all = OPERATION_ENTRIES.as_flattened().iter().map(|f| *f as usize);
        let mut all: Vec<usize> = all.collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 64);
    }

    unsafe extern "C" fn seen(object: *mut ProgramHandle, code: *mut c_int) {
        use crate::generated::predefined::ompi_mpi_comm_world;
        let world = crate::predefined_objects::ObjectAddress::of(&ompi_mpi_comm_world).handle();
        // SAFETY: the test gives both.
        unsafe {
            assert_eq!((*object, *code), (world, 53));
        }
        SEEN.store(true, Ordering::Relaxed);
    }

    static SEEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

    #[test]
    fn an_error_handler_gets_the_programs_handle_and_code() {
        let entry = ERROR_HANDLERS
            .entry(seen as *const c_void)
            .expect("there is room");
        let (mut world, mut code) = (AbiHandle(0x101), 56);
        // SAFETY: both are valid.
        unsafe { ERROR_HANDLER_ENTRIES[entry / 8][entry % 8](&mut world, &mut code) };
        assert!(SEEN.load(Ordering::Relaxed));
    }
}
