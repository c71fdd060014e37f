//! Communicators: queries, names and hints (MPI-5.0 §7.4, §7.8).

use std::ffi::{c_char, c_int};

use rejoin_mpi::Result;

use super::group::{self, comparison};
use crate::constants::*;
use crate::handles::invalid;
use crate::state::AbiState;
use crate::support::{store, store_string, string};
use crate::types::*;

/// `MPI_Comm_size`.
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn comm_size(mpi: &AbiState, comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    let n = mpi.comms.with(comm, |c| c.size())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(size, "the size", n as c_int) }
}

/// `MPI_Comm_rank`.
///
/// # Safety
/// `rank` is null or valid.
pub unsafe fn comm_rank(mpi: &AbiState, comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
    let n = mpi.comms.with(comm, |c| c.rank())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(rank, "the rank", n as c_int) }
}

/// `MPI_Comm_compare`.
///
/// # Safety
/// `result` is null or valid.
pub unsafe fn comm_compare(
    mpi: &AbiState,
    comm1: MPI_Comm,
    comm2: MPI_Comm,
    result: *mut c_int,
) -> Result<()> {
    let (a, b) = (mpi.comms.get(comm1)?, mpi.comms.get(comm2)?);
    // SAFETY: the program passed it for the result.
    unsafe { store(result, "the result", comparison(a.compare(&b))) }
}

/// `MPI_Comm_test_inter`.
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn comm_test_inter(mpi: &AbiState, comm: MPI_Comm, flag: *mut c_int) -> Result<()> {
    let inter = mpi.comms.with(comm, |c| c.is_inter())?;
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(inter)) }
}

/// `MPI_Comm_remote_size`.
///
/// # Safety
/// `size` is null or valid.
pub unsafe fn comm_remote_size(mpi: &AbiState, comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    let n = mpi.comms.get(comm)?.remote_group()?.size();
    // SAFETY: the program passed it for the result.
    unsafe { store(size, "the size", n as c_int) }
}

/// `MPI_Comm_remote_group`.
///
/// # Safety
/// `group` is null or valid.
pub unsafe fn comm_remote_group(
    mpi: &AbiState,
    comm: MPI_Comm,
    group: *mut MPI_Group,
) -> Result<()> {
    let found = mpi.comms.get(comm)?.remote_group()?.clone();
    // SAFETY: the caller's.
    unsafe { group::give(mpi, group, found) }
}

/// `MPI_Comm_group`.
///
/// # Safety
/// `group` is null or valid.
pub unsafe fn comm_group(mpi: &AbiState, comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    let found = mpi.comms.get(comm)?.group().clone();
    // SAFETY: the caller's.
    unsafe { group::give(mpi, group, found) }
}

/// `MPI_Comm_get_parent`: no process here was spawned by another.
///
/// # Safety
/// `parent` is null or valid.
pub unsafe fn comm_get_parent(_mpi: &AbiState, parent: *mut MPI_Comm) -> Result<()> {
    // SAFETY: the program passed it for the result.
    unsafe { store(parent, "the parent", MPI_COMM_NULL) }
}

/// `MPI_Comm_set_name`.
///
/// # Safety
/// `comm_name` is null or a string.
pub unsafe fn comm_set_name(
    mpi: &AbiState,
    comm: MPI_Comm,
    comm_name: *const c_char,
) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    // SAFETY: the caller's.
    comm.set_name(&unsafe { string(comm_name, "the name") }?);
    Ok(())
}

/// `MPI_Win_get_name` (MPI-5.0 §7.8): the null handle has its own name as its name; there are no
/// windows yet.
///
/// # Safety
/// `win_name` is null or has room for `MPI_MAX_OBJECT_NAME` bytes, `resultlen` is null or valid.
pub unsafe fn win_get_name(
    _mpi: &AbiState,
    win: MPI_Win,
    win_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    if win != MPI_WIN_NULL {
        return Err(invalid(win));
    }
    let room = MPI_MAX_OBJECT_NAME as usize;
    // SAFETY: the program promises the room.
    unsafe { store_string(win_name, room, "MPI_WIN_NULL", resultlen) }
}

/// `MPI_Comm_get_name`.
///
/// # Safety
/// `comm_name` is null or has room for `MPI_MAX_OBJECT_NAME` bytes, `resultlen` is null or valid.
pub unsafe fn comm_get_name(
    mpi: &AbiState,
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // The null handle has its own name as its name (MPI-5.0 §7.8).
    let name = match comm {
        MPI_COMM_NULL => "MPI_COMM_NULL".to_owned(),
        comm => mpi.comms.get(comm)?.name(),
    };
    let room = MPI_MAX_OBJECT_NAME as usize;
    // SAFETY: the program promises the room.
    unsafe { store_string(comm_name, room, &name, resultlen) }
}

/// `MPI_Comm_set_info`: hints are kept; none changes what the library does.
pub fn comm_set_info(mpi: &AbiState, comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    let comm = mpi.comms.get(comm)?;
    if info != MPI_INFO_NULL {
        comm.info().replace(&*mpi.infos.get(info)?);
    }
    Ok(())
}

/// `MPI_Comm_get_info`: a new info object.
///
/// # Safety
/// `info_used` is null or valid.
pub unsafe fn comm_get_info(
    mpi: &AbiState,
    comm: MPI_Comm,
    info_used: *mut MPI_Info,
) -> Result<()> {
    let copy = mpi.comms.get(comm)?.info().dup().with_memory_kinds()?;
    // SAFETY: the caller's.
    unsafe { crate::functions::info::give(mpi, info_used, copy) }
}
