//! How functions are exported, and small functions that no rule makes.

use std::ffi::{c_int, c_void};

use crate::fortran_handles::{CHandle, CStatus};
use crate::generated::c_functions::*;

/// `MPI_COMM_WORLD`.
pub const WORLD: CHandle = CHandle(0x101);
/// `MPI_ERR_ARG`.
const BAD_ARGUMENT: c_int = 13;
/// `MPI_ERR_UNSUPPORTED_OPERATION`.
const UNSUPPORTED: c_int = 55;

/// Exports a function of Fortran, and the same under its profiling name. In its body `$call` is the
/// function of C, `MPI_` or `PMPI_`. A second name is that of the module `mpi_f08`, whose arguments
/// have the same form: a handle is a structure of one integer.
macro_rules! fortran {
    ([$name:ident $f08:ident] [$profiling:ident $profiling_f08:ident] $mpi:ident $pmpi:ident
        |$call:ident| ($($parameter:ident: $type:ty),* $(,)?) $body:block) => {
        crate::fortran_export::fortran! {
            [$name] [$profiling] $mpi $pmpi |$call| ($($parameter: $type),*) $body
        }
        #[allow(clippy::too_many_arguments)]
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $f08($($parameter: $type),*) {
                // SAFETY: as below.
                unsafe { $name($($parameter),*) }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $profiling_f08($($parameter: $type),*) {
                // SAFETY: as below.
                unsafe { $profiling($($parameter),*) }
            }
        };
    };
    ([$name:ident] [$profiling:ident] $mpi:ident $pmpi:ident
        |$call:ident| ($($parameter:ident: $type:ty),* $(,)?) $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        unsafe extern "C" fn $name($($parameter: $type),*) {
            let $call = $mpi;
            // SAFETY: the program keeps MPI's rules for the arguments.
            unsafe { $body }
        }
        #[unsafe(no_mangle)]
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        unsafe extern "C" fn $profiling($($parameter: $type),*) {
            let $call = $pmpi;
            // SAFETY: as above.
            unsafe { $body }
        }
    };
}

pub(crate) use fortran;

/// Gives the program the error code, if it wants one.
///
/// # Safety
/// The pointer is null or valid.
#[inline(always)]
pub unsafe fn give(ierror: *mut c_int, code: c_int) {
    // SAFETY: the caller's promise.
    if let Some(ierror) = unsafe { ierror.as_mut() } {
        *ierror = code;
    }
}

/// Brings an error to the handler of a communicator, says why, and gives the code.
///
/// # Safety
/// The pointer is null or valid.
#[cold]
#[inline(never)]
pub unsafe fn refuse(comm: CHandle, code: c_int, why: &str, ierror: *mut c_int) {
    eprintln!("{why}");
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: the places are valid; the communicator is the program's, or exists meanwhile.
    unsafe {
        PMPI_Initialized(&mut initialized);
        PMPI_Finalized(&mut finalized);
        if initialized != 0 && finalized == 0 {
            PMPI_Comm_call_errhandler(comm, code);
        }
        give(ierror, code);
    }
}

/// What a function does that is not there: an error with its name.
///
/// # Safety
/// The pointer is null or valid.
#[cold]
#[inline(never)]
pub unsafe fn lacks(name: &str, ierror: *mut c_int) {
    let why = format!("{name} is not there for Fortran");
    // SAFETY: the caller's promise.
    unsafe { refuse(WORLD, UNSUPPORTED, &why, ierror) }
}

/// A number of elements that fits what C takes; an error of the program gives none.
pub fn length(count: i64) -> usize {
    usize::try_from(count).unwrap_or(0)
}

// The call itself keeps a compiler from moving accesses of the buffer.
/// `MPI_F_SYNC_REG` in its three forms.
macro_rules! sync_reg {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(_buffer: *const c_void) {}
    )*};
}
sync_reg! { mpi_f_sync_reg_ pmpi_f_sync_reg_ mpi_f_sync_reg_f08ts_ pmpi_f_sync_reg_f08ts_ }

// What follows the level is the tool's own.
fortran! { [mpi_pcontrol_ mpi_pcontrol_f08_] [pmpi_pcontrol_ pmpi_pcontrol_f08_]
    MPI_Pcontrol PMPI_Pcontrol |call| (level: *const c_int) {
    call(*level);
} }

/// Functions of Fortran that give a number.
macro_rules! numbers {
    ($($name:ident $function:ident ($($parameter:ident: $type:ty),*) -> $result:ty;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($parameter: *const $type),*) -> $result {
            // SAFETY: it may be called at any time; the arguments are the program's.
            unsafe { $function($(*$parameter),*) }
        }
    )*};
}

