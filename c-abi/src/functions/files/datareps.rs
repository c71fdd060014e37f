//! Data representations of the program (MPI-5.0 §14.5.3).

use std::ffi::{c_char, c_void};

use rejoin_mpi::file::DataRepresentation;
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::callback::{Callback, ConversionFunction};
use crate::constants::MPI_MAX_DATAREP_STRING;
use crate::state::AbiState;
use crate::support::{arg_error, string};
use crate::types::*;

/// Whether the program has registered a representation of this name.
pub(crate) fn is_registered(mpi: &AbiState, name: &str) -> bool {
    mpi.datareps.borrow().iter().any(|known| known == name)
}

/// `MPI_Register_datarep`: notes the name. Views with it are refused.
///
/// # Safety
/// `datarep` is null or a string.
pub unsafe fn register_datarep(
    mpi: &AbiState,
    datarep: *const c_char,
    _read_conversion_fn: ConversionFunction,
    _write_conversion_fn: ConversionFunction,
    dtype_file_extent_fn: Callback<MPI_Datarep_extent_function>,
    _extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: the caller's.
    let name = unsafe { string(datarep, "the data representation") }?;
    if name.is_empty() || name.len() >= MPI_MAX_DATAREP_STRING as usize {
        let most = MPI_MAX_DATAREP_STRING - 1;
        return Err(arg_error(format!(
            "a data representation has a name of 1 to {most} bytes"
        )));
    }
    if dtype_file_extent_fn.address() == 0 {
        return Err(arg_error("the function for extents is null"));
    }
    if DataRepresentation::named(&name).is_ok() || is_registered(mpi, &name) {
        let text = format!("the data representation \"{name}\" is there already");
        return Err(Error::new(ErrorClass::DupDatarep, text));
    }
    mpi.datareps.borrow_mut().push(name);
    Ok(())
}
