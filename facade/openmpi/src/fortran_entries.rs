//! Functions of Fortran that no rule makes, and what those do that are not there.

use std::ffi::{c_int, c_void};

use crate::bound_library::functions;
use crate::callbacks::create_fortran_operation;
use crate::export_macros::{absent, result_code};
use crate::fortran_arguments::{COMM, INFO, OP, give};
use crate::program_types::{AbiHandle, ProgramHandle};

/// `MPI_COMM_WORLD` of the standard ABI.
const WORLD: AbiHandle = AbiHandle(0x101);

/// Exports a function under the names that compilers give it, and that of Open MPI's own modules.
macro_rules! fortran {
    ($name:ident $profiling:ident $inner:ident ($($parameter:ident: $type:ty),*)
        $(-> $result:ty)? $body:block) => {
        #[allow(unused_unsafe, clippy::too_many_arguments)]
        const _: () = {
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($parameter: $type),*) $(-> $result)? {
                // SAFETY: the program keeps MPI's rules for the arguments.
                unsafe { $body }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $profiling($($parameter: $type),*) $(-> $result)? {
                // SAFETY: as above.
                unsafe { $body }
            }
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $inner($($parameter: $type),*) $(-> $result)? {
                // SAFETY: as above.
                unsafe { $body }
            }
        };
    };
}

/// Exports a function that is not there.
macro_rules! lacking {
    ($name:ident $profiling:ident $inner:ident $of_c:ident) => {
        crate::fortran_entries::fortran! { $name $profiling $inner () {
            crate::fortran_entries::lacks(concat!(stringify!($of_c), " (Fortran)"))
        } }
    };
}

pub(crate) use {fortran, lacking};

/// Ends the job, with the function's name: where the program's error code is, nobody knows here.
#[cold]
#[inline(never)]
pub fn lacks(name: &str) {
    let code = absent(name);
    // SAFETY: the handle is valid.
    unsafe {
        (functions().abort)(WORLD, code);
    }
}

unsafe extern "C" {
    fn PMPI_Init(argc: *mut c_int, argv: *mut c_void) -> c_int;
    fn PMPI_Init_thread(
        argc: *mut c_int,
        argv: *mut c_void,
        required: c_int,
        provided: *mut c_int,
    ) -> c_int;
    fn PMPI_Comm_get_attr(
        comm: ProgramHandle,
        keyval: c_int,
        value: *mut c_void,
        flag: *mut c_int,
    ) -> c_int;
}

fortran! { mpi_init_ pmpi_init_ ompi_init_f (ierror: *mut c_int) {
    give(ierror, PMPI_Init(std::ptr::null_mut(), std::ptr::null_mut()));
} }

fortran! { mpi_init_thread_ pmpi_init_thread_ ompi_init_thread_f (
    required: *const c_int, provided: *mut c_int, ierror: *mut c_int
) {
    let none = std::ptr::null_mut();
    give(ierror, PMPI_Init_thread(std::ptr::null_mut(), none, *required, provided));
} }

fortran! { mpi_op_create_ pmpi_op_create_ ompi_op_create_f (
    function: *const c_void, commute: *const c_int, op: *mut c_int, ierror: *mut c_int
) {
    let mut made = ProgramHandle(0);
    let code = create_fortran_operation(function, *commute, &mut made);
    if code == 0 {
        OP.give(made, op);
    }
    give(ierror, code);
} }

/// The value of an attribute as Fortran has it: predefined ones are integers, of which C gets the
/// address.
unsafe fn attribute(
    comm: *const c_int,
    keyval: c_int,
    value: &mut isize,
    flag: *mut c_int,
) -> c_int {
    let mut found = std::ptr::null::<c_int>();
    // SAFETY: the program gives a flag; predefined attributes are integers.
    unsafe {
        let code = PMPI_Comm_get_attr(COMM.handle(*comm), keyval, (&raw mut found).cast(), flag);
        if code == 0 && *flag != 0 {
            // Keys below this one are Open MPI's.
            *value = if keyval < 7 {
                *found as isize
            } else {
                found.addr() as isize
            };
        }
        code
    }
}

fortran! { mpi_comm_get_attr_ pmpi_comm_get_attr_ ompi_comm_get_attr_f (
    comm: *const c_int, keyval: *const c_int, value: *mut isize, flag: *mut c_int, ierror: *mut c_int
) {
    give(ierror, attribute(comm, *keyval, &mut *value, flag));
} }

fortran! { mpi_attr_get_ pmpi_attr_get_ ompi_attr_get_f (
    comm: *const c_int, keyval: *const c_int, value: *mut c_int, flag: *mut c_int, ierror: *mut c_int
) {
    let mut wide = 0;
    let code = attribute(comm, *keyval, &mut wide, flag);
    if code == 0 && *flag != 0 {
        *value = wide as c_int;
    }
    give(ierror, code);
} }

