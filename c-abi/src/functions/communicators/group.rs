//! Groups (MPI-5.0 §7.3).

use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::group::Comparison;
use rejoin_mpi::{Group, Result};

use crate::constants::*;
use crate::state::AbiState;
use crate::support::{arg_error, load, slice, store};
use crate::types::*;

/// Stores a handle for a group; empty ones are `MPI_GROUP_EMPTY`.
///
/// # Safety
/// `target` is null or valid.
pub(crate) unsafe fn give(mpi: &AbiState, target: *mut MPI_Group, group: Rc<Group>) -> Result<()> {
    if target.is_null() {
        return Err(arg_error("the pointer for the new group is null"));
    }
    let handle = if group.size() == 0 {
        MPI_GROUP_EMPTY
    } else {
        mpi.groups.insert(group)
    };
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(target, "the new group", handle) }
}

/// The program's list of ranks or ranges.
///
/// # Safety
/// `list` is null or has `n` elements.
unsafe fn list<'a, T>(n: c_int, list: *const T) -> Result<&'a [T]> {
    let negative = |_| arg_error(format!("the number {n} of ranks is negative"));
    let n = usize::try_from(n).map_err(negative)?;
    // SAFETY: the caller's.
    unsafe { slice(list, n, "the ranks") }
}

/// The ABI's number of a comparison.
pub fn comparison(c: Comparison) -> c_int {
    match c {
        Comparison::Ident => MPI_IDENT,
        Comparison::Congruent => MPI_CONGRUENT,
        Comparison::Similar => MPI_SIMILAR,
        Comparison::Unequal => MPI_UNEQUAL,
    }
}

/// `MPI_Group_size`.
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn group_size(mpi: &AbiState, group: MPI_Group, size: *mut c_int) -> Result<()> {
    let n = mpi.groups.with(group, |g| g.size())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(size, "the size", n as c_int) }
}

/// `MPI_Group_rank`.
///
/// # Safety
/// `rank` is null or valid.
pub unsafe fn group_rank(mpi: &AbiState, group: MPI_Group, rank: *mut c_int) -> Result<()> {
    let found = mpi.groups.with(group, |g| g.rank())?;
    let n = found.map_or(MPI_UNDEFINED, |r| r as c_int);
    // SAFETY: the program passed it for the result.
    unsafe { store(rank, "the rank", n) }
}

/// `MPI_Group_translate_ranks`.
///
/// # Safety
/// Both lists are null or have `n` elements.
pub unsafe fn group_translate_ranks(
    mpi: &AbiState,
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> Result<()> {
    let (a, b) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
    // SAFETY: the caller's.
    let from = unsafe { list(n, ranks1) }?;
    if ranks2.is_null() && !from.is_empty() {
        return Err(arg_error("the pointer for the ranks is null"));
    }
    for (i, &rank) in from.iter().enumerate() {
        let to = a.translate(rank, &b)?;
        // SAFETY: not null, and so it has as many elements as `from`.
        unsafe { ranks2.add(i).write(to) };
    }
    Ok(())
}

/// `MPI_Group_compare`.
///
/// # Safety
/// `result` is null or valid.
pub unsafe fn group_compare(
    mpi: &AbiState,
    group1: MPI_Group,
    group2: MPI_Group,
    result: *mut c_int,
) -> Result<()> {
    let (a, b) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
    // SAFETY: the program passed it for the result.
    unsafe { store(result, "the result", comparison(a.compare(&b))) }
}

macro_rules! of_two {
    ($($name:ident $call:ident $what:literal;)*) => {$(
        #[doc = $what]
        ///
        /// # Safety
        /// `newgroup` is null or valid.
        pub unsafe fn $name(
            mpi: &AbiState,
            group1: MPI_Group,
            group2: MPI_Group,
            newgroup: *mut MPI_Group,
        ) -> Result<()> {
            let (a, b) = (mpi.groups.get(group1)?, mpi.groups.get(group2)?);
            // SAFETY: the caller's.
            unsafe { give(mpi, newgroup, a.$call(&b).into()) }
        }
    )*};
}

of_two! {
    group_union union "`MPI_Group_union`.";
    group_intersection intersection "`MPI_Group_intersection`.";
    group_difference difference "`MPI_Group_difference`.";
}

macro_rules! of_ranks {
    ($($name:ident $call:ident $what:literal;)*) => {$(
        #[doc = $what]
        ///
        /// # Safety
        /// `ranks` is null or has `n` elements, `newgroup` is null or valid.
        pub unsafe fn $name(
            mpi: &AbiState,
            group: MPI_Group,
            n: c_int,
            ranks: *const c_int,
            newgroup: *mut MPI_Group,
        ) -> Result<()> {
            let group = mpi.groups.get(group)?;
            // SAFETY: the caller's.
            let ranks = unsafe { list(n, ranks) }?;
            // SAFETY: the caller's.
            unsafe { give(mpi, newgroup, group.$call(ranks.iter().copied())?.into()) }
        }
    )*};
}

of_ranks! {
    group_incl incl "`MPI_Group_incl`.";
    group_excl excl "`MPI_Group_excl`.";
}

macro_rules! of_ranges {
    ($($name:ident $call:ident $what:literal;)*) => {$(
        #[doc = $what]
        ///
        /// # Safety
        /// `ranges` is null or has `n` elements, `newgroup` is null or valid.
        pub unsafe fn $name(
            mpi: &AbiState,
            group: MPI_Group,
            n: c_int,
            ranges: *mut [c_int; 3],
            newgroup: *mut MPI_Group,
        ) -> Result<()> {
            let group = mpi.groups.get(group)?;
            // SAFETY: the caller's.
            let ranges = unsafe { list(n, ranges.cast_const()) }?;
            // SAFETY: the caller's.
            unsafe { give(mpi, newgroup, group.$call(ranges)?.into()) }
        }
    )*};
}

of_ranges! {
    group_range_incl range_incl "`MPI_Group_range_incl`.";
    group_range_excl range_excl "`MPI_Group_range_excl`.";
}

/// `MPI_Group_free`.
///
/// # Safety
/// `group` is null or valid.
pub unsafe fn group_free(mpi: &AbiState, group: *mut MPI_Group) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(group, "the group") }?;
    // Calls that give an empty group give the predefined handle, which the program then frees.
    if handle != MPI_GROUP_EMPTY {
        drop(mpi.groups.remove(handle)?);
    }
    // SAFETY: as above.
    unsafe { store(group, "the group", MPI_GROUP_NULL) }
}
