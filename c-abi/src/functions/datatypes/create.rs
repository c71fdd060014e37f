//! Constructors of datatypes (MPI-5.0 §5.1.2 to §5.1.4, §5.1.7, §19.1.9).
//!
//! If no argument distinguishes the two forms, the `_c` form is a function of its own.
//! `MPI_Type_get_contents` must return the arguments as they were given.

#![allow(clippy::too_many_arguments)] // the standard's own lists

use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::datatype::{Datatype, Form, StorageOrder, TypeClass};
use rejoin_mpi::{Error, ErrorClass, Result};

use crate::constants::*;
use crate::counts::Counts;
use crate::state::AbiState;
use crate::support::{arg_error, slice, store};
use crate::types::*;

/// Which form an array belongs to.
fn form_of(counts: Counts) -> Form {
    match counts {
        Counts::Int(_) => Form::Int,
        Counts::Long(_) => Form::Large,
    }
}

/// A count as the length of an array.
fn length(count: i64) -> Result<usize> {
    usize::try_from(count)
        .map_err(|_| Error::new(ErrorClass::Count, format!("the count {count} is negative")))
}

/// The first `len` entries of the program's array.
///
/// # Safety
/// A pointer that is not null points to `len` entries.
unsafe fn entries(array: Counts, len: usize, what: &'static str) -> Result<Vec<i64>> {
    if array.is_null() && len > 0 {
        return Err(arg_error(format!("the array of {what} is null")));
    }
    // SAFETY: not null unless empty, and so valid by the caller's promise.
    Ok(unsafe { array.to_vec(len) })
}

/// Makes a datatype of `oldtype` and stores its handle.
///
/// # Safety
/// `newtype` is null or valid.
unsafe fn make(
    mpi: &AbiState,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    construct: impl FnOnce(&Rc<Datatype>) -> Result<Rc<Datatype>>,
) -> Result<()> {
    let old = mpi.datatypes.get(oldtype)?;
    // SAFETY: the caller's promise.
    unsafe { store_datatype(mpi, newtype, construct(&old)?) }
}

/// Stores the handle of a new datatype.
///
/// # Safety
/// `newtype` is null or valid.
unsafe fn store_datatype(
    mpi: &AbiState,
    newtype: *mut MPI_Datatype,
    datatype: Rc<Datatype>,
) -> Result<()> {
    if newtype.is_null() {
        return Err(arg_error("the pointer for the new datatype is null"));
    }
    // SAFETY: the caller's promise.
    unsafe {
        store(
            newtype,
            "the new datatype",
            mpi.datatypes.new_handle(&datatype),
        )
    }
}