// Fortran has no place for the address, so the argument is ignored.
fortran! { mpi_buffer_detach_ pmpi_buffer_detach_ ompi_buffer_detach_f (
    _buffer: *mut c_void, size: *mut c_int, ierror: *mut c_int
) {
    let mut buffer = std::ptr::null_mut::<c_void>();
    let code = (functions().buffer_detach)((&raw mut buffer).cast(), size);
    give(ierror, result_code(code));
} }

// `MPI_ALLOC_MEM` of the module `mpi`, with a C pointer.
fortran! { mpi_alloc_mem_cptr_ pmpi_alloc_mem_cptr_ ompi_alloc_mem_cptr_f (
    size: *const isize, info: *const c_int, baseptr: *mut c_void, ierror: *mut c_int
) {
    let code = (functions().alloc_mem)(*size, INFO.handle(*info).abi(), baseptr);
    give(ierror, result_code(code));
} }

fortran! { mpi_aint_add_ pmpi_aint_add_ ompi_aint_add_f (base: *const isize, change: *const isize) -> isize {
    (*base).wrapping_add(*change)
} }

fortran! { mpi_aint_diff_ pmpi_aint_diff_ ompi_aint_diff_f (to: *const isize, from: *const isize) -> isize {
    (*to).wrapping_sub(*from)
} }

// The call itself keeps a compiler from moving accesses of the buffer.
fortran! { mpi_f_sync_reg_ pmpi_f_sync_reg_ ompi_f_sync_reg_f () {} }

// What follows the level is the tool's own.
fortran! { mpi_pcontrol_ pmpi_pcontrol_ ompi_pcontrol_f () {} }

/// The callbacks that programs name: copy nothing, copy the value, delete nothing.
macro_rules! named_callbacks {
    ($($value:ident $null_copy:ident $dup:ident $null_delete:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_copy(
            _: *const c_int, _: *const c_int, _: *const $value, _: *const $value, _: *mut $value,
            flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: whoever calls gives places for the answers.
            unsafe { (*flag, *ierror) = (0, 0) };
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $dup(
            _: *const c_int, _: *const c_int, _: *const $value, value: *const $value,
            copied: *mut $value, flag: *mut c_int, ierror: *mut c_int,
        ) {
            // SAFETY: as above.
            unsafe { (*copied, *flag, *ierror) = (*value, 1, 0) };
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $null_delete(
            _: *const c_int, _: *const c_int, _: *const $value, _: *const $value, ierror: *mut c_int,
        ) {
            // SAFETY: as above.
            unsafe { *ierror = 0 };
        }
    )*};
}

named_callbacks! {
    c_int mpi_null_copy_fn_ mpi_dup_fn_ mpi_null_delete_fn_;
    isize mpi_comm_null_copy_fn_ mpi_comm_dup_fn_ mpi_comm_null_delete_fn_;
    isize mpi_type_null_copy_fn_ mpi_type_dup_fn_ mpi_type_null_delete_fn_;
    isize mpi_win_null_copy_fn_ mpi_win_dup_fn_ mpi_win_null_delete_fn_;
}

/// Its address alone counts.
#[unsafe(no_mangle)]
extern "C" fn mpi_conversion_fn_null_() {}

/// Functions of Fortran that give a number.
macro_rules! numbers_of_time {
    ($($name:ident $profiling:ident $function:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name() -> f64 {
            // SAFETY: it may be called at any time.
            unsafe { (functions().$function)() }
        }
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $profiling() -> f64 {
            // SAFETY: as above.
            unsafe { (functions().$function)() }
        }
    )*};
}

numbers_of_time! {
    mpi_wtime_ pmpi_wtime_ wtime;
    mpi_wtick_ pmpi_wtick_ wtick;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_callbacks_copy_the_value_or_nothing() {
        let none = std::ptr::null();
        let extra = std::ptr::null();
        let (value, mut copied, mut flag, mut error) = (-5, 0, 9, 9);
        // SAFETY: there are places for the answers; the handles are not looked at.
        unsafe {
            mpi_comm_null_copy_fn_(
                none,
                none,
                extra,
                &value,
                &mut copied,
                &mut flag,
                &mut error,
            );
            assert_eq!((copied, flag, error), (0, 0, 0));
            mpi_comm_dup_fn_(
                none,
                none,
                extra,
                &value,
                &mut copied,
                &mut flag,
                &mut error,
            );
            assert_eq!((copied, flag, error), (-5, 1, 0));
            error = 9;
            mpi_comm_null_delete_fn_(none, none, &value, extra, &mut error);
            assert_eq!(error, 0);
        }
    }
}
