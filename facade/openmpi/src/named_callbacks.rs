//! The callbacks for attributes that programs name: copy nothing, copy the value, delete nothing.

use std::ffi::{c_int, c_void};

use rejoin_facade::Facade;
use rejoin_facade::attributes::copy_value;

use crate::OpenMpi;

/// Those of Open MPI's header.
macro_rules! of_c {
    ($($kind:ident $null_copy:ident $dup:ident $null_delete:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $null_copy(
            _: <OpenMpi as Facade>::$kind, _: c_int, _: *mut c_void, _: *mut c_void,
            _: *mut c_void, flag: *mut c_int,
        ) -> c_int {
            // SAFETY: whoever calls gives a flag.
            unsafe { *flag = 0 };
            0
        }
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $dup(
            object: <OpenMpi as Facade>::$kind, key: c_int, state: *mut c_void, value: *mut c_void,
            copied: *mut c_void, flag: *mut c_int,
        ) -> c_int {
            // SAFETY: whoever calls gives a flag and a place for the copy.
            unsafe { copy_value(object, key, state, value, copied, flag) }
        }
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        extern "C" fn $null_delete(
            _: <OpenMpi as Facade>::$kind, _: c_int, _: *mut c_void, _: *mut c_void,
        ) -> c_int {
            0
        }
    )*};
}

of_c! {
    Comm OMPI_C_MPI_NULL_COPY_FN OMPI_C_MPI_DUP_FN OMPI_C_MPI_NULL_DELETE_FN;
    Comm OMPI_C_MPI_COMM_NULL_COPY_FN OMPI_C_MPI_COMM_DUP_FN OMPI_C_MPI_COMM_NULL_DELETE_FN;
    Datatype OMPI_C_MPI_TYPE_NULL_COPY_FN OMPI_C_MPI_TYPE_DUP_FN OMPI_C_MPI_TYPE_NULL_DELETE_FN;
    Win OMPI_C_MPI_WIN_NULL_COPY_FN OMPI_C_MPI_WIN_DUP_FN OMPI_C_MPI_WIN_NULL_DELETE_FN;
}

rejoin_facade::named_callbacks! {
    c_int [mpi_null_copy_fn_] [mpi_dup_fn_] [mpi_null_delete_fn_];
    isize [mpi_comm_null_copy_fn_] [mpi_comm_dup_fn_] [mpi_comm_null_delete_fn_];
    isize [mpi_type_null_copy_fn_] [mpi_type_dup_fn_] [mpi_type_null_delete_fn_];
    isize [mpi_win_null_copy_fn_] [mpi_win_dup_fn_] [mpi_win_null_delete_fn_];
}

/// Its address alone counts.
#[unsafe(no_mangle)]
extern "C" fn mpi_conversion_fn_null_() {}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" {
        fn mpi_comm_null_copy_fn_(
            comm: *const c_int,
            key: *const c_int,
            state: *const isize,
            value: *const isize,
            copied: *mut isize,
            flag: *mut c_int,
            ierror: *mut c_int,
        );
        fn mpi_comm_dup_fn_(
            comm: *const c_int,
            key: *const c_int,
            state: *const isize,
            value: *const isize,
            copied: *mut isize,
            flag: *mut c_int,
            ierror: *mut c_int,
        );
        fn mpi_comm_null_delete_fn_(
            comm: *const c_int,
            key: *const c_int,
            value: *const isize,
            state: *const isize,
            ierror: *mut c_int,
        );
    }

    #[test]
    fn named_callbacks_of_fortran_copy_the_value_or_nothing() {
        let none = std::ptr::null();
        let state = std::ptr::null();
        let (value, mut copied, mut flag, mut error) = (-5, 0, 9, 9);
        // SAFETY: there are places for the answers; the handles are not looked at.
        unsafe {
            mpi_comm_null_copy_fn_(
                none,
                none,
                state,
                &value,
                &mut copied,
                &mut flag,
                &mut error,
            );
            assert_eq!((copied, flag, error), (0, 0, 0));
            mpi_comm_dup_fn_(
                none,
                none,
                state,
                &value,
                &mut copied,
                &mut flag,
                &mut error,
            );
            assert_eq!((copied, flag, error), (-5, 1, 0));
            error = 9;
            mpi_comm_null_delete_fn_(none, none, &value, state, &mut error);
            assert_eq!(error, 0);
        }
    }
}
