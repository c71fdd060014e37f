//! Queries about the ABI (MPI-5.0 chapter 20).

use std::ffi::c_int;

use rejoin_mpi::{Info, Result};

use crate::constants::{MPI_ABI_SUBVERSION, MPI_ABI_VERSION};
use crate::state::AbiState;
use crate::support::store;
use crate::types::{MPI_Aint, MPI_Count, MPI_Info, MPI_Offset};

/// `MPI_Abi_get_version` (MPI-5.0 §20.2).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn abi_get_version(
    _mpi: &AbiState,
    abi_major: *mut c_int,
    abi_minor: *mut c_int,
) -> Result<()> {
    // SAFETY: the program passed both for results.
    unsafe {
        store(abi_major, "the major version", MPI_ABI_VERSION)?;
        store(abi_minor, "the minor version", MPI_ABI_SUBVERSION)
    }
}

/// `MPI_Abi_get_info` (MPI-5.0 §20.2): sizes in bytes of the ABI's integer types. The program frees
/// it.
///
/// # Safety
/// `info` is null or valid.
pub unsafe fn abi_get_info(mpi: &AbiState, info: *mut MPI_Info) -> Result<()> {
    let sizes = Info::env(&[
        ("mpi_aint_size", size_of::<MPI_Aint>().to_string()),
        ("mpi_count_size", size_of::<MPI_Count>().to_string()),
        ("mpi_offset_size", size_of::<MPI_Offset>().to_string()),
    ]);
    // SAFETY: the caller's.
    unsafe { crate::functions::info::give(mpi, info, sizes) }
}
