//! Views of files, and extents in them (MPI-5.0 §14.3, §14.5.1).

use std::ffi::c_char;

use rejoin_mpi::file::{DataRepresentation, ViewArguments};
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::counts::OutCount;
use crate::functions::communicators::create::hints;
use crate::functions::datatypes::objects::give;
use crate::functions::files::datareps;
use crate::state::AbiState;
use crate::support::{store, store_string, string};
use crate::types::*;

/// The arguments of a view.
///
/// # Safety
/// `datarep` is null or a string.
unsafe fn arguments(
    mpi: &AbiState,
    disp: MPI_Offset,
    (etype, filetype): (MPI_Datatype, MPI_Datatype),
    datarep: *const c_char,
) -> Result<ViewArguments> {
    // SAFETY: the caller's.
    let name = unsafe { string(datarep, "the data representation") }?;
    if datareps::is_registered(mpi, &name) {
        let text = format!(
            "the data representation \"{name}\" of the program: views with such ones are not \
             there yet in Rejoin"
        );
        return Err(Error::new(ErrorClass::UnsupportedDatarep, text));
    }
    Ok(ViewArguments {
        disp,
        etype: mpi.datatypes.committed(etype)?,
        filetype: mpi.datatypes.committed(filetype)?,
        datarep: DataRepresentation::named(&name)?,
    })
}

/// `MPI_File_set_view` (MPI-5.0 §14.3).
///
/// # Safety
/// `datarep` is null or a string.
pub unsafe fn file_set_view(
    mpi: &AbiState,
    fh: MPI_File,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: *const c_char,
    info: MPI_Info,
) -> Result<()> {
    let file = mpi.files.get(fh)?;
    // SAFETY: the caller's.
    let view = unsafe { arguments(mpi, disp, (etype, filetype), datarep) };
    let disp = (disp != MPI_DISPLACEMENT_CURRENT).then_some(disp);
    file.set_view(view, disp, hints(mpi, info))
}

/// `MPI_File_get_view` (MPI-5.0 §14.3). The program frees derived datatypes that it gets.
///
/// # Safety
/// The pointers are null or valid; `datarep` has room for `MPI_MAX_DATAREP_STRING` bytes.
pub unsafe fn file_get_view(
    mpi: &AbiState,
    fh: MPI_File,
    disp: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut c_char,
) -> Result<()> {
    let view = mpi.files.get(fh)?.view_arguments();
    let room = MPI_MAX_DATAREP_STRING as usize;
    // SAFETY: the program passed them for the results.
    unsafe {
        store(disp, "the displacement", view.disp)?;
        store_string(datarep, room, view.datarep.name(), std::ptr::null_mut())?;
        let handle = mpi.datatypes.part_handle(&view.etype);
        store(etype, "the etype", handle)?;
        let handle = mpi.datatypes.part_handle(&view.filetype);
        store(filetype, "the filetype", handle)
    }
}

/// `MPI_File_get_type_extent` (MPI-5.0 §14.5.1).
///
/// # Safety
/// `extent` is null or valid.
pub unsafe fn file_get_type_extent(
    mpi: &AbiState,
    fh: MPI_File,
    datatype: MPI_Datatype,
    extent: OutCount,
) -> Result<()> {
    let file = mpi.files.get(fh)?;
    let bytes = file.type_extent(&*mpi.datatypes.committed(datatype)?)?;
    // SAFETY: the caller's.
    unsafe { give(extent, "the extent", bytes) }
}
