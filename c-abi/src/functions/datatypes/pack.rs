//! Pack and unpack (MPI-5.0 §5.2, §5.3).

#![allow(clippy::too_many_arguments)] // the standard's own lists

use std::ffi::{c_char, c_void};
use std::rc::Rc;

use rejoin_mpi::datatype::{Datatype, EXTERNAL32};
use rejoin_mpi::error::counted;
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::counts::OutCount;
use crate::handles::{self, HandleKind};
use crate::state::AbiState;
use crate::support::{arg_error, string};
use crate::types::*;

/// Refuses what is no communicator: the packed form is the same for all of them.
fn check_comm(mpi: &AbiState, comm: MPI_Comm) -> Result<()> {
    if mpi.exists(HandleKind::Comm, comm.0) {
        return Ok(());
    }
    Err(handles::invalid(comm))
}

/// Refuses what is not "external32".
///
/// # Safety
/// `datarep` is null or a string.
unsafe fn check_representation(datarep: *const c_char) -> Result<()> {
    // SAFETY: the caller's promise.
    let name = unsafe { string(datarep, "the representation") }?;
    if name == EXTERNAL32 {
        return Ok(());
    }
    Err(arg_error(format!(
        "unknown representation {name:?}, only {EXTERNAL32:?} is there"
    )))
}

/// A place in a packed buffer: where it begins, and how many bytes are left from there.
struct Place {
    position: i64,
    left: usize,
}

/// Checks a packed buffer and the position in it.
///
/// # Safety
/// `position` is null or valid.
unsafe fn place(buffer: *const c_void, size: i64, position: OutCount) -> Result<Place> {
    if position.is_null() {
        return Err(arg_error("the pointer for the position is null"));
    }
    if size < 0 {
        return Err(arg_error(format!("the packed buffer has {size} bytes")));
    }
    // SAFETY: not null, and so valid by the caller's promise.
    let at = unsafe { position.get() };
    if at < 0 || at > size {
        return Err(arg_error(format!(
            "the position {at} lies outside the packed buffer of {}",
            counted(size, "byte")
        )));
    }
    if buffer.is_null() && size > 0 {
        return Err(Error::new(ErrorClass::Buffer, "the packed buffer is null"));
    }
    Ok(Place {
        position: at,
        left: (size - at) as usize,
    })
}

/// Refuses a null buffer for data that does not lie at absolute addresses.
fn check_data(buffer: *const c_void, count: i64, datatype: &Datatype) -> Result<()> {
    let relative = datatype.is_predefined();
    if buffer.is_null() && count > 0 && relative && datatype.size() > 0 {
        return Err(Error::new(ErrorClass::Buffer, "the buffer is null"));
    }
    Ok(())
}

/// The type and the packed bytes of `count` elements, which must be there.
fn operands(
    mpi: &AbiState,
    buffer: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<(Rc<Datatype>, i64)> {
    let datatype = mpi.datatypes.committed(datatype)?;
    let bytes = datatype.bytes(count)?;
    check_data(buffer, count, &datatype)?;
    Ok((datatype, bytes))
}

/// Refuses more bytes than the packed buffer has left.
fn check_room(needed: i64, left: usize) -> Result<()> {
    if needed as u64 <= left as u64 {
        return Ok(());
    }
    Err(Error::new(
        ErrorClass::Truncate,
        format!(
            "the packed buffer has {} left, and {needed} would be needed",
            counted(left, "byte")
        ),
    ))
}

/// Moves the position on.
///
/// # Safety
/// `position` is valid.
unsafe fn advance(position: OutCount, to: i64) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { position.set(to) }.map_err(|_| arg_error(format!("the position {to} is no int")))
}

/// `MPI_Pack` (MPI-5.0 §5.2).
///
/// # Safety
/// `inbuf` holds the elements, `outbuf` has `outsize` bytes; `position` is null or valid.
pub unsafe fn pack(
    mpi: &AbiState,
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: OutCount,
    comm: MPI_Comm,
) -> Result<()> {
    check_comm(mpi, comm)?;
    let (datatype, bytes) = operands(mpi, inbuf, incount, datatype)?;
    // SAFETY: the caller's promise; the bytes fit into what is left of the packed buffer.
    unsafe {
        let place = place(outbuf, outsize, position)?;
        check_room(bytes, place.left)?;
        let to = outbuf.cast::<u8>().wrapping_add(place.position as usize);
        datatype.pack(incount, inbuf.cast(), 0, to, bytes as usize);
        advance(position, place.position + bytes)
    }
}

