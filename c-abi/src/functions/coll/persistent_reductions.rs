//! Persistent collectives (MPI-5.0 §6.13); no hint of the info argument is known.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Reduce_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn reduce_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce(sendbuf, recvbuf, count, datatype, op, root) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Allreduce_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn allreduce_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.allreduce(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Reduce_scatter_block_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn reduce_scatter_block_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Reduce_scatter_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn reduce_scatter_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Scan_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn scan_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.scan(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Exscan_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn exscan_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.exscan(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}
