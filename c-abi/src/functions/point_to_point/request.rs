//! One request (MPI-5.0 §3.7, §3.8.4, §3.9): handles, statuses, wait, test, start, cancel, free.
//!
//! A request's handle holds the runtime's id: kind in the top byte, then generation and slot.

use std::ffi::c_int;

use rejoin_mpi::request::RequestId;
use rejoin_mpi::{Completed, Result, Status};

use crate::constants::*;
use crate::functions::point_to_point::status::{set_bytes, set_cancelled};
use crate::handles::{self, Handle};
use crate::state::AbiState;
use crate::support::{arg_error, load, store};
use crate::types::*;

const KIND_SHIFT: u32 = 56;
const MARK: usize = (0x40 | MPI_Request::KIND as usize) << KIND_SHIFT;

/// The handle of a request.
#[inline]
pub fn handle_of(id: RequestId) -> MPI_Request {
    MPI_Request(MARK | id.to_raw() as usize)
}

/// The request of a handle; `None` for `MPI_REQUEST_NULL`. The id may be stale.
#[inline]
pub fn id_of(handle: MPI_Request) -> Result<Option<RequestId>> {
    if handle.0 >> KIND_SHIFT == MARK >> KIND_SHIFT {
        let raw = handle.0 & ((1 << KIND_SHIFT) - 1);
        return Ok(Some(RequestId::from_raw(raw as u64)));
    }
    if handle == MPI_REQUEST_NULL {
        return Ok(None);
    }
    Err(handles::invalid(handle))
}

/// A request that is not null.
pub(crate) fn real(handle: MPI_Request) -> Result<RequestId> {
    id_of(handle)?.ok_or_else(|| handles::invalid(handle))
}

/// Refuses a null pointer before anything is started.
#[inline]
pub(crate) fn check_out(request: *mut MPI_Request) -> Result<()> {
    if request.is_null() {
        return Err(arg_error("the pointer for the request is null"));
    }
    Ok(())
}

/// Stores the handle of a new request.
///
/// # Safety
/// `request` is valid.
#[inline]
pub(crate) unsafe fn give(request: *mut MPI_Request, id: RequestId) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { request.write(handle_of(id)) };
    Ok(())
}

/// Stores a status; its `MPI_ERROR` stays as it is (MPI-5.0 §3.2.5).
///
/// # Safety
/// `target` is `MPI_STATUS_IGNORE` or valid.
#[inline]
pub(crate) unsafe fn put(target: *mut MPI_Status, status: &Status) {
    if target.is_null() {
        return;
    }
    // SAFETY: not null, and so valid by the caller's promise. All of it is written but the error.
    unsafe {
        (*target).MPI_SOURCE = status.source;
        (*target).MPI_TAG = status.tag;
        (*target).MPI_internal = [0; 5];
        set_bytes(&mut *target, status.count);
        set_cancelled(&mut *target, status.cancelled);
    }
}

/// Stores the empty status, which has an error field: success (MPI-5.0 §3.7.3).
///
/// # Safety
/// `target` is `MPI_STATUS_IGNORE` or valid.
pub(crate) unsafe fn put_empty(target: *mut MPI_Status) {
    // SAFETY: the caller's.
    unsafe { put(target, &Status::EMPTY) };
    if !target.is_null() {
        // SAFETY: not null, and so valid by the caller's promise.
        unsafe { (*target).MPI_ERROR = MPI_SUCCESS };
    }
}

/// Stores the status of a finished call, and gives its error.
///
/// # Safety
/// `target` is `MPI_STATUS_IGNORE` or valid.
#[inline]
pub(crate) unsafe fn store_result(target: *mut MPI_Status, done: Completed) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { put(target, &done.status) };
    match done.error {
        None => Ok(()),
        Some(error) => Err(error),
    }
}

/// The error of a request goes to the handler of its communicator, or of its file.
pub(crate) fn set_error_owner(mpi: &AbiState) {
    let comm = mpi.core.get().and_then(|c| c.take_failed_comm());
    if let Some(comm) = comm {
        let file = MPI_File(comm.handle());
        match mpi.files.contains(file) {
            true => mpi.errors.set_owner(file),
            false => mpi.errors.set_owner(MPI_Comm(comm.handle())),
        }
    }
}

/// Stores the status of a finished request, and gives its error, as [`store_result`] does.
///
/// # Safety
/// The conditions of [`store_result`].
#[inline]
pub(crate) unsafe fn finished(
    mpi: &AbiState,
    target: *mut MPI_Status,
    done: Completed,
) -> Result<()> {
    if done.error.is_some() {
        set_error_owner(mpi);
    }
    // SAFETY: the caller's.
    unsafe { store_result(target, done) }
}

