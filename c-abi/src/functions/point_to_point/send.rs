//! Sends and receives (MPI-5.0 §3.2 to §3.7, §3.9).

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use rejoin_mpi::Result;
use rejoin_mpi::comm::Communicator;
use rejoin_mpi::p2p::{Data, SendMode};

use crate::enter::try_fast_path;
use crate::entry_call::EntryPoint;
use crate::errors::ErrorOwner;
use crate::functions::point_to_point::request::{self, give};
use crate::library_state;
use crate::state::AbiState;
use crate::types::*;

macro_rules! sends {
    ($($mode:ident $send:ident $isend:ident $init:ident $names:literal;)*) => {$(
        #[doc = concat!("The blocking one of ", $names, ".")]
        ///
        /// # Safety
        /// The elements are readable.
        #[inline]
        pub unsafe fn $send(
            mpi: &AbiState,
            buf: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
        ) -> Result<()> {
            // Where no lock is needed, it was tried before.
            if SendMode::$mode == SendMode::Standard && library_state::is_locked() {
                // SAFETY: the caller's.
                let sent = unsafe { try_send(mpi, buf, count, datatype, dest, tag, comm) };
                if let Some(result) = sent {
                    return result;
                }
            }
            let comm = mpi.comms.get(comm)?;
            let datatype = &mpi.datatypes.for_peer(datatype, dest)?;
            let data = Data::new(buf.cast_mut().cast(), count, datatype);
            // SAFETY: the caller's.
            unsafe { mpi.core()?.send(&data, dest, tag, &comm, SendMode::$mode) }
        }

        #[doc = concat!("The nonblocking one of ", $names, ".")]
        ///
        /// # Safety
        /// The elements are readable and unmodified until completion; `request` is null or valid.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $isend(
            mpi: &AbiState,
            buf: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<()> {
            request::check_out(request)?;
            if SendMode::$mode == SendMode::Standard {
                // SAFETY: the references are not used once other code runs.
                let args = unsafe { simple_args(mpi, buf.cast_mut(), count, datatype, comm) };
                let sent = args.and_then(|(core, data, comm)| {
                    // SAFETY: the caller's.
                    unsafe { core.try_isend(&data, dest, tag, comm) }
                });
                if let Some(id) = sent {
                    // SAFETY: checked above.
                    return unsafe { give(request, id?) };
                }
            }
            let comm = mpi.comms.get(comm)?;
            let datatype = &mpi.datatypes.for_peer(datatype, dest)?;
            let data = Data::new(buf.cast_mut().cast(), count, datatype);
            // SAFETY: the caller's.
            let id = unsafe { mpi.core()?.isend(&data, dest, tag, &comm, SendMode::$mode) }?;
            // SAFETY: checked above.
            unsafe { give(request, id) }
        }

        #[doc = concat!("The persistent one of ", $names, ".")]
        ///
        /// # Safety
        /// The conditions of the nonblocking call, whenever the request is started.
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $init(
            mpi: &AbiState,
            buf: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<()> {
            request::check_out(request)?;
            let comm = mpi.comms.get(comm)?;
            let datatype = &mpi.datatypes.for_peer(datatype, dest)?;
            let data = Data::new(buf.cast_mut().cast(), count, datatype);
            let id = mpi.core()?.send_init(&data, dest, tag, &comm, SendMode::$mode)?;
            // SAFETY: checked above.
            unsafe { give(request, id) }
        }
    )*};
}

sends! {
    Standard send isend send_init "`MPI_Send`, `MPI_Isend`, `MPI_Send_init`";
    Buffered bsend ibsend bsend_init "`MPI_Bsend`, `MPI_Ibsend`, `MPI_Bsend_init`";
    Synchronous ssend issend ssend_init "`MPI_Ssend`, `MPI_Issend`, `MPI_Ssend_init`";
    Ready rsend irsend rsend_init "`MPI_Rsend`, `MPI_Irsend`, `MPI_Rsend_init`";
}

/// The arguments of a call that the runtime tries before the general path; `None` for an invalid
/// handle.
///
/// # Safety
/// No handle is made or freed while the references are used.
#[inline(always)]
pub(crate) unsafe fn simple_args(
    mpi: &AbiState,
    addr: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> Option<(&rejoin_mpi::Mpi, Data<'_>, &Rc<Communicator>)> {
    let core = mpi.core.get()?;
    // SAFETY: the caller's promise.
    let (comm, datatype) = unsafe { (mpi.comms.glance(comm)?, mpi.datatypes.glance(datatype)?) };
    let data = Data::new(addr.cast(), count, datatype);
    Some((core, data, comm))
}

/// A standard send with simple arguments; `None`: nothing was done, and [`send`] must check them.
///
/// # Safety
/// The conditions of [`send`].
#[inline(always)]
pub unsafe fn send_fast_path(
    call: &'static EntryPoint,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<c_int> {
    // SAFETY: the caller's.
    try_fast_path(call, ErrorOwner::of(comm), |mpi| unsafe {
        try_send(mpi, buf, count, datatype, dest, tag, comm)
    })
}

/// A receive with simple arguments; `None`: nothing was done, and [`recv`] must check them.
///
/// # Safety
/// The conditions of [`recv`].
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn recv_fast_path(
    call: &'static EntryPoint,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    // SAFETY: the caller's.
    try_fast_path(call, ErrorOwner::of(comm), |mpi| unsafe {
        try_recv(mpi, buf, count, datatype, source, tag, comm, status)
    })
}

/// A standard send with simple arguments; `None`: nothing was done.
///
/// # Safety
/// The conditions of [`send`].
#[inline(always)]
unsafe fn try_send(
    mpi: &AbiState,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Option<Result<()>> {
    // SAFETY: the references are not used once other code runs: a call that waits takes its own.
    let (core, data, comm) = unsafe { simple_args(mpi, buf.cast_mut(), count, datatype, comm) }?;
    // SAFETY: the caller's.
    unsafe { core.try_send(&data, dest, tag, comm) }
}

/// A receive with simple arguments; `None`: nothing was done.
///
/// # Safety
/// The conditions of [`recv`].
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
unsafe fn try_recv(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<Result<()>> {
    // SAFETY: as for a send.
    let (core, data, comm) = unsafe { simple_args(mpi, buf, count, datatype, comm) }?;
    // SAFETY: the caller's.
    let received = unsafe { core.try_recv(&data, source, tag, comm) }?;
    // SAFETY: the caller's.
    Some(received.and_then(|done| unsafe { request::store_result(status, done) }))
}

/// `MPI_Recv`.
///
/// # Safety
/// The elements are writable, `status` is `MPI_STATUS_IGNORE` or valid.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn recv(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    // Where no lock is needed, it was tried before.
    if library_state::is_locked() {
        // SAFETY: the caller's.
        let tried = unsafe { try_recv(mpi, buf, count, datatype, source, tag, comm, status) };
        if let Some(result) = tried {
            return result;
        }
    }
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.for_peer(datatype, source)?;
    let data = Data::new(buf.cast(), count, datatype);
    // SAFETY: the caller's.
    let done = unsafe { mpi.core()?.recv(&data, source, tag, &comm) }?;
    // SAFETY: the caller's.
    unsafe { request::store_result(status, done) }
}

/// `MPI_Irecv`.
///
/// # Safety
/// The elements are writable and unaccessed until completion; `request` is null or valid.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn irecv(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    // SAFETY: the references are not used once other code runs.
    let args = unsafe { simple_args(mpi, buf, count, datatype, comm) };
    // SAFETY: the caller's.
    let posted =
        args.and_then(|(core, data, comm)| unsafe { core.try_irecv(&data, source, tag, comm) });
    if let Some(id) = posted {
        // SAFETY: checked above.
        return unsafe { give(request, id?) };
    }
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.for_peer(datatype, source)?;
    let data = Data::new(buf.cast(), count, datatype);
    // SAFETY: the caller's.
    let id = unsafe { mpi.core()?.irecv(&data, source, tag, &comm) }?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// `MPI_Recv_init`.
///
/// # Safety
/// The conditions of [`irecv`], whenever the request is started.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn recv_init(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.for_peer(datatype, source)?;
    let data = Data::new(buf.cast(), count, datatype);
    let id = mpi.core()?.recv_init(&data, source, tag, &comm)?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}
