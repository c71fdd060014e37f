//! What a program may ask about the library, and calls whose integers mean nothing to MPI.

use std::ffi::c_int;

use crate::bound_library::functions;
use crate::export_macros::{export, result_code};
use crate::program_types::ProgramHandle;

/// The version of MPI that Open MPI 4.1 and 5.0 name in their headers.
const VERSION: (c_int, c_int) = (3, 1);

export! { MPI_Get_version PMPI_Get_version (version: *mut c_int, subversion: *mut c_int) -> c_int {
    (*version, *subversion) = VERSION;
    0
} }

// The code is the exit status of the job, so it stays what it is.
export! { MPI_Abort PMPI_Abort (comm: ProgramHandle, code: c_int) -> c_int {
    result_code((functions().abort)(comm.abi(), code))
} }

// What follows the level is the tool's own.
export! { MPI_Pcontrol PMPI_Pcontrol (level: c_int) -> c_int {
    let _ = level;
    0
} }

export! { MPIX_Query_cuda_support PMPIX_Query_cuda_support () -> c_int { 0 } }

export! { MPIX_Query_rocm_support PMPIX_Query_rocm_support () -> c_int { 0 } }
