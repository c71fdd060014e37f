//! What the library knows of Fortran (MPI-5.0 §20.4): sizes and LOGICAL values of a compiler. A
//! library for Fortran says them once.

use std::ffi::{c_int, c_void};

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::MPI_INFO_NULL;
use crate::state::AbiState;
use crate::state::fortran_facts::LogicalValues;
use crate::support::{arg_error, store};
use crate::types::MPI_Info;

fn set_before(what: &str) -> Error {
    let text = format!("{what} have been set already");
    Error::new(ErrorClass::Abi, text)
}

/// `MPI_Abi_set_fortran_info` (MPI-5.0 §20.4): counts once.
pub fn abi_set_fortran_info(mpi: &AbiState, info: MPI_Info) -> Result<()> {
    let copy = mpi.infos.get(info)?.dup();
    let set = mpi.fortran.info.set(copy);
    set.map_err(|_| set_before("the sizes of Fortran"))
}

/// `MPI_Abi_get_fortran_info` (MPI-5.0 §20.4): the null handle until somebody has set it. The
/// program frees it.
///
/// # Safety
/// `info` is null or valid.
pub unsafe fn abi_get_fortran_info(mpi: &AbiState, info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        match mpi.fortran.info.get() {
            Some(known) => crate::functions::info::give(mpi, info, known.dup()),
            None => store(info, "the info", MPI_INFO_NULL),
        }
    }
}

/// Bytes of a LOGICAL.
fn bytes_of(logical_size: c_int) -> Result<usize> {
    match logical_size {
        1 | 2 | 4 | 8 | 16 => Ok(logical_size as usize),
        other => Err(arg_error(format!("no LOGICAL has {other} bytes"))),
    }
}

/// `MPI_Abi_set_fortran_booleans` (MPI-5.0 §20.4): counts once.
///
/// # Safety
/// The pointers are null, or to values of this size.
pub unsafe fn abi_set_fortran_booleans(
    mpi: &AbiState,
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<()> {
    let bytes = bytes_of(logical_size)?;
    if logical_true.is_null() || logical_false.is_null() {
        return Err(arg_error("the pointer to a LOGICAL value is null"));
    }
    let mut values = LogicalValues::of(bytes);
    // SAFETY: not null, and so of this size by the caller's promise.
    unsafe {
        let place = values.yes.as_mut_ptr();
        place.copy_from_nonoverlapping(logical_true.cast(), bytes);
        let place = values.no.as_mut_ptr();
        place.copy_from_nonoverlapping(logical_false.cast(), bytes);
    }
    let set = mpi.fortran.booleans.set(values);
    set.map_err(|_| set_before("the LOGICAL values of Fortran"))
}

/// `MPI_Abi_get_fortran_booleans` (MPI-5.0 §20.4): nothing for another size than the one that was
/// set.
///
/// # Safety
/// The pointers are null, or to places of this size; `is_set` is null or valid.
pub unsafe fn abi_get_fortran_booleans(
    mpi: &AbiState,
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<()> {
    let bytes = bytes_of(logical_size)?;
    let known = mpi.fortran.booleans.get().filter(|v| v.bytes == bytes);
    if let Some(values) = known {
        if logical_true.is_null() || logical_false.is_null() {
            return Err(arg_error("the pointer for a LOGICAL value is null"));
        }
        // SAFETY: not null, and so of this size by the caller's promise.
        unsafe {
            let from = values.yes.as_ptr();
            from.copy_to_nonoverlapping(logical_true.cast(), bytes);
            let from = values.no.as_ptr();
            from.copy_to_nonoverlapping(logical_false.cast(), bytes);
        }
    }
    // SAFETY: the caller's.
    unsafe { store(is_set, "the flag", c_int::from(known.is_some())) }
}