/// After a completion: the handle becomes null, unless the request is persistent.
///
/// # Safety
/// `request` is valid.
#[inline]
pub(crate) unsafe fn retire(
    mpi: &AbiState,
    request: *mut MPI_Request,
    id: RequestId,
) -> Result<()> {
    if mpi.core()?.request_is_over(id) {
        // SAFETY: the caller's.
        unsafe { request.write(MPI_REQUEST_NULL) };
    }
    Ok(())
}

/// `MPI_Wait`.
///
/// # Safety
/// `request` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
#[inline]
pub unsafe fn wait(
    mpi: &AbiState,
    request: *mut MPI_Request,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(request, "the request") }?;
    let Some(id) = id_of(handle)? else {
        // SAFETY: the caller's.
        unsafe { put_empty(status) };
        return Ok(());
    };
    let core = mpi.core()?;
    if let Some(ended) = core.ended(id) {
        // SAFETY: the caller's, and `load` checked the request.
        unsafe {
            request.write(MPI_REQUEST_NULL);
            put(status, &ended);
        }
        return core.await_links();
    }
    let done = core.wait(id)?;
    // SAFETY: the caller's, and `load` checked the request.
    unsafe {
        retire(mpi, request, id)?;
        finished(mpi, status, done)
    }
}

/// `MPI_Test`.
///
/// # Safety
/// `request` and `flag` are null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn test(
    mpi: &AbiState,
    request: *mut MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(request, "the request") }?;
    // SAFETY: the caller's.
    unsafe { store(flag, "the flag", 1) }?;
    let Some(id) = id_of(handle)? else {
        // SAFETY: the caller's.
        unsafe { put_empty(status) };
        return Ok(());
    };
    match mpi.core()?.test(id)? {
        // SAFETY: the caller's, and `load` checked the request.
        Some(done) => unsafe {
            retire(mpi, request, id)?;
            finished(mpi, status, done)
        },
        // SAFETY: the caller's.
        None => unsafe { store(flag, "the flag", 0) },
    }
}

/// `MPI_Request_get_status`.
///
/// # Safety
/// `flag` is null or valid, `status` is `MPI_STATUS_IGNORE` or valid.
pub unsafe fn request_get_status(
    mpi: &AbiState,
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> Result<()> {
    let done = match id_of(request)? {
        None => Some(Completed::ok(Status::EMPTY)),
        Some(id) => mpi.core()?.request_status(id)?,
    };
    // SAFETY: the caller's.
    unsafe { store(flag, "the flag", c_int::from(done.is_some())) }?;
    match done {
        // SAFETY: the caller's.
        Some(done) => unsafe { finished(mpi, status, done) },
        None => Ok(()),
    }
}

/// `MPI_Start`.
///
/// # Safety
/// `request` is null or valid; the buffers given at the set-up are valid until completion.
pub unsafe fn start(mpi: &AbiState, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's.
    let id = real(unsafe { load(request, "the request") }?)?;
    // SAFETY: the caller's.
    unsafe { mpi.core()?.start(id) }
}

/// `MPI_Startall`.
///
/// # Safety
/// `array_of_requests` has `count` elements; buffers as for [`start`].
pub unsafe fn startall(
    mpi: &AbiState,
    count: c_int,
    array_of_requests: *mut MPI_Request,
) -> Result<()> {
    rejoin_mpi::check::count(i64::from(count))?;
    for i in 0..count as usize {
        if array_of_requests.is_null() {
            return Err(arg_error("the pointer for the requests is null"));
        }
        // SAFETY: the caller's.
        unsafe { start(mpi, array_of_requests.add(i)) }?;
    }
    Ok(())
}

/// `MPI_Cancel`.
///
/// # Safety
/// `request` is null or valid.
pub unsafe fn cancel(mpi: &AbiState, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's.
    let id = real(unsafe { load(request, "the request") }?)?;
    mpi.core()?.cancel(id)
}

/// `MPI_Request_free`.
///
/// # Safety
/// `request` is null or valid.
pub unsafe fn request_free(mpi: &AbiState, request: *mut MPI_Request) -> Result<()> {
    // SAFETY: the caller's.
    let id = real(unsafe { load(request, "the request") }?)?;
    mpi.core()?.request_free(id)?;
    // SAFETY: as above.
    unsafe { store(request, "the request", MPI_REQUEST_NULL) }
}
