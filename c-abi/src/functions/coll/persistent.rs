//! Persistent collectives (MPI-5.0 §6.13); no hint of the info argument is known.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use super::args::Args;
use crate::counts::Counts;
use crate::state::Mpi;
use crate::types::*;

/// `MPI_Barrier_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
pub unsafe fn barrier_init(
    mpi: &Mpi,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    let call = args.barrier()?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Bcast_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn bcast_init(
    mpi: &Mpi,
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call = unsafe { args.bcast(buffer, count, datatype, root) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Gather_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gather_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Gatherv_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn gatherv_init(
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
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Scatter_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn scatter_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Scatterv_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn scatterv_init(
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
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Allgather_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn allgather_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Allgatherv_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn allgatherv_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Counts,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Alltoall_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoall_init(
    mpi: &Mpi,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    _info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    let args = Args::new(mpi, comm)?;
    // SAFETY: the program's promise.
    let call =
        unsafe { args.alltoall(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype) }?;
    // SAFETY: `request` is null or valid.
    unsafe { args.init(call, request) }
}

/// `MPI_Alltoallv_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoallv_init(
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
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}

/// `MPI_Alltoallw_init` (MPI-5.0 §6.13).
///
/// # Safety
/// The program keeps MPI's rules for the arguments.
#[allow(clippy::too_many_arguments)]
pub unsafe fn alltoallw_init(
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
    _info: MPI_Info,
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
    unsafe { args.init(call, request) }
}
