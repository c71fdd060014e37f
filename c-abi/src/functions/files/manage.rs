//! Opening and closing files, their sizes and properties (MPI-5.0 §14.2, §14.6).

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rejoin_mpi::file;
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::MPI_FILE_NULL;
use crate::functions::communicators::create::hints;
use crate::functions::info;
use crate::state::AbiState;
use crate::support::{load, store};
use crate::types::*;

/// A file name of the program.
///
/// # Safety
/// `name` is null or a string.
unsafe fn path(name: *const c_char) -> Result<PathBuf> {
    let refused = |text| Err(Error::new(ErrorClass::BadFile, text));
    if name.is_null() {
        return refused("the pointer for the file's name is null");
    }
    // SAFETY: not null, and so a string by the caller's promise.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    match bytes.is_empty() {
        true => refused("the file's name is empty"),
        false => Ok(PathBuf::from(OsStr::from_bytes(bytes))),
    }
}

/// `MPI_File_open` (MPI-5.0 §14.2.1).
///
/// # Safety
/// `filename` is null or a string, `fh` is null or valid.
pub unsafe fn file_open(
    mpi: &AbiState,
    comm: MPI_Comm,
    filename: *const c_char,
    amode: c_int,
    info: MPI_Info,
    fh: *mut MPI_File,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { store(fh, "the file", MPI_FILE_NULL) }?;
    let comm = mpi.comms.get(comm)?;
    // SAFETY: the caller's.
    let path = unsafe { path(filename) };
    let info = hints(mpi, info);
    let opened = file::open(mpi.core()?, &comm, path, amode, info)?;
    let handle = mpi.files.insert(opened.clone());
    // Errors of requests find the file's error handler by it.
    opened.comm().set_handle(handle.0);
    mpi.errors
        .set_handler(handle, mpi.errors.handler(MPI_FILE_NULL));
    // SAFETY: the caller's.
    unsafe { store(fh, "the file", handle) }
}

/// `MPI_File_close` (MPI-5.0 §14.2.2).
///
/// # Safety
/// `fh` is null or valid.
pub unsafe fn file_close(mpi: &AbiState, fh: *mut MPI_File) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(fh, "the file") }?;
    file::close(&*mpi.files.get(handle)?)?;
    drop(mpi.files.remove(handle)?);
    mpi.errors.forget(handle);
    // SAFETY: as above.
    unsafe { store(fh, "the file", MPI_FILE_NULL) }
}

/// `MPI_File_delete` (MPI-5.0 §14.2.3).
///
/// # Safety
/// `filename` is null or a string.
pub unsafe fn file_delete(mpi: &AbiState, filename: *const c_char, info: MPI_Info) -> Result<()> {
    hints(mpi, info)?;
    // SAFETY: the caller's.
    file::delete(&unsafe { path(filename) }?)
}

/// `MPI_File_set_size` (MPI-5.0 §14.2.4).
pub fn file_set_size(mpi: &AbiState, fh: MPI_File, size: MPI_Offset) -> Result<()> {
    mpi.files.get(fh)?.set_size(size)
}

/// `MPI_File_preallocate` (MPI-5.0 §14.2.5).
pub fn file_preallocate(mpi: &AbiState, fh: MPI_File, size: MPI_Offset) -> Result<()> {
    mpi.files.get(fh)?.preallocate(size)
}

/// `MPI_File_get_size` (MPI-5.0 §14.2.6).
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn file_get_size(mpi: &AbiState, fh: MPI_File, size: *mut MPI_Offset) -> Result<()> {
    let bytes = mpi.files.get(fh)?.size()?;
    // SAFETY: the program passed it for the result.
    unsafe { store(size, "the size", bytes) }
}

/// `MPI_File_get_group` (MPI-5.0 §14.2.7).
///
/// # Safety
/// `group` is null or valid.
pub unsafe fn file_get_group(mpi: &AbiState, fh: MPI_File, group: *mut MPI_Group) -> Result<()> {
    let file = mpi.files.get(fh)?;
    // SAFETY: the caller's.
    unsafe { crate::functions::communicators::group::give(mpi, group, file.comm().group().clone()) }
}

/// `MPI_File_get_amode` (MPI-5.0 §14.2.7).
///
/// # Safety
/// `amode` is null or valid.
pub unsafe fn file_get_amode(mpi: &AbiState, fh: MPI_File, amode: *mut c_int) -> Result<()> {
    let mode = mpi.files.get(fh)?.mode();
    // SAFETY: the program passed it for the result.
    unsafe { store(amode, "the access mode", mode.flags()) }
}

/// `MPI_File_set_info` (MPI-5.0 §14.2.8).
pub fn file_set_info(mpi: &AbiState, fh: MPI_File, info: MPI_Info) -> Result<()> {
    let file = mpi.files.get(fh)?;
    file.set_info(hints(mpi, info))
}

/// `MPI_File_get_info` (MPI-5.0 §14.2.8).
///
/// # Safety
/// `info_used` is null or valid.
pub unsafe fn file_get_info(mpi: &AbiState, fh: MPI_File, info_used: *mut MPI_Info) -> Result<()> {
    let used = mpi.files.get(fh)?.info()?;
    // SAFETY: the caller's.
    unsafe { info::give(mpi, info_used, used) }
}

/// `MPI_File_set_atomicity` (MPI-5.0 §14.6.1).
pub fn file_set_atomicity(mpi: &AbiState, fh: MPI_File, flag: c_int) -> Result<()> {
    mpi.files.get(fh)?.set_atomicity(flag != 0)
}

/// `MPI_File_get_atomicity` (MPI-5.0 §14.6.1).
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn file_get_atomicity(mpi: &AbiState, fh: MPI_File, flag: *mut c_int) -> Result<()> {
    let is_atomic = mpi.files.get(fh)?.is_atomic();
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(is_atomic)) }
}

/// `MPI_File_sync` (MPI-5.0 §14.6.1).
pub fn file_sync(mpi: &AbiState, fh: MPI_File) -> Result<()> {
    mpi.files.get(fh)?.sync()
}
