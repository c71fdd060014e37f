//! The pointers of files (MPI-5.0 §14.4.3, §14.4.4).

use std::ffi::c_int;

use rejoin_mpi::Result;
use rejoin_mpi::file::SeekFrom;

use crate::constants::{MPI_SEEK_CUR, MPI_SEEK_END, MPI_SEEK_SET};
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

fn seek_from(whence: c_int) -> Result<SeekFrom> {
    match whence {
        MPI_SEEK_SET => Ok(SeekFrom::Start),
        MPI_SEEK_CUR => Ok(SeekFrom::Current),
        MPI_SEEK_END => Ok(SeekFrom::End),
        other => Err(arg_error(format!(
            "{other} is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END"
        ))),
    }
}

/// `MPI_File_seek`.
pub fn file_seek(mpi: &AbiState, fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    mpi.files.get(fh)?.seek(offset, seek_from(whence)?)
}

/// `MPI_File_seek_shared`.
pub fn file_seek_shared(
    mpi: &AbiState,
    fh: MPI_File,
    offset: MPI_Offset,
    whence: c_int,
) -> Result<()> {
    mpi.files.get(fh)?.seek_shared(offset, seek_from(whence))
}

/// `MPI_File_get_position`.
///
/// # Safety
/// `offset` is null or valid.
pub unsafe fn file_get_position(
    mpi: &AbiState,
    fh: MPI_File,
    offset: *mut MPI_Offset,
) -> Result<()> {
    let place = mpi.files.get(fh)?.position()?;
    // SAFETY: the program passed it for the result.
    unsafe { store(offset, "the position", place) }
}

/// `MPI_File_get_position_shared`.
///
/// # Safety
/// `offset` is null or valid.
pub unsafe fn file_get_position_shared(
    mpi: &AbiState,
    fh: MPI_File,
    offset: *mut MPI_Offset,
) -> Result<()> {
    let place = mpi.files.get(fh)?.shared_position()?;
    // SAFETY: the program passed it for the result.
    unsafe { store(offset, "the position", place) }
}

/// `MPI_File_get_byte_offset`.
///
/// # Safety
/// `disp` is null or valid.
pub unsafe fn file_get_byte_offset(
    mpi: &AbiState,
    fh: MPI_File,
    offset: MPI_Offset,
    disp: *mut MPI_Offset,
) -> Result<()> {
    let place = mpi.files.get(fh)?.byte_offset(offset)?;
    // SAFETY: the program passed it for the result.
    unsafe { store(disp, "the displacement", place) }
}
