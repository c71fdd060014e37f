//! Functions that MPI-3.0 removed (MPI-3.0 §16.1), for programs older than that: each is the
//! function that replaced it under its old name.

use std::ffi::{c_int, c_void};

use rejoin_mpi::Result;

use crate::callback::Callback;
use crate::counts::Counts;
use crate::functions::datatypes::{create, objects};
use crate::functions::environment::errhandler;
use crate::state::AbiState;
use crate::support::store;
use crate::types::*;

/// `MPI_Address`, now `MPI_Get_address`.
///
/// # Safety
/// `address` is null or valid.
pub unsafe fn address(mpi: &AbiState, location: *mut c_void, address: *mut MPI_Aint) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { objects::get_address(mpi, location, address) }
}

/// `MPI_Errhandler_create`, now `MPI_Comm_create_errhandler`.
///
/// # Safety
/// The function has the declared type; `errhandler` is null or valid.
pub unsafe fn errhandler_create(
    mpi: &AbiState,
    function: Callback<MPI_Comm_errhandler_function>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { errhandler::comm_create_errhandler(mpi, function, errhandler) }
}

/// `MPI_Errhandler_get`, now `MPI_Comm_get_errhandler`.
///
/// # Safety
/// `errhandler` is null or valid.
pub unsafe fn errhandler_get(
    mpi: &AbiState,
    comm: MPI_Comm,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { errhandler::comm_get_errhandler(mpi, comm, errhandler) }
}

/// `MPI_Errhandler_set`, now `MPI_Comm_set_errhandler`.
pub fn errhandler_set(mpi: &AbiState, comm: MPI_Comm, errhandler: MPI_Errhandler) -> Result<()> {
    errhandler::comm_set_errhandler(mpi, comm, errhandler)
}

/// `MPI_Type_extent`, now `MPI_Type_get_extent`.
///
/// # Safety
/// `extent` is null or valid.
pub unsafe fn type_extent(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    extent: *mut MPI_Aint,
) -> Result<()> {
    let value = mpi.datatypes.get(datatype)?.extent() as MPI_Aint;
    // SAFETY: the caller's promise.
    unsafe { store(extent, "the extent", value) }
}

/// `MPI_Type_lb`, now `MPI_Type_get_extent`.
///
/// # Safety
/// `displacement` is null or valid.
pub unsafe fn type_lb(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    displacement: *mut MPI_Aint,
) -> Result<()> {
    let value = mpi.datatypes.get(datatype)?.lb() as MPI_Aint;
    // SAFETY: the caller's promise.
    unsafe { store(displacement, "the lower bound", value) }
}

/// `MPI_Type_ub`, now `MPI_Type_get_extent`.
///
/// # Safety
/// `displacement` is null or valid.
pub unsafe fn type_ub(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    displacement: *mut MPI_Aint,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    let value = (datatype.lb() + datatype.extent()) as MPI_Aint;
    // SAFETY: the caller's promise.
    unsafe { store(displacement, "the upper bound", value) }
}

/// `MPI_Type_hvector`, now `MPI_Type_create_hvector`.
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_hvector(
    mpi: &AbiState,
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { create::type_create_hvector(mpi, count, blocklength, stride, oldtype, newtype) }
}

/// `MPI_Type_hindexed`, now `MPI_Type_create_hindexed`.
///
/// # Safety
/// The arrays are null or have `count` entries; `newtype` is null or valid.
pub unsafe fn type_hindexed(
    mpi: &AbiState,
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let lengths = Counts::from(array_of_blocklengths.cast_const());
    let places = Counts::from(array_of_displacements.cast_const());
    // SAFETY: the caller's promise.
    unsafe { create::type_create_hindexed(mpi, count.into(), lengths, places, oldtype, newtype) }
}

/// `MPI_Type_struct`, now `MPI_Type_create_struct`.
///
/// # Safety
/// The arrays are null or have `count` entries; `newtype` is null or valid.
pub unsafe fn type_struct(
    mpi: &AbiState,
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    array_of_types: *mut MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let lengths = Counts::from(array_of_blocklengths.cast_const());
    let places = Counts::from(array_of_displacements.cast_const());
    let types = array_of_types.cast_const();
    // SAFETY: the caller's promise.
    unsafe { create::type_create_struct(mpi, count.into(), lengths, places, types, newtype) }
}