/// `MPI_Unpack` (MPI-5.0 §5.2).
///
/// # Safety
/// `inbuf` has `insize` bytes, `outbuf` has room for the elements; `position` is null or valid.
pub unsafe fn unpack(
    mpi: &AbiState,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: OutCount,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    check_comm(mpi, comm)?;
    let (datatype, bytes) = operands(mpi, outbuf, outcount, datatype)?;
    // SAFETY: the caller's promise; the packed buffer holds the bytes.
    unsafe {
        let place = place(inbuf, insize, position)?;
        check_room(bytes, place.left)?;
        let from = inbuf.cast::<u8>().wrapping_add(place.position as usize);
        datatype.unpack(outcount, outbuf.cast(), 0, from, bytes as usize);
        advance(position, place.position + bytes)
    }
}

/// Stores a size; one that does not fit the int is an error.
///
/// # Safety
/// `size` is null or valid.
unsafe fn give_size(size: OutCount, bytes: i64) -> Result<()> {
    if size.is_null() {
        return Err(arg_error("the pointer for the size is null"));
    }
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { size.set(bytes) }.map_err(|_| {
        Error::new(
            ErrorClass::ValueTooLarge,
            format!("the size of {bytes} bytes does not fit in an int"),
        )
    })
}

/// `MPI_Pack_size` (MPI-5.0 §5.2).
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn pack_size(
    mpi: &AbiState,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: OutCount,
) -> Result<()> {
    check_comm(mpi, comm)?;
    let bytes = mpi.datatypes.committed(datatype)?.bytes(incount)?;
    // SAFETY: the caller's promise.
    unsafe { give_size(size, bytes) }
}

/// `MPI_Pack_external` (MPI-5.0 §5.3).
///
/// # Safety
/// The conditions of `pack`; `datarep` is null or a string.
pub unsafe fn pack_external(
    mpi: &AbiState,
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: OutCount,
) -> Result<()> {
    let (datatype, _) = operands(mpi, inbuf, incount, datatype)?;
    // SAFETY: the caller's promise; the slice is what is left of the packed buffer.
    unsafe {
        check_representation(datarep)?;
        let place = place(outbuf, outsize, position)?;
        let out = match place.left {
            0 => &mut [],
            left => std::slice::from_raw_parts_mut(
                outbuf.cast::<u8>().add(place.position as usize),
                left,
            ),
        };
        let bytes = datatype.pack_external(incount, inbuf.cast(), out)?;
        advance(position, place.position + bytes as i64)
    }
}

/// `MPI_Unpack_external` (MPI-5.0 §5.3).
///
/// # Safety
/// The conditions of `unpack`; `datarep` is null or a string.
pub unsafe fn unpack_external(
    mpi: &AbiState,
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Count,
    position: OutCount,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    let (datatype, _) = operands(mpi, outbuf, outcount, datatype)?;
    // SAFETY: the caller's promise; the slice is what is left of the packed buffer.
    unsafe {
        check_representation(datarep)?;
        let place = place(inbuf, insize, position)?;
        let data = match place.left {
            0 => &[],
            left => {
                std::slice::from_raw_parts(inbuf.cast::<u8>().add(place.position as usize), left)
            }
        };
        let bytes = datatype.unpack_external(outcount, outbuf.cast(), data)?;
        advance(position, place.position + bytes as i64)
    }
}

/// `MPI_Pack_external_size` (MPI-5.0 §5.3).
///
/// # Safety
/// `datarep` is null or a string; `size` is null or valid.
pub unsafe fn pack_external_size(
    mpi: &AbiState,
    datarep: *const c_char,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: OutCount,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        check_representation(datarep)?;
        let bytes = mpi.datatypes.committed(datatype)?.external_size(incount)?;
        give_size(size, bytes)
    }
}
