//! Error classes, codes and strings (MPI-5.0 §9.4, §9.5).

use std::ffi::{c_char, c_int};

use rejoin_mpi::{Error, Result};

use crate::constants::MPI_MAX_ERROR_STRING;
use crate::state::AbiState;
use crate::support::{arg_error, store, store_string, string};

/// `MPI_Error_class`.
///
/// # Safety
/// `errorclass` is null or valid.
pub unsafe fn error_class(mpi: &AbiState, errorcode: c_int, errorclass: *mut c_int) -> Result<()> {
    let class = mpi.errors.codes.class_of(errorcode);
    let class = class.ok_or_else(|| unknown(errorcode))?;
    // SAFETY: the program passed it for the result.
    unsafe { store(errorclass, "the error class", class) }
}

/// `MPI_Error_string`: of the latest error's code, with the sentence that says what was wrong.
///
/// # Safety
/// `string` is null or has room for `MPI_MAX_ERROR_STRING` bytes, `resultlen` is null or valid.
pub unsafe fn error_string(
    mpi: &AbiState,
    errorcode: c_int,
    string: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let text = mpi.errors.text(errorcode);
    let text = text.ok_or_else(|| unknown(errorcode))?;
    // SAFETY: the program promises the room.
    unsafe { store_string(string, MPI_MAX_ERROR_STRING as usize, &text, resultlen) }
}

/// `MPI_Add_error_class`.
///
/// # Safety
/// `errorclass` is null or valid.
pub unsafe fn add_error_class(mpi: &AbiState, errorclass: *mut c_int) -> Result<()> {
    let class = mpi.errors.codes.add_class()?;
    // SAFETY: the program passed it for the result.
    unsafe { store(errorclass, "the error class", class) }
}

/// `MPI_Add_error_code`.
///
/// # Safety
/// `errorcode` is null or valid.
pub unsafe fn add_error_code(
    mpi: &AbiState,
    errorclass: c_int,
    errorcode: *mut c_int,
) -> Result<()> {
    let code = mpi.errors.codes.add_code(errorclass)?;
    // SAFETY: the program passed it for the result.
    unsafe { store(errorcode, "the error code", code) }
}

/// `MPI_Add_error_string`.
///
/// # Safety
/// `text` is null or a string that ends with NUL.
pub unsafe fn add_error_string(
    mpi: &AbiState,
    errorcode: c_int,
    text: *const c_char,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let text = unsafe { string(text, "the error string") }?;
    if text.len() >= MPI_MAX_ERROR_STRING as usize {
        return Err(arg_error(format!(
            "the error string has {} bytes, {} are allowed",
            text.len(),
            MPI_MAX_ERROR_STRING - 1
        )));
    }
    mpi.errors.codes.set_text(errorcode, &text)
}

/// `MPI_Remove_error_class`.
pub fn remove_error_class(mpi: &AbiState, errorclass: c_int) -> Result<()> {
    mpi.errors.codes.remove_class(errorclass)
}

/// `MPI_Remove_error_code`.
pub fn remove_error_code(mpi: &AbiState, errorcode: c_int) -> Result<()> {
    mpi.errors.codes.remove_code(errorcode)
}

/// `MPI_Remove_error_string`.
pub fn remove_error_string(mpi: &AbiState, errorcode: c_int) -> Result<()> {
    mpi.errors.codes.remove_text(errorcode)
}

fn unknown(code: c_int) -> Error {
    arg_error(format!("{code} is no error code"))
}