numbers! {
    mpi_wtime_ MPI_Wtime() -> f64;
    pmpi_wtime_ PMPI_Wtime() -> f64;
    mpi_wtick_ MPI_Wtick() -> f64;
    pmpi_wtick_ PMPI_Wtick() -> f64;
    mpi_aint_add_ MPI_Aint_add(base: isize, change: isize) -> isize;
    pmpi_aint_add_ PMPI_Aint_add(base: isize, change: isize) -> isize;
    mpi_aint_diff_ MPI_Aint_diff(to: isize, from: isize) -> isize;
    pmpi_aint_diff_ PMPI_Aint_diff(to: isize, from: isize) -> isize;
}

/// `MPI_STATUS_F2F08` and `MPI_STATUS_F082F`: a status is the same integers in all forms.
macro_rules! status_copies {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(from: *const CStatus, to: *mut CStatus, ierror: *mut c_int) {
            // SAFETY: the program gives two statuses.
            unsafe {
                let is_constant = [from, to.cast_const()].into_iter().any(crate::sentinels::is_no_status);
                if !is_constant {
                    *to = *from;
                }
                give(ierror, if is_constant { BAD_ARGUMENT } else { 0 });
            }
        }
    )*};
}

status_copies! {
    mpi_status_f2f08_ pmpi_status_f2f08_ mpi_status_f2f08_f08_ pmpi_status_f2f08_f08_
    mpi_status_f082f_ pmpi_status_f082f_ mpi_status_f082f_f08_ pmpi_status_f082f_f08_
}

/// `MPI_BUFFER_DETACH` and its kind. `mpif.h` and the module `mpi` have no place for the address;
/// `mpi_f08` has a C pointer.
macro_rules! detaches {
    ($($name:ident $profiling:ident $f08:ident $profiling_f08:ident $large:ident $profiling_large:ident
        $mpi:ident $pmpi:ident $mpi_c:ident $pmpi_c:ident ($($object:ident $kind:ident)?);)*) => {$(
        fortran! { [$name] [$profiling] $mpi $pmpi |call| (
            $($object: *const c_int,)? _buffer: *mut c_void, size: *mut c_int, ierror: *mut c_int
        ) {
            let mut address = std::ptr::null_mut::<c_void>();
            let place = (&raw mut address).cast();
            give(ierror, call($(crate::fortran_handles::$kind.handle(*$object),)? place, size));
        } }
        fortran! { [$f08] [$profiling_f08] $mpi $pmpi |call| (
            $($object: *const c_int,)? buffer: *mut c_void, size: *mut c_int, ierror: *mut c_int
        ) {
            let code = call($(crate::fortran_handles::$kind.handle(*$object),)? buffer, size);
            if code == 0 {
                crate::sentinels::give_buffer(buffer);
            }
            give(ierror, code);
        } }
        fortran! { [$large] [$profiling_large] $mpi_c $pmpi_c |call| (
            $($object: *const c_int,)? buffer: *mut c_void, size: *mut i64, ierror: *mut c_int
        ) {
            let code = call($(crate::fortran_handles::$kind.handle(*$object),)? buffer, size);
            if code == 0 {
                crate::sentinels::give_buffer(buffer);
            }
            give(ierror, code);
        } }
    )*};
}

detaches! {
    mpi_buffer_detach_ pmpi_buffer_detach_ mpi_buffer_detach_f08_ pmpi_buffer_detach_f08_
    mpi_buffer_detach_c_f08_ pmpi_buffer_detach_c_f08_
    MPI_Buffer_detach PMPI_Buffer_detach MPI_Buffer_detach_c PMPI_Buffer_detach_c ();
    mpi_comm_detach_buffer_ pmpi_comm_detach_buffer_
    mpi_comm_detach_buffer_f08_ pmpi_comm_detach_buffer_f08_
    mpi_comm_detach_buffer_c_f08_ pmpi_comm_detach_buffer_c_f08_
    MPI_Comm_detach_buffer PMPI_Comm_detach_buffer MPI_Comm_detach_buffer_c PMPI_Comm_detach_buffer_c
    (comm COMM);
    mpi_session_detach_buffer_ pmpi_session_detach_buffer_
    mpi_session_detach_buffer_f08_ pmpi_session_detach_buffer_f08_
    mpi_session_detach_buffer_c_f08_ pmpi_session_detach_buffer_c_f08_
    MPI_Session_detach_buffer PMPI_Session_detach_buffer
    MPI_Session_detach_buffer_c PMPI_Session_detach_buffer_c (session SESSION);
}
