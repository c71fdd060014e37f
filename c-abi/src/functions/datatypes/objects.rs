//! Commit, copies, names and sizes of datatypes (MPI-5.0 §5.1).

use std::ffi::{c_char, c_int, c_void};

use rejoin_mpi::datatype::{Combiner, Datatype};
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::counts::OutCount;
use crate::handles::Handle;
use crate::state::AbiState;
use crate::support::{arg_error, load, store, store_string, string};
use crate::types::*;

/// `MPI_Type_commit` (MPI-5.0 §5.1.9).
///
/// # Safety
/// `datatype` is null or valid.
pub unsafe fn type_commit(mpi: &AbiState, datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's promise.
    let handle = unsafe { load(datatype, "the datatype") }?;
    mpi.datatypes.get(handle)?.commit();
    Ok(())
}

/// `MPI_Type_free` (MPI-5.0 §5.1.9).
///
/// # Safety
/// `datatype` is null or valid.
pub unsafe fn type_free(mpi: &AbiState, datatype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the caller's promise.
    let handle = unsafe { load(datatype, "the datatype") }?;
    let object = mpi.datatypes.get(handle)?;
    if object.is_predefined() {
        return Err(Error::new(
            ErrorClass::Type,
            "a predefined datatype cannot be freed",
        ));
    }
    object.attributes().delete_all(handle.raw())?;
    drop(mpi.datatypes.handles.remove(handle)?);
    // SAFETY: as above.
    unsafe { store(datatype, "the datatype", MPI_DATATYPE_NULL) }
}

/// `MPI_Type_dup` (MPI-5.0 §5.1.10).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_dup(
    mpi: &AbiState,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let old = mpi.datatypes.get(oldtype)?;
    if newtype.is_null() {
        return Err(arg_error("the pointer for the new datatype is null"));
    }
    let copy = Datatype::dup(&old);
    old.attributes().copy_to(oldtype.raw(), copy.attributes())?;
    let handle = mpi.datatypes.handles.insert(copy);
    // SAFETY: the caller's promise.
    unsafe { store(newtype, "the new datatype", handle) }
}

/// Stores a number that queries give back: `MPI_UNDEFINED` when it does not fit the int.
///
/// # Safety
/// `target` is null or valid.
pub(crate) unsafe fn give(target: OutCount, what: &'static str, value: i64) -> Result<()> {
    if target.is_null() {
        return Err(arg_error(format!("the pointer for {what} is null")));
    }
    // What does not fit is MPI_UNDEFINED by the standard, and no error.
    // SAFETY: not null, and so valid by the caller's promise.
    let _ = unsafe { target.set(value) };
    Ok(())
}

/// `MPI_Type_size` (MPI-5.0 §5.1.5).
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn type_size(mpi: &AbiState, datatype: MPI_Datatype, size: OutCount) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    // SAFETY: the caller's promise.
    unsafe { give(size, "the size", datatype.size()) }
}

/// `MPI_Type_size_x` (MPI-5.0 §5.1.5).
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn type_size_x(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    size: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { type_size(mpi, datatype, size.into()) }
}

/// `MPI_Type_get_extent` (MPI-5.0 §5.1.7).
///
/// # Safety
/// `lb` and `extent` are null or valid.
pub unsafe fn type_get_extent(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    lb: OutCount,
    extent: OutCount,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    // SAFETY: the caller's promise.
    unsafe {
        give(lb, "the lower bound", datatype.lb())?;
        give(extent, "the extent", datatype.extent())
    }
}

/// `MPI_Type_get_extent_x` (MPI-5.0 §5.1.7).
///
/// # Safety
/// `lb` and `extent` are null or valid.
pub unsafe fn type_get_extent_x(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { type_get_extent(mpi, datatype, lb.into(), extent.into()) }
}

/// `MPI_Type_get_true_extent` (MPI-5.0 §5.1.8).
///
/// # Safety
/// `true_lb` and `true_extent` are null or valid.
pub unsafe fn type_get_true_extent(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    true_lb: OutCount,
    true_extent: OutCount,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    // SAFETY: the caller's promise.
    unsafe {
        give(true_lb, "the true lower bound", datatype.true_lb())?;
        give(true_extent, "the true extent", datatype.true_extent())
    }
}

/// `MPI_Type_get_true_extent_x` (MPI-5.0 §5.1.8).
///
/// # Safety
/// `true_lb` and `true_extent` are null or valid.
pub unsafe fn type_get_true_extent_x(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { type_get_true_extent(mpi, datatype, true_lb.into(), true_extent.into()) }
}

/// `MPI_Type_set_name` (MPI-5.0 §7.8).
///
/// # Safety
/// `type_name` is null or a string.
pub unsafe fn type_set_name(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    type_name: *const c_char,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    // SAFETY: the caller's promise.
    let mut name = unsafe { string(type_name, "the name") }?;
    let mut len = name.len().min(MPI_MAX_OBJECT_NAME as usize - 1);
    while !name.is_char_boundary(len) {
        len -= 1;
    }
    name.truncate(len);
    datatype.set_name(&name);
    Ok(())
}

/// `MPI_Type_get_name` (MPI-5.0 §7.8).
///
/// # Safety
/// `type_name` is null or has room for `MPI_MAX_OBJECT_NAME` bytes; `resultlen` is null or valid.
pub unsafe fn type_get_name(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // The null handle has its own name as its name.
    let name = match datatype {
        MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
        datatype => mpi.datatypes.get(datatype)?.name(),
    };
    // SAFETY: the caller's promise.
    unsafe { store_string(type_name, MPI_MAX_OBJECT_NAME as usize, &name, resultlen) }
}

/// `MPI_Get_address` (MPI-5.0 §5.1.5).
///
/// # Safety
/// `address` is null or valid. `location` is not followed.
pub unsafe fn get_address(
    mpi: &AbiState,
    location: *const c_void,
    address: *mut MPI_Aint,
) -> Result<()> {
    let _ = mpi; // nothing of the library is needed
    // Exposed: the address may come back as a displacement from MPI_BOTTOM.
    let value = location.expose_provenance() as MPI_Aint;
    // SAFETY: the caller's promise.
    unsafe { store(address, "the address", value) }
}

/// The ABI's number of a combiner.
pub(crate) fn combiner_number(combiner: Combiner) -> c_int {
    match combiner {
        Combiner::Named(_) => MPI_COMBINER_NAMED,
        Combiner::Dup => MPI_COMBINER_DUP,
        Combiner::Contiguous => MPI_COMBINER_CONTIGUOUS,
        Combiner::Vector => MPI_COMBINER_VECTOR,
        Combiner::Hvector => MPI_COMBINER_HVECTOR,
        Combiner::Indexed => MPI_COMBINER_INDEXED,
        Combiner::Hindexed => MPI_COMBINER_HINDEXED,
        Combiner::IndexedBlock => MPI_COMBINER_INDEXED_BLOCK,
        Combiner::HindexedBlock => MPI_COMBINER_HINDEXED_BLOCK,
        Combiner::Struct => MPI_COMBINER_STRUCT,
        Combiner::Subarray => MPI_COMBINER_SUBARRAY,
        Combiner::Darray => MPI_COMBINER_DARRAY,
        Combiner::F90Real => MPI_COMBINER_F90_REAL,
        Combiner::F90Complex => MPI_COMBINER_F90_COMPLEX,
        Combiner::F90Integer => MPI_COMBINER_F90_INTEGER,
        Combiner::Resized => MPI_COMBINER_RESIZED,
        Combiner::ValueIndex => MPI_COMBINER_VALUE_INDEX,
    }
}
