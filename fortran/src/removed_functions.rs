//! Functions that MPI-3.0 removed, for old programs with `mpif.h`: their addresses and extents are
//! INTEGER.

use std::ffi::{c_int, c_void};

use crate::fortran_callbacks::create_comm_errhandler;
use crate::fortran_export::{fortran, give, length};
use crate::fortran_handles::{COMM, ERRHANDLER, NOTHING, TYPE};
use crate::generated::c_functions::*;
use crate::sentinels::buffer_at;

// Programs subtract addresses, so the lower bits do.
fortran! { [mpi_address_] [pmpi_address_] MPI_Get_address PMPI_Get_address |call| (
    location: *mut c_void, address: *mut c_int, ierror: *mut c_int
) {
    let mut wide = 0;
    let code = call(buffer_at(location), &mut wide);
    if code == 0 {
        *address = wide as c_int;
    }
    give(ierror, code);
} }

/// Bounds of a datatype: which of lower bound and extent.
macro_rules! bounds {
    ($($name:ident $profiling:ident $value:expr;)*) => {$(
        fortran! { [$name] [$profiling] MPI_Type_get_extent PMPI_Type_get_extent |call| (
            datatype: *const c_int, bound: *mut c_int, ierror: *mut c_int
        ) {
            let (mut lower, mut extent) = (0, 0);
            let code = call(TYPE.handle(*datatype), &mut lower, &mut extent);
            if code == 0 {
                let value: fn(isize, isize) -> isize = $value;
                *bound = value(lower, extent) as c_int;
            }
            give(ierror, code);
        } }
    )*};
}

bounds! {
    mpi_type_lb_ pmpi_type_lb_ |lower, _| lower;
    mpi_type_ub_ pmpi_type_ub_ |lower, extent| lower + extent;
    mpi_type_extent_ pmpi_type_extent_ |_, extent| extent;
}

fortran! { [mpi_type_hvector_] [pmpi_type_hvector_] MPI_Type_create_hvector PMPI_Type_create_hvector
    |call| (
    count: *const c_int, blocklength: *const c_int, stride: *const c_int, oldtype: *const c_int,
    newtype: *mut c_int, ierror: *mut c_int
) {
    let mut made = NOTHING;
    let oldtype = TYPE.handle(*oldtype);
    let code = call(*count, *blocklength, *stride as isize, oldtype, &mut made);
    if code == 0 {
        TYPE.give(made, newtype);
    }
    give(ierror, code);
} }

/// Displacements as C has them.
///
/// # Safety
/// There are as many.
unsafe fn wide(count: c_int, displacements: *const c_int) -> Vec<isize> {
    let count = length(i64::from(count));
    // SAFETY: the caller's promise.
    (0..count)
        .map(|i| unsafe { *displacements.add(i) } as isize)
        .collect()
}

fortran! { [mpi_type_hindexed_] [pmpi_type_hindexed_]
    MPI_Type_create_hindexed PMPI_Type_create_hindexed |call| (
    count: *const c_int, lengths: *const c_int, displacements: *const c_int,
    oldtype: *const c_int, newtype: *mut c_int, ierror: *mut c_int
) {
    let mut made = NOTHING;
    let places = wide(*count, displacements);
    let code = call(*count, lengths, places.as_ptr(), TYPE.handle(*oldtype), &mut made);
    if code == 0 {
        TYPE.give(made, newtype);
    }
    give(ierror, code);
} }

fortran! { [mpi_type_struct_] [pmpi_type_struct_] MPI_Type_create_struct PMPI_Type_create_struct
    |call| (
    count: *const c_int, lengths: *const c_int, displacements: *const c_int, types: *const c_int,
    newtype: *mut c_int, ierror: *mut c_int
) {
    let mut made = NOTHING;
    let places = wide(*count, displacements);
    let types = TYPE.handles(length(i64::from(*count)), types);
    let code = call(*count, lengths, places.as_ptr(), types.as_ptr(), &mut made);
    if code == 0 {
        TYPE.give(made, newtype);
    }
    give(ierror, code);
} }

fortran! { [mpi_errhandler_create_] [pmpi_errhandler_create_]
    MPI_Comm_create_errhandler PMPI_Comm_create_errhandler |call| (
    function: *const c_void, errhandler: *mut c_int, ierror: *mut c_int
) {
    create_comm_errhandler(call, function, errhandler, ierror);
} }

fortran! { [mpi_errhandler_get_] [pmpi_errhandler_get_]
    MPI_Comm_get_errhandler PMPI_Comm_get_errhandler |call| (
    comm: *const c_int, errhandler: *mut c_int, ierror: *mut c_int
) {
    let mut found = NOTHING;
    let code = call(COMM.handle(*comm), &mut found);
    if code == 0 {
        ERRHANDLER.give(found, errhandler);
    }
    give(ierror, code);
} }

fortran! { [mpi_errhandler_set_] [pmpi_errhandler_set_]
    MPI_Comm_set_errhandler PMPI_Comm_set_errhandler |call| (
    comm: *const c_int, errhandler: *const c_int, ierror: *mut c_int
) {
    give(ierror, call(COMM.handle(*comm), ERRHANDLER.handle(*errhandler)));
} }
