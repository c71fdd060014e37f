//! Blocking collectives that reduce.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Reduce` (MPI-5.0 §6.9.1).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn reduce(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce(sendbuf, recvbuf, count, datatype, op, root) }?;
    args.run(&call)
}

/// `MPI_Allreduce` (MPI-5.0 §6.9.6).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn allreduce(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.allreduce(sendbuf, recvbuf, count, datatype, op) }?;
    args.run(&call)
}

/// `MPI_Reduce_scatter_block` (MPI-5.0 §6.10.1).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn reduce_scatter_block(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter_block(sendbuf, recvbuf, recvcount, datatype, op) }?;
    args.run(&call)
}

/// `MPI_Reduce_scatter` (MPI-5.0 §6.10.2).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn reduce_scatter(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.reduce_scatter(sendbuf, recvbuf, recvcounts, datatype, op) }?;
    args.run(&call)
}

/// `MPI_Scan` (MPI-5.0 §6.11.1).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn scan(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.scan(sendbuf, recvbuf, count, datatype, op) }?;
    args.run(&call)
}

/// `MPI_Exscan` (MPI-5.0 §6.11.2).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn exscan(
    mpi: &Mpi,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.exscan(sendbuf, recvbuf, count, datatype, op) }?;
    args.run(&call)
}
