//! Sends and receives (MPI-5.0 §3.2 to §3.7, §3.9).

use std::ffi::{c_int, c_void};

use rejoin_mpi::p2p::{Data, SendMode};
use rejoin_mpi::request::RequestId;
use rejoin_mpi::{Result, Status};

use crate::functions::request::{self, give};
use crate::state::Mpi;
use crate::types::*;

macro_rules! sends {
    ($($mode:ident $send:ident $isend:ident $init:ident $names:literal;)*) => {$(
        #[doc = concat!("The blocking one of ", $names, ".")]
        ///
        /// # Safety
        /// The elements are readable.
        #[inline]
        pub unsafe fn $send(
            mpi: &Mpi,
            buf: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
        ) -> Result<()> {
            // SAFETY: the caller's.
            if unsafe { sent_now(mpi, SendMode::$mode, buf, count, datatype, dest, tag, comm) } {
                return Ok(());
            }
            let comm = mpi.comms.get(comm)?;
            let datatype = &mpi.datatypes.get(datatype)?;
            let data = Data { addr: buf.cast_mut().cast(), count, datatype };
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
            mpi: &Mpi,
            buf: *const c_void,
            count: MPI_Count,
            datatype: MPI_Datatype,
            dest: c_int,
            tag: c_int,
            comm: MPI_Comm,
            request: *mut MPI_Request,
        ) -> Result<()> {
            request::check_out(request)?;
            // SAFETY: the caller's.
            if unsafe { sent_now(mpi, SendMode::$mode, buf, count, datatype, dest, tag, comm) } {
                // SAFETY: checked above.
                return unsafe { give(request, RequestId::SENT) };
            }
            let comm = mpi.comms.get(comm)?;
            let datatype = &mpi.datatypes.get(datatype)?;
            let data = Data { addr: buf.cast_mut().cast(), count, datatype };
            // SAFETY: the caller's.
            let id = unsafe { mpi.core()?.isend(&data, dest, tag, &comm, SendMode::$mode) }?;
            // SAFETY: checked above.
            unsafe { give(request, id) }
        }

        #[doc = concat!("The persistent one of ", $names, ".")]
        ///
        /// # Safety
        /// As the nonblocking one, whenever it is started.
        #[allow(clippy::too_many_arguments, reason = "the standard's")]
        pub unsafe fn $init(
            mpi: &Mpi,
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
            let datatype = &mpi.datatypes.get(datatype)?;
            let data = Data { addr: buf.cast_mut().cast(), count, datatype };
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

/// A send that could be done at once. Nothing of the program runs meanwhile, so its objects are looked at where
/// they are.
///
/// # Safety
/// The elements are readable.
#[inline(always)]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
unsafe fn sent_now(
    mpi: &Mpi,
    mode: SendMode,
    buf: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> bool {
    let Some(core) = mpi.core.get().filter(|_| mode == SendMode::Standard) else {
        return false;
    };
    let addr = buf.cast_mut().cast();
    let sent = mpi.comms.glance(comm, |comm| {
        mpi.datatypes.glance(datatype, |datatype| {
            let data = Data {
                addr,
                count,
                datatype,
            };
            // SAFETY: the caller's.
            unsafe { core.send_now(&data, dest, tag, comm) }
        })
    });
    sent.flatten() == Some(true)
}

/// A receive that could be done at once, as [`sent_now`].
///
/// # Safety
/// The elements are writable.
#[inline(always)]
unsafe fn received_now(
    mpi: &Mpi,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> Result<Option<Status>> {
    let Some(core) = mpi.core.get() else {
        return Ok(None);
    };
    let addr = buf.cast();
    let received = mpi.comms.glance(comm, |comm| {
        mpi.datatypes.glance(datatype, |datatype| {
            let data = Data {
                addr,
                count,
                datatype,
            };
            // SAFETY: the caller's.
            unsafe { core.recv_now(&data, source, tag, comm) }
        })
    });
    received.flatten().unwrap_or(Ok(None))
}

/// `MPI_Recv`.
///
/// # Safety
/// The elements are writable, `status` is `MPI_STATUS_IGNORE` or valid.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn recv(
    mpi: &Mpi,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    if let Some(now) = unsafe { received_now(mpi, buf, count, datatype, source, tag, comm) }? {
        // SAFETY: the caller's.
        unsafe { request::put(status, &now) };
        return Ok(());
    }
    let comm = mpi.comms.get(comm)?;
    let datatype = &mpi.datatypes.get(datatype)?;
    let data = Data {
        addr: buf.cast(),
        count,
        datatype,
    };
    // SAFETY: the caller's.
    let done = unsafe { mpi.core()?.recv(&data, source, tag, &comm) }?;
    // SAFETY: the caller's.
    unsafe { request::told(status, done) }
}

/// `MPI_Irecv`.
///
/// # Safety
/// The elements are writable and unaccessed until completion; `request` is null or valid.
#[inline]
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn irecv(
    mpi: &Mpi,
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
    let datatype = &mpi.datatypes.get(datatype)?;
    let data = Data {
        addr: buf.cast(),
        count,
        datatype,
    };
    // SAFETY: the caller's.
    let id = unsafe { mpi.core()?.irecv(&data, source, tag, &comm) }?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}

/// `MPI_Recv_init`.
///
/// # Safety
/// As [`irecv`], whenever it is started.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn recv_init(
    mpi: &Mpi,
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
    let datatype = &mpi.datatypes.get(datatype)?;
    let data = Data {
        addr: buf.cast(),
        count,
        datatype,
    };
    let id = mpi.core()?.recv_init(&data, source, tag, &comm)?;
    // SAFETY: checked above.
    unsafe { give(request, id) }
}
