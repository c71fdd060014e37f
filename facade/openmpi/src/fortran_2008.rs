//! What programs with Open MPI's module `mpi_f08` have beside the functions of `mpif.h`:
//! comparisons of handles, callbacks for attributes, and functions whose arguments differ. A handle
//! of the module is one integer in memory, and a status six, so all other functions are those of
//! `mpif.h` under further names.

use std::ffi::{c_int, c_void};

use rejoin_facade::fortran;
use rejoin_facade::fortran_entries::give;

rejoin_facade::named_callbacks! {
    isize [__mpi_f08_callbacks_MOD_mpi_comm_null_copy_fn]
        [__mpi_f08_callbacks_MOD_mpi_comm_dup_fn]
        [__mpi_f08_callbacks_MOD_mpi_comm_null_delete_fn];
    isize [__mpi_f08_callbacks_MOD_mpi_type_null_copy_fn]
        [__mpi_f08_callbacks_MOD_mpi_type_dup_fn]
        [__mpi_f08_callbacks_MOD_mpi_type_null_delete_fn];
    isize [__mpi_f08_callbacks_MOD_mpi_win_null_copy_fn]
        [__mpi_f08_callbacks_MOD_mpi_win_dup_fn]
        [__mpi_f08_callbacks_MOD_mpi_win_null_delete_fn];
}

/// Its address alone counts.
#[unsafe(no_mangle)]
extern "C" fn __mpi_f08_callbacks_MOD_mpi_conversion_fn_null() {}

/// `==` and `/=` of handles; a LOGICAL of gfortran is 0 or 1.
macro_rules! comparisons {
    ($($equal:ident $other:ident)*) => {$(
        fortran! { [$equal] (a: *const c_int, b: *const c_int) (c_int) { c_int::from(*a == *b) } }
        fortran! { [$other] (a: *const c_int, b: *const c_int) (c_int) { c_int::from(*a != *b) } }
    )*};
}

comparisons! {
    __mpi_f08_types_MOD_ompi_comm_op_eq __mpi_f08_types_MOD_ompi_comm_op_ne
    __mpi_f08_types_MOD_ompi_datatype_op_eq __mpi_f08_types_MOD_ompi_datatype_op_ne
    __mpi_f08_types_MOD_ompi_errhandler_op_eq __mpi_f08_types_MOD_ompi_errhandler_op_ne
    __mpi_f08_types_MOD_ompi_file_op_eq __mpi_f08_types_MOD_ompi_file_op_ne
    __mpi_f08_types_MOD_ompi_group_op_eq __mpi_f08_types_MOD_ompi_group_op_ne
    __mpi_f08_types_MOD_ompi_info_op_eq __mpi_f08_types_MOD_ompi_info_op_ne
    __mpi_f08_types_MOD_ompi_message_op_eq __mpi_f08_types_MOD_ompi_message_op_ne
    __mpi_f08_types_MOD_ompi_op_op_eq __mpi_f08_types_MOD_ompi_op_op_ne
    __mpi_f08_types_MOD_ompi_request_op_eq __mpi_f08_types_MOD_ompi_request_op_ne
    __mpi_f08_types_MOD_ompi_win_op_eq __mpi_f08_types_MOD_ompi_win_op_ne
}

fortran! { [
    mpi_buffer_detach_f08_ pmpi_buffer_detach_f08_
    ompi_buffer_detach_f08 pompi_buffer_detach_f08
] (
    buffer: *mut *mut c_void, size: *mut c_int, ierror: *mut c_int
) () {
    give(ierror, PMPI_Buffer_detach(buffer.cast(), size));
} }

unsafe extern "C" {
    fn PMPI_Buffer_detach(buffer: *mut c_void, size: *mut c_int) -> c_int;
}
