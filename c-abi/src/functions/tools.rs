//! The tools' information interface (MPI-5.0 §15.3): it opens and closes, and has no variables,
//! categories, events and sources. Its functions return their codes and call no error handler
//! (§15.3.9).

use std::ffi::{c_char, c_int};

use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::state::AbiState;

fn refused(code: c_int, text: &'static str) -> Error {
    Error {
        code: Some(code),
        ..Error::new(ErrorClass::Other, text)
    }
}

fn check_open(mpi: &AbiState) -> Result<()> {
    if mpi.tools.get() > 0 {
        return Ok(());
    }
    let text = "the tools' interface is not initialised";
    Err(refused(MPI_T_ERR_NOT_INITIALIZED, text))
}

/// # Safety
/// `target` is null or valid.
unsafe fn put(target: *mut c_int, value: c_int) -> Result<()> {
    if target.is_null() {
        return Err(refused(MPI_T_ERR_INVALID, "a pointer for a result is null"));
    }
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { target.write(value) };
    Ok(())
}

/// `MPI_T_init_thread` (MPI-5.0 §15.3.4): may be called several times, also before `MPI_Init`.
///
/// # Safety
/// `provided` is null or valid.
pub unsafe fn t_init_thread(mpi: &AbiState, required: c_int, provided: *mut c_int) -> Result<()> {
    // Every call takes the lock, so whatever is required is provided. SAFETY: the caller's.
    unsafe { put(provided, required) }?;
    mpi.tools.set(mpi.tools.get() + 1);
    Ok(())
}

/// `MPI_T_finalize` (MPI-5.0 §15.3.4): as often as [`t_init_thread`].
pub fn t_finalize(mpi: &AbiState) -> Result<()> {
    check_open(mpi)?;
    mpi.tools.set(mpi.tools.get() - 1);
    Ok(())
}

macro_rules! none_of {
    ($($function:ident $name:literal;)*) => {$(
        #[doc = concat!("`", $name, "` (MPI-5.0 §15.3): none.")]
        ///
        /// # Safety
        /// `number` is null or valid.
        pub unsafe fn $function(mpi: &AbiState, number: *mut c_int) -> Result<()> {
            check_open(mpi)?;
            // SAFETY: the caller's.
            unsafe { put(number, 0) }
        }
    )*};
}

none_of! {
    t_cvar_get_num "MPI_T_cvar_get_num";
    t_pvar_get_num "MPI_T_pvar_get_num";
    t_category_get_num "MPI_T_category_get_num";
    t_category_changed "MPI_T_category_changed";
    t_event_get_num "MPI_T_event_get_num";
    t_source_get_num "MPI_T_source_get_num";
}

/// No name is known.
fn unnamed(mpi: &AbiState) -> Result<()> {
    check_open(mpi)?;
    Err(refused(
        MPI_T_ERR_INVALID_NAME,
        "there is nothing of this name",
    ))
}

macro_rules! nothing_named {
    ($($function:ident $name:literal;)*) => {$(
        #[doc = concat!("`", $name, "` (MPI-5.0 §15.3): no name is known.")]
        pub fn $function(mpi: &AbiState, _name: *const c_char, _index: *mut c_int) -> Result<()> {
            unnamed(mpi)
        }
    )*};
}

nothing_named! {
    t_cvar_get_index "MPI_T_cvar_get_index";
    t_category_get_index "MPI_T_category_get_index";
    t_event_get_index "MPI_T_event_get_index";
}

/// `MPI_T_pvar_get_index` (MPI-5.0 §15.3.7): no name is known.
pub fn t_pvar_get_index(
    mpi: &AbiState,
    _name: *const c_char,
    _var_class: c_int,
    _index: *mut c_int,
) -> Result<()> {
    unnamed(mpi)
}
