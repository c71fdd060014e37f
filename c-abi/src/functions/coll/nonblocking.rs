//! Nonblocking collectives (MPI-5.0 §6.12).

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Ibarrier` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn ibarrier(mpi: &Mpi, comm: MPI_Comm, request: *mut MPI_Request) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    let call = args.barrier()?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ibcast` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn ibcast(
    mpi: &Mpi,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.bcast(buffer, count, datatype, root) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Igather` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn igather(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.gather(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Igatherv` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn igatherv(
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
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.gatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype, root,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iscatter` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iscatter(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.scatter(
            sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iscatterv` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iscatterv(
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
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.scatterv(
            sendbuf, sendcounts, displs, sendtype, recvbuf, recvcount, recvtype, root,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iallgather` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iallgather(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Iallgatherv` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn iallgatherv(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.allgatherv(
            sendbuf, sendcount, sendtype, recvbuf, recvcounts, displs, recvtype,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ialltoall` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ialltoall(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ialltoallv` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ialltoallv(
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
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.alltoallv(
            sendbuf, sendcounts, sdispls, sendtype, recvbuf, recvcounts, rdispls, recvtype,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}

/// `MPI_Ialltoallw` (MPI-5.0 §6.12).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn ialltoallw(
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
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe {
        args.alltoallw(
            sendbuf, sendcounts, sdispls, sendtypes, recvbuf, recvcounts, rdispls, recvtypes,
        )
    }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.start(call, request) }
}
