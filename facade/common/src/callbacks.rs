//! Functions of the program that the library calls: operations, error handlers, and those of
//! generalized requests. They get handles, statuses and codes of the program.
//!
//! The standard gives operations and error handlers no state, so each function of the program has
//! an entry of its own.

use std::ffi::{c_int, c_void};

use rejoin_fortran_arguments::Entries;

use crate::abi_types::{AbiHandle, AbiStatus};
use crate::bound_library::functions;
use crate::export_macros::{raise, result_code};
use crate::facade_traits::{Facade, ProgramHandle};
use crate::handle_places::OutHandle;
use crate::status_copies::status_in;

/// `MPI_ERR_NO_MEM` of both.
const NO_MEMORY: c_int = 39;

/// A family of entries: the function of the library's type for each number.
trait Callers<T> {
    /// The entry of this number.
    fn caller<const ENTRY: usize>() -> T;
}

/// The entry of a number that is known only now.
fn caller_of<C: Callers<T>, T>(entry: usize) -> T {
    macro_rules! entries {
        ($($number:literal)*) => {
            match entry {
                $($number => C::caller::<{ $number }>(),)*
                _ => C::caller::<63>(),
            }
        };
    }
    entries! {
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    }
}

/// The count is an `int` or a large one: it passes as it is.
type Operation<H> = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_void, *mut H);
type ErrorHandler<H> = unsafe extern "C" fn(*mut H, *mut c_int);

static OPERATIONS: Entries<64> = Entries::new();
static FORTRAN_OPERATIONS: Entries<64> = Entries::new();
static ERROR_HANDLERS: Entries<64> = Entries::new();
static FORTRAN_ERROR_HANDLERS: Entries<64> = Entries::new();

/// Operations of the façade `F` in C; `FORTRAN`: in Fortran.
struct Operations<F, const FORTRAN: bool>(std::marker::PhantomData<F>);

impl<F: Facade, const FORTRAN: bool> Callers<Operation<AbiHandle>> for Operations<F, FORTRAN> {
    fn caller<const ENTRY: usize>() -> Operation<AbiHandle> {
        operation::<F, FORTRAN, ENTRY>
    }
}

unsafe extern "C" fn operation<F: Facade, const FORTRAN: bool, const ENTRY: usize>(
    from: *mut c_void,
    into: *mut c_void,
    count: *mut c_void,
    datatype: *mut AbiHandle,
) {
    // SAFETY: the library gives a datatype, and calls an entry that has a function.
    unsafe {
        let mut datatype = F::Datatype::of_abi(*datatype);
        if FORTRAN {
            let function = FORTRAN_OPERATIONS.get(ENTRY);
            let function: Operation<c_int> = std::mem::transmute(function);
            function(from, into, count, &mut datatype.fortran());
        } else {
            let function: Operation<F::Datatype> = std::mem::transmute(OPERATIONS.get(ENTRY));
            function(from, into, count, &mut datatype);
        }
    }
}

/// Error handlers of the façade `F` for objects with handles `H`.
struct ErrorHandlers<F, H, const FORTRAN: bool>(std::marker::PhantomData<(F, H)>);

impl<F: Facade, H: ProgramHandle, const FORTRAN: bool> Callers<ErrorHandler<AbiHandle>>
    for ErrorHandlers<F, H, FORTRAN>
{
    fn caller<const ENTRY: usize>() -> ErrorHandler<AbiHandle> {
        error_handler::<F, H, FORTRAN, ENTRY>
    }
}

unsafe extern "C" fn error_handler<
    F: Facade,
    H: ProgramHandle,
    const FORTRAN: bool,
    const ENTRY: usize,
>(
    object: *mut AbiHandle,
    code: *mut c_int,
) {
    // SAFETY: the library gives an object and a code, and calls an entry that has a function.
    unsafe {
        let (mut object, mut code) = (H::of_abi(*object), F::error_out(*code));
        if FORTRAN {
            let function = FORTRAN_ERROR_HANDLERS.get(ENTRY);
            let function: ErrorHandler<c_int> = std::mem::transmute(function);
            function(&mut object.fortran(), &mut code);
        } else {
            let function: ErrorHandler<H> = std::mem::transmute(ERROR_HANDLERS.get(ENTRY));
            function(&mut object, &mut code);
        }
    }
}

