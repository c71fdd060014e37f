//! Probing and matched receives (MPI-5.0 §3.8).

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;
use rejoin_mpi::p2p::{Data, MatchedMessage};

use crate::constants::*;
use crate::functions::point_to_point::request::{self, finished, give, put};
use crate::state::AbiState;
use crate::support::{arg_error, load, store};
use crate::types::*;

/// `MPI_Probe`.
///
/// # Safety
/// `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn probe(
    mpi: &AbiState,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let found = mpi.core()?.probe(source, tag, &comm)?;
    // SAFETY: the caller's.
    unsafe { put(status, &found) };
    Ok(())
}

/// `MPI_Iprobe`.
///
/// # Safety
/// `flag` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn iprobe(
    mpi: &AbiState,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    let found = mpi.core()?.iprobe(source, tag, &comm)?;
    // SAFETY: the caller's.
    unsafe {
        store(flag, "the flag", c_int::from(found.is_some()))?;
        if let Some(found) = found {
            put(status, &found);
        }
    }
    Ok(())
}

fn enter(mpi: &AbiState, message: MatchedMessage) -> MPI_Message {
    if message.is_no_proc() {
        return MPI_MESSAGE_NO_PROC;
    }
    mpi.messages.insert(message)
}

fn check_out(message: *mut MPI_Message) -> Result<()> {
    if message.is_null() {
        return Err(arg_error("the pointer for the message is null"));
    }
    Ok(())
}

/// `MPI_Mprobe`.
///
/// # Safety
/// `message` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn mprobe(
    mpi: &AbiState,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    check_out(message)?;
    let comm = mpi.comms.get(comm)?;
    let (found, s) = mpi.core()?.mprobe(source, tag, &comm)?;
    // SAFETY: checked above, and the caller's.
    unsafe {
        put(status, &s);
        store(message, "the message", enter(mpi, found))
    }
}

/// `MPI_Improbe`.
///
/// # Safety
/// The conditions of [`mprobe`]; `flag` is null or valid.
pub unsafe fn improbe(
    mpi: &AbiState,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    check_out(message)?;
    // SAFETY: the caller's; refuses null before a message is taken.
    unsafe { store(flag, "the flag", 0) }?;
    let comm = mpi.comms.get(comm)?;
    let Some((found, s)) = mpi.core()?.improbe(source, tag, &comm)? else {
        return Ok(());
    };
    // SAFETY: checked above, and the caller's.
    unsafe {
        put(status, &s);
        store(flag, "the flag", 1)?;
        store(message, "the message", enter(mpi, found))
    }
}

/// Takes the message of a handle, which becomes null.
///
/// # Safety
/// `message` is null or valid.
unsafe fn take(mpi: &AbiState, message: *mut MPI_Message) -> Result<MatchedMessage> {
    // SAFETY: the caller's.
    let handle = unsafe { load(message, "the message") }?;
    let found = if handle == MPI_MESSAGE_NO_PROC {
        MatchedMessage::no_proc(mpi.core()?.world())
    } else {
        mpi.messages.remove(handle)?
    };
    // SAFETY: as above.
    unsafe { store(message, "the message", MPI_MESSAGE_NULL) }?;
    Ok(found)
}

/// `MPI_Mrecv`.
///
/// # Safety
/// The elements are writable, `message` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn mrecv(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> Result<()> {
    let datatype = &mpi.datatypes.get(datatype)?;
    let data = Data::new(buf.cast(), count, datatype);
    data.check()?;
    // SAFETY: the caller's.
    unsafe {
        let found = take(mpi, message)?;
        let done = mpi.core()?.mrecv(&data, found)?;
        finished(mpi, status, done)
    }
}

/// `MPI_Imrecv`.
///
/// # Safety
/// The elements are writable and unaccessed until completion; the pointers are null or valid.
pub unsafe fn imrecv(
    mpi: &AbiState,
    buf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let datatype = &mpi.datatypes.get(datatype)?;
    let data = Data::new(buf.cast(), count, datatype);
    data.check()?;
    // SAFETY: the caller's.
    unsafe {
        let found = take(mpi, message)?;
        let id = mpi.core()?.imrecv(&data, found)?;
        give(request, id)
    }
}
