//! Nonblocking collectives (MPI-5.0 §6.12) that reduce.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Ireduce` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ireduce(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce(sendbuf, recvbuf, count, datatype, op, root) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iallreduce` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iallreduce(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.allreduce(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ireduce_scatter_block` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ireduce_scatter_block(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ireduce_scatter` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ireduce_scatter(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iscan` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iscan(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.scan(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iexscan` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iexscan(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.exscan(sendbuf, recvbuf, count, datatype, op) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}
