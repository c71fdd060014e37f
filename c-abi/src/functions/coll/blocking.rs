//! Blocking collectives.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Barrier` (MPI-5.0 §6.3).
pub fn barrier(mpi: &Mpi, comm: MPI_Comm) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    args.run(&args.barrier()?)
}

/// `MPI_Bcast` (MPI-5.0 §6.4).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn bcast(
    mpi: &Mpi,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.bcast(buffer, count, datatype, root) }?;
    args.run(&call)
}

/// `MPI_Gather` (MPI-5.0 §6.5).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gather(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.gather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    args.run(&call)
}

/// `MPI_Gatherv` (MPI-5.0 §6.5).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gatherv(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.gatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root,
        )
    }?;
    args.run(&call)
}

/// `MPI_Scatter` (MPI-5.0 §6.6).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn scatter(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.scatter(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    args.run(&call)
}

/// `MPI_Scatterv` (MPI-5.0 §6.6).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn scatterv(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.scatterv(
            sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    args.run(&call)
}

/// `MPI_Allgather` (MPI-5.0 §6.7).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn allgather(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    args.run(&call)
}

/// `MPI_Allgatherv` (MPI-5.0 §6.7).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn allgatherv(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.allgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
        )
    }?;
    args.run(&call)
}

/// `MPI_Alltoall` (MPI-5.0 §6.8).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoall(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    args.run(&call)
}

/// `MPI_Alltoallv` (MPI-5.0 §6.8).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoallv(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
        )
    }?;
    args.run(&call)
}

/// `MPI_Alltoallw` (MPI-5.0 §6.8).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoallw(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Counts,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Counts,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.alltoallw(
            sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
        )
    }?;
    args.run(&call)
}