/// `MPI_Type_contiguous` (MPI-5.0 §5.1.2).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_contiguous(
    mpi: &AbiState,
    count: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::contiguous(Form::Int, count.into(), old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_contiguous_c`.
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_contiguous_c(
    mpi: &AbiState,
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::contiguous(Form::Large, count, old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_vector` (MPI-5.0 §5.1.2).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_vector(
    mpi: &AbiState,
    count: c_int,
    blocklength: c_int,
    stride: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, length, step) = (count.into(), blocklength.into(), stride.into());
    let make_it = |old: &_| Datatype::vector(Form::Int, n, length, step, old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_vector_c`.
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_vector_c(
    mpi: &AbiState,
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::vector(Form::Large, count, blocklength, stride, old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_create_hvector` (MPI-5.0 §5.1.2).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_hvector(
    mpi: &AbiState,
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, length) = (count.into(), blocklength.into());
    let make_it = |old: &_| Datatype::hvector(Form::Int, n, length, stride as i64, old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_create_hvector_c`.
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_hvector_c(
    mpi: &AbiState,
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::hvector(Form::Large, count, blocklength, stride, old);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_indexed` (MPI-5.0 §5.1.2).
///
/// # Safety
/// The arrays are null or have `count` entries; `newtype` is null or valid.
pub unsafe fn type_indexed(
    mpi: &AbiState,
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let arrays = (count, array_of_blocklengths, array_of_displacements);
    // SAFETY: the caller's promise.
    unsafe { indexed(mpi, arrays, oldtype, newtype, Datatype::indexed) }
}

/// A constructor of a datatype of blocks: their form, lengths, displacements and datatype.
type OfBlocks = fn(Form, &[i64], &[i64], &Rc<Datatype>) -> Result<Rc<Datatype>>;

/// Makes a datatype of blocks: their number, and arrays of their lengths and displacements.
///
/// # Safety
/// The arrays are null or have as many entries; `newtype` is null or valid.
unsafe fn indexed(
    mpi: &AbiState,
    (count, lengths, places): (i64, Counts, Counts),
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    construct: OfBlocks,
) -> Result<()> {
    let (n, form) = (length(count)?, form_of(lengths));
    // SAFETY: the caller's promise.
    unsafe {
        let lengths = entries(lengths, n, "block lengths")?;
        let places = entries(places, n, "displacements")?;
        make(mpi, oldtype, newtype, |old| {
            construct(form, &lengths, &places, old)
        })
    }
}

/// `MPI_Type_create_hindexed` (MPI-5.0 §5.1.2).
///
/// # Safety
/// The arrays are null or have `count` entries; `newtype` is null or valid.
pub unsafe fn type_create_hindexed(
    mpi: &AbiState,
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let arrays = (count, array_of_blocklengths, array_of_displacements);
    // SAFETY: the caller's promise.
    unsafe { indexed(mpi, arrays, oldtype, newtype, Datatype::hindexed) }
}

/// `MPI_Type_create_indexed_block` (MPI-5.0 §5.1.2).
///
/// # Safety
/// The array is null or has `count` entries; `newtype` is null or valid.
pub unsafe fn type_create_indexed_block(
    mpi: &AbiState,
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: Counts,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, form) = (length(count)?, form_of(array_of_displacements));
    // SAFETY: the caller's promise.
    unsafe {
        let places = entries(array_of_displacements, n, "displacements")?;
        make(mpi, oldtype, newtype, |old| {
            Datatype::indexed_block(form, blocklength, &places, old)
        })
    }
}

/// `MPI_Type_create_hindexed_block` (MPI-5.0 §5.1.2).
///
/// # Safety
/// The array is null or has `count` entries; `newtype` is null or valid.
pub unsafe fn type_create_hindexed_block(
    mpi: &AbiState,
    count: c_int,
    blocklength: c_int,
    array_of_displacements: *const MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count.into())?;
    // SAFETY: the caller's promise.
    unsafe {
        let places = entries(array_of_displacements.into(), n, "displacements")?;
        make(mpi, oldtype, newtype, |old| {
            Datatype::hindexed_block(Form::Int, blocklength.into(), &places, old)
        })
    }
}

/// `MPI_Type_create_hindexed_block_c`.
///
/// # Safety
/// The array is null or has `count` entries; `newtype` is null or valid.
pub unsafe fn type_create_hindexed_block_c(
    mpi: &AbiState,
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let n = length(count)?;
    // SAFETY: the caller's promise.
    unsafe {
        let places = entries(array_of_displacements.into(), n, "displacements")?;
        make(mpi, oldtype, newtype, |old| {
            Datatype::hindexed_block(Form::Large, blocklength, &places, old)
        })
    }
}

/// `MPI_Type_create_struct` (MPI-5.0 §5.1.2).
///
/// # Safety
/// The arrays are null or have `count` entries; `newtype` is null or valid.
pub unsafe fn type_create_struct(
    mpi: &AbiState,
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: Counts,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, form) = (length(count)?, form_of(array_of_blocklengths));
    // SAFETY: the caller's promise.
    unsafe {
        let lengths = entries(array_of_blocklengths, n, "block lengths")?;
        let places = entries(array_of_displacements, n, "displacements")?;
        let handles = slice(array_of_types, n, "the array of datatypes")?;
        let types: Result<Vec<_>> = handles.iter().map(|h| mpi.datatypes.get(*h)).collect();
        let datatype = Datatype::structure(form, &lengths, &places, &types?)?;
        store_datatype(mpi, newtype, datatype)
    }
}

/// `MPI_Type_create_resized` (MPI-5.0 §5.1.7).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_resized(
    mpi: &AbiState,
    oldtype: MPI_Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::resized(Form::Int, old, lb as i64, extent as i64);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// `MPI_Type_create_resized_c`.
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_resized_c(
    mpi: &AbiState,
    oldtype: MPI_Datatype,
    lb: MPI_Count,
    extent: MPI_Count,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let make_it = |old: &_| Datatype::resized(Form::Large, old, lb, extent);
    // SAFETY: the caller's promise.
    unsafe { make(mpi, oldtype, newtype, make_it) }
}

