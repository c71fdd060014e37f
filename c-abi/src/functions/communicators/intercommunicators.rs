//! Making intercommunicators, and one communicator of them (MPI-5.0 §7.6).

use std::ffi::c_int;

use rejoin_mpi::Result;

use super::create::{give, prepare};
use crate::state::AbiState;
use crate::types::*;

/// `MPI_Intercomm_create` (MPI-5.0 §7.6.2).
///
/// # Safety
/// `newintercomm` is null or valid.
pub unsafe fn intercomm_create(
    mpi: &AbiState,
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newintercomm) }?;
    let local = mpi.comms.get(local_comm)?;
    // It counts at the leader only.
    let peer = mpi.comms.get(peer_comm).map(|peer| (peer, remote_leader));
    let core = mpi.core()?;
    let made = core.intercomm_create(&local, local_leader, peer, tag)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newintercomm, Some(made), local_comm) }
}

/// `MPI_Intercomm_merge` (MPI-5.0 §7.6.2).
///
/// # Safety
/// `newintracomm` is null or valid.
pub unsafe fn intercomm_merge(
    mpi: &AbiState,
    intercomm: MPI_Comm,
    high: c_int,
    newintracomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newintracomm) }?;
    let old = mpi.comms.get(intercomm)?;
    let made = mpi.core()?.intercomm_merge(&old, high != 0)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newintracomm, Some(made), intercomm) }
}