/// Makes an object of the library for a function of the program. No function stays none, which the
/// library refuses.
unsafe fn with_entry<F: Facade, H: ProgramHandle>(
    entries: &Entries<64>,
    function: *const c_void,
    place: *mut H,
    make: impl FnOnce(Option<usize>, *mut AbiHandle) -> c_int,
) -> c_int {
    let entry = match function.is_null() {
        true => None,
        false => entries.entry(function),
    };
    if entry.is_none() && !function.is_null() {
        eprintln!(
            "Rejoin keeps 64 functions of a program of {}: no more operations or error handlers",
            F::NAME
        );
        return raise::<F>(NO_MEMORY);
    }
    let mut made = OutHandle::new(place);
    let code = make(entry, made.place());
    // SAFETY: the program gives a place.
    unsafe { made.give() };
    result_code::<F>(code)
}

/// The address that the library gets for an entry.
fn address<C: Callers<T>, T: Copy>(entry: Option<usize>) -> *const c_void {
    entry.map_or(std::ptr::null(), |entry| {
        let caller: T = caller_of::<C, T>(entry);
        // SAFETY: the callers are functions, so their size is that of an address.
        unsafe { std::mem::transmute_copy(&caller) }
    })
}

/// The constructors of operations: their counts differ, which pass as they are.
macro_rules! operations {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($function:ident $fortran:literal);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The function is one of the program; the place is valid.
        pub unsafe fn $name<F: Facade>(
            function: *const c_void, commute: c_int, op: *mut F::Op,
        ) -> c_int {
            let (entries, function) = match $fortran {
                true => (&FORTRAN_OPERATIONS, function),
                false => (&OPERATIONS, F::operation(function)),
            };
            // SAFETY: the caller's promise; the entry is of the operation's type.
            unsafe {
                with_entry::<F, _>(entries, function, op, |entry, made| {
                    let caller = address::<Operations<F, $fortran>, Operation<AbiHandle>>(entry);
                    (functions().$function)(caller, commute, made)
                })
            }
        }
    )*};
}

operations! {
    /// `MPI_Op_create`.
    pub unsafe fn op_create<F: Facade>(op_create false);
    /// `MPI_Op_create_c`.
    pub unsafe fn op_create_c<F: Facade>(op_create_c false);
    /// `MPI_OP_CREATE` of Fortran.
    pub unsafe fn create_fortran_operation<F: Facade>(op_create true);
}

/// The constructors of error handlers differ in their objects only.
macro_rules! error_handlers {
    ($($(#[$doc:meta])* pub unsafe fn $name:ident<F: Facade>($function:ident $kind:ident $fortran:literal);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// The function is one of the program; the place is valid.
        pub unsafe fn $name<F: Facade>(function: *const c_void, made: *mut F::Errhandler) -> c_int {
            let entries = if $fortran { &FORTRAN_ERROR_HANDLERS } else { &ERROR_HANDLERS };
            // SAFETY: the caller's promise; the entry is of the handler's type.
            unsafe {
                with_entry::<F, _>(entries, function, made, |entry, made| {
                    let caller = address::<
                        ErrorHandlers<F, F::$kind, $fortran>, ErrorHandler<AbiHandle>
                    >(entry);
                    (functions().$function)(caller, made)
                })
            }
        }
    )*};
}

error_handlers! {
    /// `MPI_Comm_create_errhandler`.
    pub unsafe fn comm_create_errhandler<F: Facade>(comm_create_errhandler Comm false);
    /// `MPI_Errhandler_create`.
    pub unsafe fn errhandler_create<F: Facade>(comm_create_errhandler Comm false);
    /// `MPI_File_create_errhandler`.
    pub unsafe fn file_create_errhandler<F: Facade>(file_create_errhandler File false);
    /// `MPI_Session_create_errhandler`.
    pub unsafe fn session_create_errhandler<F: Facade>(session_create_errhandler Session false);
    /// `MPI_Win_create_errhandler`.
    pub unsafe fn win_create_errhandler<F: Facade>(win_create_errhandler Win false);
    /// `MPI_COMM_CREATE_ERRHANDLER` of Fortran.
    pub unsafe fn create_fortran_comm_handler<F: Facade>(comm_create_errhandler Comm true);
    /// `MPI_FILE_CREATE_ERRHANDLER` of Fortran.
    pub unsafe fn create_fortran_file_handler<F: Facade>(file_create_errhandler File true);
    /// `MPI_SESSION_CREATE_ERRHANDLER` of Fortran.
    pub unsafe fn create_fortran_session_handler<F: Facade>(session_create_errhandler Session true);
    /// `MPI_WIN_CREATE_ERRHANDLER` of Fortran.
    pub unsafe fn create_fortran_win_handler<F: Facade>(win_create_errhandler Win true);
}

type Query<S> = unsafe extern "C" fn(*mut c_void, *mut S) -> c_int;
type Free = unsafe extern "C" fn(*mut c_void) -> c_int;
type Cancel = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;

/// A generalized request of the program, which may have given no function.
struct Generalized<S> {
    query: Option<Query<S>>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    state: *mut c_void,
}

unsafe extern "C" fn query<F: Facade>(request: *mut c_void, status: *mut AbiStatus) -> c_int {
    let mut own = F::Status::default();
    // SAFETY: the library gives what `MPI_Grequest_start` gave it, and a status.
    unsafe {
        let request = &*request.cast::<Generalized<F::Status>>();
        let Some(query) = request.query else {
            return 0;
        };
        let code = query(request.state, &mut own);
        *status = status_in::<F>(&own);
        F::error_in(code)
    }
}

unsafe extern "C" fn free<F: Facade>(request: *mut c_void) -> c_int {
    // SAFETY: as above; the library calls this once, at the end.
    unsafe {
        let request = Box::from_raw(request.cast::<Generalized<F::Status>>());
        let free = request.free;
        free.map_or(0, |free| F::error_in(free(request.state)))
    }
}

unsafe extern "C" fn cancel<F: Facade>(request: *mut c_void, complete: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        let request = &*request.cast::<Generalized<F::Status>>();
        let cancel = request.cancel;
        cancel.map_or(0, |cancel| F::error_in(cancel(request.state, complete)))
    }
}