/// The number of dimensions, at least one.
fn dimensions(ndims: c_int) -> Result<usize> {
    match usize::try_from(ndims) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(arg_error(format!("{ndims} dimensions"))),
    }
}

/// `MPI_Type_create_subarray` (MPI-5.0 §5.1.3).
///
/// # Safety
/// The arrays are null or have `ndims` entries; `newtype` is null or valid.
pub unsafe fn type_create_subarray(
    mpi: &AbiState,
    ndims: c_int,
    array_of_sizes: Counts,
    array_of_subsizes: Counts,
    array_of_starts: Counts,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, order) = (dimensions(ndims)?, StorageOrder::from_abi(order)?);
    let form = form_of(array_of_sizes);
    // SAFETY: the caller's promise.
    unsafe {
        let sizes = entries(array_of_sizes, n, "sizes")?;
        let parts = entries(array_of_subsizes, n, "subsizes")?;
        let starts = entries(array_of_starts, n, "starts")?;
        make(mpi, oldtype, newtype, |old| {
            Datatype::subarray(form, &sizes, &parts, &starts, order, old)
        })
    }
}

/// `MPI_Type_create_darray` (MPI-5.0 §5.1.4).
///
/// # Safety
/// The arrays are null or have `ndims` entries; `newtype` is null or valid.
pub unsafe fn type_create_darray(
    mpi: &AbiState,
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: Counts,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (n, order) = (dimensions(ndims)?, StorageOrder::from_abi(order)?);
    let form = form_of(array_of_gsizes);
    // SAFETY: the caller's promise.
    unsafe {
        let sizes = entries(array_of_gsizes, n, "sizes")?;
        let kinds = slice(array_of_distribs, n, "the array of distributions")?;
        let arguments = slice(array_of_dargs, n, "the distributions' arguments")?;
        let grid = slice(array_of_psizes, n, "the array of grid sizes")?;
        make(mpi, oldtype, newtype, |old| {
            Datatype::darray(form, size, rank, &sizes, kinds, arguments, grid, order, old)
        })
    }
}

/// `MPI_Type_create_f90_real` (MPI-5.0 §19.1.9).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_f90_real(
    mpi: &AbiState,
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { store_datatype(mpi, newtype, Datatype::f90_real(p, r)?) }
}

/// `MPI_Type_create_f90_complex` (MPI-5.0 §19.1.9).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_f90_complex(
    mpi: &AbiState,
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { store_datatype(mpi, newtype, Datatype::f90_complex(p, r)?) }
}

/// `MPI_Type_create_f90_integer` (MPI-5.0 §19.1.9).
///
/// # Safety
/// `newtype` is null or valid.
pub unsafe fn type_create_f90_integer(
    mpi: &AbiState,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise.
    unsafe { store_datatype(mpi, newtype, Datatype::f90_integer(r)?) }
}

/// `MPI_Type_match_size` (MPI-5.0 §19.1.9).
///
/// # Safety
/// `datatype` is null or valid.
pub unsafe fn type_match_size(
    mpi: &AbiState,
    typeclass: c_int,
    size: c_int,
    datatype: *mut MPI_Datatype,
) -> Result<()> {
    let class = match typeclass {
        MPIX_TYPECLASS_LOGICAL => TypeClass::Logical,
        MPI_TYPECLASS_INTEGER => TypeClass::Integer,
        MPI_TYPECLASS_REAL => TypeClass::Real,
        MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
        other => return Err(arg_error(format!("{other} is no class of types"))),
    };
    let named = Datatype::match_size(class, size)?;
    // SAFETY: the caller's promise.
    unsafe { store_datatype(mpi, datatype, Datatype::named(named)) }
}

/// `MPI_Type_get_value_index` (MPI-5.0 §6.9.4).
///
/// # Safety
/// `pair_type` is null or valid.
pub unsafe fn type_get_value_index(
    mpi: &AbiState,
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> Result<()> {
    let value = mpi.datatypes.get(value_type)?;
    let index = mpi.datatypes.get(index_type)?;
    // SAFETY: the caller's promise.
    unsafe {
        match Datatype::value_index(&value, &index) {
            Some(pair) => store_datatype(mpi, pair_type, pair),
            None => store(pair_type, "the pair type", MPI_DATATYPE_NULL),
        }
    }
}
