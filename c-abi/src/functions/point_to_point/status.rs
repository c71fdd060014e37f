//! Statuses: the content of the ABI's private fields, and the size of a message (MPI-5.0 §3.2.5,
//! §5.1.11, §13.3).
//!
//! `MPI_internal[0..2]` are the message's bytes as a 64-bit number, `MPI_internal[2]` says whether
//! the operation was cancelled.

use std::ffi::c_int;

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::MPI_UNDEFINED;
use crate::counts::OutCount;
use crate::functions::datatypes::objects::give;
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

/// Bytes of the message that a status describes.
pub fn bytes(status: &MPI_Status) -> u64 {
    let [low, high, ..] = status.MPI_internal.map(|v| u64::from(v as u32));
    high << 32 | low
}

/// Sets the bytes of the message.
pub fn set_bytes(status: &mut MPI_Status, bytes: u64) {
    status.MPI_internal[0] = bytes as u32 as c_int;
    status.MPI_internal[1] = (bytes >> 32) as u32 as c_int;
}

/// Whether the operation was cancelled.
pub fn is_cancelled(status: &MPI_Status) -> bool {
    status.MPI_internal[2] != 0
}

/// Sets whether the operation was cancelled.
pub fn set_cancelled(status: &mut MPI_Status, cancelled: bool) {
    status.MPI_internal[2] = c_int::from(cancelled);
}

/// The program's status, which must be there.
///
/// # Safety
/// A pointer that is not null (`MPI_STATUS_IGNORE`) is valid.
unsafe fn given<'a>(status: *const MPI_Status) -> Result<&'a MPI_Status> {
    if status.is_null() {
        return Err(arg_error("a status is needed"));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { &*status })
}

/// The program's status, to be changed.
///
/// # Safety
/// A pointer that is not null is valid, and no other code uses its target.
unsafe fn given_mut<'a>(status: *mut MPI_Status) -> Result<&'a mut MPI_Status> {
    // SAFETY: the caller's promise.
    unsafe { given(status) }?;
    // SAFETY: as above.
    Ok(unsafe { &mut *status })
}

/// `MPI_Get_count` (MPI-5.0 §3.2.5).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn get_count(
    mpi: &AbiState,
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: OutCount,
) -> Result<()> {
    let datatype = mpi.datatypes.committed(datatype)?;
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = i64::try_from(bytes(given(status)?)).ok();
        let n = bytes.and_then(|b| datatype.count_in(b));
        give(count, "the count", n.unwrap_or(MPI_UNDEFINED.into()))
    }
}

/// `MPI_Get_elements` (MPI-5.0 §5.1.11).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn get_elements(
    mpi: &AbiState,
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: OutCount,
) -> Result<()> {
    let datatype = mpi.datatypes.committed(datatype)?;
    // SAFETY: the caller's promise.
    unsafe {
        let bytes = i64::try_from(bytes(given(status)?)).ok();
        let n = bytes.and_then(|b| datatype.elements_in(b));
        give(count, "the count", n.unwrap_or(MPI_UNDEFINED.into()))
    }
}

/// `MPI_Get_elements_x` (MPI-5.0 §5.1.11).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn get_elements_x(
    mpi: &AbiState,
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { get_elements(mpi, status, datatype, count.into()) }
}

/// `MPI_Status_set_elements` (MPI-5.0 §13.3).
///
/// # Safety
/// `status` is null or valid.
pub unsafe fn status_set_elements(
    mpi: &AbiState,
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    let bytes = datatype.bytes_of_elements(count);
    let bytes = bytes.and_then(|b| u64::try_from(b).ok()).ok_or_else(|| {
        Error::new(
            ErrorClass::Count,
            format!("a message cannot hold {count} elements of this datatype"),
        )
    })?;
    // SAFETY: the caller's promise.
    set_bytes(unsafe { given_mut(status) }?, bytes);
    Ok(())
}

/// `MPI_Status_set_elements_x` (MPI-5.0 §13.3).
///
/// # Safety
/// `status` is null or valid.
pub unsafe fn status_set_elements_x(
    mpi: &AbiState,
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { status_set_elements(mpi, status, datatype, count) }
}

/// `MPI_Status_set_cancelled` (MPI-5.0 §13.3).
///
/// # Safety
/// `status` is null or valid.
pub unsafe fn status_set_cancelled(
    mpi: &AbiState,
    status: *mut MPI_Status,
    flag: c_int,
) -> Result<()> {
    let _ = mpi; // nothing of the library is needed
    // SAFETY: the caller's promise.
    set_cancelled(unsafe { given_mut(status) }?, flag != 0);
    Ok(())
}

/// `MPI_Test_cancelled` (MPI-5.0 §3.8.4).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn test_cancelled(
    mpi: &AbiState,
    status: *const MPI_Status,
    flag: *mut c_int,
) -> Result<()> {
    let _ = mpi; // nothing of the library is needed
    // SAFETY: the caller's promise.
    unsafe {
        let cancelled = is_cancelled(given(status)?);
        store(flag, "the flag", c_int::from(cancelled))
    }
}

macro_rules! fields {
    ($($field:ident $get:ident $set:ident;)*) => {$(
        /// The field of a status (MPI-5.0 §3.2.5).
        ///
        /// # Safety
        /// The pointers are null or valid.
        pub unsafe fn $get(mpi: &AbiState, status: *const MPI_Status, value: *mut c_int) -> Result<()> {
            let _ = mpi; // nothing of the library is needed
            // SAFETY: the caller's promise.
            unsafe { store(value, "the value", given(status)?.$field) }
        }

        /// Sets the field of a status (MPI-5.0 §3.2.5).
        ///
        /// # Safety
        /// The pointer is null or valid.
        pub unsafe fn $set(mpi: &AbiState, status: *mut MPI_Status, value: c_int) -> Result<()> {
            let _ = mpi; // nothing of the library is needed
            // SAFETY: the caller's promise.
            unsafe { given_mut(status) }?.$field = value;
            Ok(())
        }
    )*};
}

fields! {
    MPI_SOURCE status_get_source status_set_source;
    MPI_TAG status_get_tag status_set_tag;
    MPI_ERROR status_get_error status_set_error;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_the_flag_do_not_disturb_each_other() {
        let mut status = MPI_Status::default();
        set_cancelled(&mut status, true);
        for value in [0, 7, 0xffff_ffff, 1 << 32, u64::MAX] {
            set_bytes(&mut status, value);
            assert_eq!(bytes(&status), value);
            assert!(is_cancelled(&status));
        }
    }
}