/// A function of the program, if it has given one.
///
/// # Safety
/// `T` is the type of a function.
pub(crate) unsafe fn function<T: Copy>(given: *const c_void) -> Option<T> {
    // SAFETY: the caller's promise; a function is not null.
    (!given.is_null()).then(|| unsafe { std::mem::transmute_copy(&given) })
}

/// `MPI_Grequest_start`.
///
/// # Safety
/// The functions are of their types, or null; the place is valid.
pub unsafe fn grequest_start<F: Facade>(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    state: *mut c_void,
    request: *mut F::Request,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let made = Box::into_raw(Box::new(Generalized::<F::Status> {
            query: function(query_fn),
            free: function(free_fn),
            cancel: function(cancel_fn),
            state,
        }));
        let mut handle = OutHandle::new(request);
        let code = (functions().grequest_start)(
            query::<F> as *const c_void,
            free::<F> as *const c_void,
            cancel::<F> as *const c_void,
            made.cast(),
            handle.place(),
        );
        handle.give();
        if code != 0 {
            drop(Box::from_raw(made));
        }
        result_code::<F>(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_facade::{Sample, Small};
    use std::sync::atomic::Ordering;

    #[test]
    fn each_entry_is_a_function_of_its_own() {
        let caller =
            |entry| address::<Operations<Sample, false>, Operation<AbiHandle>>(Some(entry));
        let mut all: Vec<usize> = (0..64).map(|entry| caller(entry).addr()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 64);
        assert!(address::<Operations<Sample, true>, Operation<AbiHandle>>(None).is_null());
    }

    unsafe extern "C" fn seen(object: *mut Small, code: *mut c_int) {
        // SAFETY: the test gives both.
        unsafe {
            assert_eq!((*object, *code), (Small(0x101), 1056));
        }
        SEEN.store(true, Ordering::Relaxed);
    }

    static SEEN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

    #[test]
    fn an_error_handler_gets_the_programs_handle_and_code() {
        let entry = ERROR_HANDLERS
            .entry(seen as *const c_void)
            .expect("there is room");
        type Handlers = ErrorHandlers<Sample, Small, false>;
        let caller: ErrorHandler<AbiHandle> = caller_of::<Handlers, _>(entry);
        let (mut world, mut code) = (AbiHandle::WORLD, 56);
        // SAFETY: both are valid.
        unsafe { caller(&mut world, &mut code) };
        assert!(SEEN.load(Ordering::Relaxed));
    }
}
