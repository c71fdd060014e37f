//! Registered memory as a job's state, checkpoints that the program asks for, and the way back:
//! this library's own functions, not the standard's. Their errors go to the caller and to no
//! handler.

use std::ffi::{c_int, c_void};

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::state::AbiState;
use crate::support::arg_error;
use crate::types::*;

/// `MPIX_Register_region`: `bytes` bytes at `base` belong to the state that is stored, under a
/// number from 0. Allowed at any time, also before `MPI_Init`.
///
/// # Safety
/// The memory stays valid until it is unregistered, and nothing else writes to it during
/// `MPIX_Checkpoint` and `MPI_Rejoin`.
pub unsafe fn x_register_region(
    mpi: &AbiState,
    id: c_int,
    base: *mut c_void,
    bytes: MPI_Count,
) -> Result<()> {
    let id = number(id)?;
    let length = usize::try_from(bytes)
        .map_err(|_| Error::new(ErrorClass::Count, format!("a region of {bytes} bytes")))?;
    if base.is_null() && length > 0 {
        return Err(Error::new(
            ErrorClass::Buffer,
            "the region's memory is null",
        ));
    }
    // SAFETY: the caller's.
    unsafe { mpi.regions.register(id, base.cast(), length) }
}

/// `MPIX_Unregister_region`: the memory is the state's no more.
pub fn x_unregister_region(mpi: &AbiState, id: c_int) -> Result<()> {
    match mpi.regions.unregister(number(id)?) {
        true => Ok(()),
        false => Err(arg_error(format!("region {id} is not registered"))),
    }
}

fn number(id: c_int) -> Result<u32> {
    u32::try_from(id).map_err(|_| arg_error(format!("{id} is no number of a region, from 0")))
}

/// `MPIX_Checkpoint`: with `mpirun --images DIR`, stores the registered memory of all ranks there,
/// together or not at all. A job that takes images of its processes takes them now. Collective over
/// `MPI_COMM_WORLD`.
pub fn x_checkpoint(mpi: &AbiState) -> Result<()> {
    mpi.core()?.checkpoint_state(&mpi.regions)
}

/// `MPI_Rejoin`, which has two meanings. In MPICH-GF, a restored process calls it to take part in
/// the job again: its channels get new addresses, and others learn them. Here the library has done
/// that when the program continues, also for a rank that has moved, so the call succeeds at once
/// and any rank may make it. In a job that was started with `--restart`, it loads registered memory
/// from the newest checkpoint that all ranks can use. Then it is collective over `MPI_COMM_WORLD`.
pub fn rejoin(mpi: &AbiState) -> Result<()> {
    mpi.core()?.rejoin_state(&mpi.regions)
}

/// `MPIX_Rejoin`: [`rejoin`] under the standard's prefix for extensions.
pub fn x_rejoin(mpi: &AbiState) -> Result<()> {
    rejoin(mpi)
}
