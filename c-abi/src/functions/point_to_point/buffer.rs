//! Buffers for buffered sends (MPI-5.0 §3.6).

use std::ffi::c_void;
use std::rc::Rc;

use rejoin_mpi::p2p::Detached;
use rejoin_mpi::{Communicator, Error, ErrorClass, Result, check};

use crate::constants::*;
use crate::counts::OutCount;
use crate::functions::point_to_point::request;
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

type Place<'a> = Option<&'a Rc<Communicator>>;

/// # Safety
/// The memory is the library's until it is detached.
unsafe fn attach(
    mpi: &AbiState,
    place: Place<'_>,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    let memory = if buffer.addr() == MPI_BUFFER_AUTOMATIC.addr() {
        None
    } else {
        check::count(size)?;
        Some((buffer.cast::<u8>(), size as usize))
    };
    // SAFETY: the caller's.
    unsafe { mpi.core()?.buffer_attach(place.map(|c| &**c), memory) }
}

/// # Safety
/// `buffer_addr` is null or the address of a pointer, `size` is null or valid.
unsafe fn detach(
    mpi: &AbiState,
    place: Place<'_>,
    buffer_addr: *mut c_void,
    size: OutCount,
) -> Result<()> {
    if buffer_addr.is_null() || size.is_null() {
        return Err(arg_error("a pointer for the buffer or its size is null"));
    }
    let (addr, len) = match mpi.core()?.buffer_detach(place.map(|c| &**c))? {
        Detached::Memory(addr, len) => (addr, len),
        Detached::Automatic => (MPI_BUFFER_AUTOMATIC.addr(), 0),
    };
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe {
        store(buffer_addr.cast::<usize>(), "the buffer", addr)?;
        size.set(len as i64)
    }
    .map_err(|_| {
        let text = format!("the size {len} of the buffer does not fit an int");
        Error::new(ErrorClass::ValueTooLarge, text)
    })
}

/// `MPI_Buffer_attach`.
///
/// # Safety
/// The memory is the library's until it is detached.
pub unsafe fn buffer_attach(mpi: &AbiState, buffer: *mut c_void, size: MPI_Count) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { attach(mpi, None, buffer, size) }
}

/// `MPI_Buffer_detach`.
///
/// # Safety
/// `buffer_addr` is null or the address of a pointer, `size` is null or valid.
pub unsafe fn buffer_detach(
    mpi: &AbiState,
    buffer_addr: *mut c_void,
    size: OutCount,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { detach(mpi, None, buffer_addr, size) }
}

/// `MPI_Buffer_flush`.
pub fn buffer_flush(mpi: &AbiState) -> Result<()> {
    mpi.core()?.buffer_flush(None)
}

/// `MPI_Buffer_iflush`.
///
/// # Safety
/// `request` is null or valid.
pub unsafe fn buffer_iflush(mpi: &AbiState, request: *mut MPI_Request) -> Result<()> {
    request::check_out(request)?;
    let id = mpi.core()?.buffer_iflush(None)?;
    // SAFETY: checked above.
    unsafe { request::give(request, id) }
}

/// `MPI_Comm_attach_buffer`.
///
/// # Safety
/// The memory is the library's until it is detached.
pub unsafe fn comm_attach_buffer(
    mpi: &AbiState,
    comm: MPI_Comm,
    buffer: *mut c_void,
    size: MPI_Count,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    // SAFETY: the caller's.
    unsafe { attach(mpi, Some(&comm), buffer, size) }
}

/// `MPI_Comm_detach_buffer`.
///
/// # Safety
/// `buffer_addr` is null or the address of a pointer, `size` is null or valid.
pub unsafe fn comm_detach_buffer(
    mpi: &AbiState,
    comm: MPI_Comm,
    buffer_addr: *mut c_void,
    size: OutCount,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    // SAFETY: the caller's.
    unsafe { detach(mpi, Some(&comm), buffer_addr, size) }
}

/// `MPI_Comm_flush_buffer`.
pub fn comm_flush_buffer(mpi: &AbiState, comm: MPI_Comm) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    mpi.core()?.buffer_flush(Some(&comm))
}

/// `MPI_Comm_iflush_buffer`.
///
/// # Safety
/// `request` is null or valid.
pub unsafe fn comm_iflush_buffer(
    mpi: &AbiState,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    request::check_out(request)?;
    let comm = mpi.comms.get(comm)?;
    let id = mpi.core()?.buffer_iflush(Some(&comm))?;
    // SAFETY: checked above.
    unsafe { request::give(request, id) }
}
