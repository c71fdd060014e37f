//! Send and receive in one call (MPI-5.0 §3.11).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use rejoin_mpi::Result;
use rejoin_mpi::datatype::Datatype;
use rejoin_mpi::p2p::{Data, ExchangeSide};

use crate::constants::MPI_PROC_NULL;
use crate::functions::point_to_point::request::{self, give};
use crate::state::AbiState;
use crate::types::*;

fn side(peer: c_int, tag: c_int) -> ExchangeSide {
    ExchangeSide { peer, tag }
}

/// The datatype of a buffer that is sent and received into; the null handle does when neither
/// happens.
fn both(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    dest: c_int,
    source: c_int,
) -> Result<Rc<Datatype>> {
    let peer = match dest {
        MPI_PROC_NULL => source,
        other => other,
    };
    mpi.datatypes.for_peer(datatype, peer)
}

/// `MPI_Sendrecv`.
///
/// # Safety
/// The elements are readable and writable, `status` is `MPI_STATUS_IGNORE` or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn sendrecv(
    mpi: &AbiState,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.for_peer(sendtype, dest)?;
    let send = Data::new(sendbuf.cast_mut().cast(), sendcount, datatype);
    let datatype = &mpi.datatypes.for_peer(recvtype, source)?;
    let recv = Data::new(recvbuf.cast(), recvcount, datatype);
    let (to, from) = (side(dest, sendtag), side(source, recvtag));
    // SAFETY: the caller's.
    let done = unsafe { mpi.core()?.sendrecv(&send, to, &recv, from, &comm) }?;
    // SAFETY: the caller's.
    unsafe { request::store_result(status, done) }
}

/// `MPI_Sendrecv_replace`.
///
/// # Safety
/// The elements are readable and writable, `status` is `MPI_STATUS_IGNORE` or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn sendrecv_replace(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let datatype = &both(mpi, datatype, dest, source)?;
    let data = Data::new(buf.cast(), count, datatype);
    let (to, from) = (side(dest, sendtag), side(source, recvtag));
    // SAFETY: the caller's.
    let done = unsafe { mpi.core()?.sendrecv_replace(&data, to, from, &comm) }?;
    // SAFETY: the caller's.
    unsafe { request::store_result(status, done) }
}

/// `MPI_Isendrecv`.
///
/// # Safety
/// The elements stay readable and writable until completion; `request` is null or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn isendrecv(
    mpi: &AbiState,
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.for_peer(sendtype, dest)?;
    let send = Data::new(sendbuf.cast_mut().cast(), sendcount, datatype);
    let datatype = &mpi.datatypes.for_peer(recvtype, source)?;
    let recv = Data::new(recvbuf.cast(), recvcount, datatype);
    let (to, from) = (side(dest, sendtag), side(source, recvtag));
    // SAFETY: the caller's.
    let id = unsafe { mpi.core()?.isendrecv(&send, to, &recv, from, &comm) }?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// `MPI_Isendrecv_replace`.
///
/// # Safety
/// The conditions of [`isendrecv`].
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn isendrecv_replace(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    let datatype = &both(mpi, datatype, dest, source)?;
    let data = Data::new(buf.cast(), count, datatype);
    let (to, from) = (side(dest, sendtag), side(source, recvtag));
    // SAFETY: the caller's.
    let id = unsafe { mpi.core()?.isendrecv_replace(&data, to, from, &comm) }?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}
