//! How a datatype was made, and how much of it a message holds (MPI-5.0 §5.1.11, §5.1.13).

#![allow(clippy::too_many_arguments)] // the standard's own lists

use std::ffi::c_int;

use rejoin_mpi::Result;
use rejoin_mpi::datatype::{Combiner, Contents};

use crate::counts::OutCount;
use crate::functions::datatypes::objects::{combiner_number, give};
use crate::state::AbiState;
use crate::support::{arg_error, store};
use crate::types::*;

/// Refuses types of the large-count form where only ints can be given back.
fn check_form(contents: &Contents) -> Result<()> {
    if contents.large_counts.is_empty() {
        return Ok(());
    }
    Err(arg_error(
        "the datatype was made with large counts: ask with the _c form",
    ))
}

/// Stores how a datatype was made, and the lengths of the lists of its contents.
///
/// # Safety
/// The pointers are null or valid.
unsafe fn envelope(
    contents: &Contents,
    [integers, addresses, datatypes]: [OutCount; 3],
    (how, combiner): (Combiner, *mut c_int),
) -> Result<()> {
    let lists = [
        (integers, "the number of integers", contents.integers.len()),
        (
            addresses,
            "the number of addresses",
            contents.addresses.len(),
        ),
        (
            datatypes,
            "the number of datatypes",
            contents.datatypes.len(),
        ),
    ];
    // SAFETY: the caller's promise.
    unsafe {
        for (target, what, length) in lists {
            give(target, what, length as i64)?;
        }
        store(combiner, "the combiner", combiner_number(how))
    }
}

/// `MPI_Type_get_envelope` (MPI-5.0 §5.1.13).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn type_get_envelope(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    check_form(datatype.contents())?;
    // The lists came through ints, so their lengths fit.
    let lengths = [num_integers, num_addresses, num_datatypes].map(OutCount::from);
    let how = (datatype.combiner(), combiner);
    // SAFETY: the caller's promise.
    unsafe { envelope(datatype.contents(), lengths, how) }
}

/// `MPI_Type_get_envelope_c`.
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn type_get_envelope_c(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    let contents = datatype.contents();
    let lengths = [num_integers, num_addresses, num_datatypes].map(OutCount::from);
    let large_counts = contents.large_counts.len() as i64;
    // SAFETY: the caller's promise.
    unsafe {
        give(
            num_large_counts.into(),
            "the number of counts",
            large_counts,
        )?;
        envelope(contents, lengths, (datatype.combiner(), combiner))
    }
}

/// Copies a list of the contents to the program's array.
///
/// # Safety
/// `target` is null or has room for `room` entries.
unsafe fn fill<S: Copy, T>(
    list: &[S],
    target: *mut T,
    room: i64,
    what: &'static str,
    convert: impl Fn(S) -> T,
) -> Result<()> {
    if room < list.len() as i64 {
        return Err(arg_error(format!(
            "the array of {what} has room for {room}, {} are needed",
            list.len()
        )));
    }
    if target.is_null() && !list.is_empty() {
        return Err(arg_error(format!("the array of {what} is null")));
    }
    for (i, value) in list.iter().enumerate() {
        // SAFETY: the array has room for the list.
        unsafe { target.add(i).write(convert(*value)) };
    }
    Ok(())
}

/// The arrays that `MPI_Type_get_contents` fills.
struct Room {
    integers: (i64, *mut c_int),
    addresses: (i64, *mut MPI_Aint),
    large_counts: (i64, *mut MPI_Count),
    datatypes: (i64, *mut MPI_Datatype),
}

/// Gives the contents of a datatype; derived types among them get new handles.
///
/// # Safety
/// The arrays are null or have room for as many entries as is said.
unsafe fn contents(mpi: &AbiState, datatype: MPI_Datatype, large: bool, room: &Room) -> Result<()> {
    let datatype = mpi.datatypes.get(datatype)?;
    if let Combiner::Named(named) = datatype.combiner() {
        return Err(arg_error(format!("{} has no contents", named.name())));
    }
    let contents = datatype.contents();
    if !large {
        check_form(contents)?;
    }
    let (max, types) = room.datatypes;
    let needed = contents.datatypes.len() as i64;
    if max < needed || (types.is_null() && needed > 0) {
        return Err(arg_error(format!(
            "the array of datatypes is null or has room for {max} only, {needed} are needed"
        )));
    }
    // SAFETY: the caller's promise; the array of datatypes was checked.
    unsafe {
        let (max, target) = room.integers;
        fill(&contents.integers, target, max, "integers", |v| v)?;
        let (max, target) = room.addresses;
        fill(&contents.addresses, target, max, "addresses", |v| {
            v as MPI_Aint
        })?;
        let (max, target) = room.large_counts;
        fill(&contents.large_counts, target, max, "large counts", |v| v)?;
        for (i, part) in contents.datatypes.iter().enumerate() {
            types.add(i).write(mpi.datatypes.part_handle(part));
        }
    }
    Ok(())
}

/// `MPI_Type_get_contents` (MPI-5.0 §5.1.13).
///
/// # Safety
/// The arrays are null or have room for as many entries as is said.
pub unsafe fn type_get_contents(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    let room = Room {
        integers: (max_integers.into(), array_of_integers),
        addresses: (max_addresses.into(), array_of_addresses),
        large_counts: (0, std::ptr::null_mut()),
        datatypes: (max_datatypes.into(), array_of_datatypes),
    };
    // SAFETY: the caller's promise.
    unsafe { contents(mpi, datatype, false, &room) }
}

/// `MPI_Type_get_contents_c`.
///
/// # Safety
/// The arrays are null or have room for as many entries as is said.
pub unsafe fn type_get_contents_c(
    mpi: &AbiState,
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    let room = Room {
        integers: (max_integers, array_of_integers),
        addresses: (max_addresses, array_of_addresses),
        large_counts: (max_large_counts, array_of_large_counts),
        datatypes: (max_datatypes, array_of_datatypes),
    };
    // SAFETY: the caller's promise.
    unsafe { contents(mpi, datatype, true, &room) }
}
