//! The start of MPI: the library of C learns what the program's compiler has (MPI-5.0 §20.4).

use std::ffi::{CString, c_int, c_void};
use std::sync::Once;

use crate::fortran_export::{fortran, give};
use crate::fortran_handles::{CHandle, ERRHANDLER, INFO, NOTHING, SESSION};
use crate::generated::c_functions::*;
use crate::logicals::{CompilerFacts, compiler};

/// `MPI_INFO_NULL`.
const NO_INFO: CHandle = CHandle(0x130);

/// Tells the library of C, if nobody has. Only the first such call of a process counts.
fn describe_compiler() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let facts = compiler();
        // SAFETY: the places are valid, and the library runs: MPICH needs that here.
        unsafe {
            describe_logicals(&facts);
            describe_sizes(&facts);
        }
    });
}

unsafe fn describe_logicals(facts: &CompilerFacts) {
    let (mut yes, mut no, mut is_set) = (facts.yes, facts.no, 0);
    let (mut old_yes, mut old_no): (c_int, c_int) = (0, 0);
    // SAFETY: the places are valid, and have the size that is given.
    unsafe {
        let size = facts.sizes[0];
        let places = ((&raw mut old_yes).cast(), (&raw mut old_no).cast());
        let code = PMPI_Abi_get_fortran_booleans(size, places.0, places.1, &mut is_set);
        if code == 0 && is_set == 0 {
            let places = ((&raw mut yes).cast(), (&raw mut no).cast());
            PMPI_Abi_set_fortran_booleans(size, places.0, places.1);
        }
    }
}

unsafe fn describe_sizes(facts: &CompilerFacts) {
    // SAFETY: the places are valid; the texts end with 0.
    unsafe {
        let mut known = NO_INFO;
        if PMPI_Abi_get_fortran_info(&mut known) != 0 {
            return;
        }
        if known != NO_INFO {
            PMPI_Info_free(&mut known);
            return;
        }
        let mut info = NO_INFO;
        if PMPI_Info_create(&mut info) != 0 {
            return;
        }
        for (key, value) in descriptions(facts) {
            if let (Ok(key), Ok(value)) = (CString::new(key), CString::new(value)) {
                PMPI_Info_set(info, key.as_ptr(), value.as_ptr());
            }
        }
        PMPI_Abi_set_fortran_info(info);
        PMPI_Info_free(&mut info);
    }
}

/// The keys of `MPI_ABI_SET_FORTRAN_INFO` with their values.
fn descriptions(facts: &CompilerFacts) -> Vec<(String, String)> {
    let names = ["logical", "integer", "real", "double_precision"];
    let sizes = names.iter().zip(facts.sizes);
    let mut all: Vec<_> = sizes
        .map(|(name, size)| (format!("mpi_{name}_size"), size.to_string()))
        .collect();
    let [logicals, integers, reals] = facts.kinds;
    let mut supported = |name: &str, bytes: u32, is_there: bool| {
        all.push((format!("mpi_{name}{bytes}_supported"), is_there.to_string()));
    };
    for (bit, bytes) in [1, 2, 4, 8, 16].into_iter().enumerate() {
        let has = |kinds: c_int| kinds >> bit & 1 != 0;
        supported("logical", bytes, has(logicals));
        supported("integer", bytes, has(integers));
        if bytes > 1 {
            supported("real", bytes, has(reals));
            supported("complex", 2 * bytes, has(reals));
        }
    }
    all.push(("mpi_double_complex_supported".to_owned(), "true".to_owned()));
    all
}

fortran! { [mpi_init_ mpi_init_f08_] [pmpi_init_ pmpi_init_f08_] MPI_Init PMPI_Init |call| (
    ierror: *mut c_int
) {
    let code = call(std::ptr::null_mut(), std::ptr::null_mut());
    if code == 0 {
        describe_compiler();
    }
    give(ierror, code);
} }

fortran! { [mpi_init_thread_ mpi_init_thread_f08_] [pmpi_init_thread_ pmpi_init_thread_f08_]
    MPI_Init_thread PMPI_Init_thread |call| (
    required: *const c_int, provided: *mut c_int, ierror: *mut c_int
) {
    let code = call(std::ptr::null_mut(), std::ptr::null_mut(), *required, provided);
    if code == 0 {
        describe_compiler();
    }
    give(ierror, code);
} }

fortran! { [mpi_session_init_ mpi_session_init_f08_] [pmpi_session_init_ pmpi_session_init_f08_]
    MPI_Session_init PMPI_Session_init |call| (
    info: *const c_int, errhandler: *const c_int, session: *mut c_int, ierror: *mut c_int
) {
    let mut made = NOTHING;
    let code = call(INFO.handle(*info), ERRHANDLER.handle(*errhandler), &mut made);
    if code == 0 {
        describe_compiler();
        SESSION.give(made, session);
    }
    give(ierror, code);
} }

/// `MPI_ABI_GET_FORTRAN_BOOLEANS` gives LOGICAL values of the size that is asked for, and so does
/// the setter: the program's places are C's.
macro_rules! booleans {
    ($($name:ident $f08:ident $profiling:ident $profiling_f08:ident $mpi:ident $pmpi:ident
        ($($is_set:ident)?);)*) => {$(
        fortran! { [$name $f08] [$profiling $profiling_f08] $mpi $pmpi |call| (
            logical_size: *const c_int, yes: *mut c_void, no: *mut c_void,
            $($is_set: *mut c_int,)? ierror: *mut c_int
        ) {
            let code = call(*logical_size, yes, no $(, $is_set)?);
            $(if code == 0 { crate::logicals::give_logical($is_set); })?
            give(ierror, code);
        } }
    )*};
}

booleans! {
    mpi_abi_get_fortran_booleans_ mpi_abi_get_fortran_booleans_f08_
    pmpi_abi_get_fortran_booleans_ pmpi_abi_get_fortran_booleans_f08_
    MPI_Abi_get_fortran_booleans PMPI_Abi_get_fortran_booleans (is_set);
    mpi_abi_set_fortran_booleans_ mpi_abi_set_fortran_booleans_f08_
    pmpi_abi_set_fortran_booleans_ pmpi_abi_set_fortran_booleans_f08_
    MPI_Abi_set_fortran_booleans PMPI_Abi_set_fortran_booleans ();
}
