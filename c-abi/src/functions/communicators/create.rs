//! Making and freeing communicators (MPI-5.0 §7.4.2, §7.4.3).

use std::ffi::c_int;
use std::rc::Rc;

use rejoin_mpi::comm::SplitType;
use rejoin_mpi::{Communicator, Completed, Info, Mpi as Core, Result, Status};

use crate::constants::*;
use crate::functions::point_to_point::request;
use crate::state::{self, AbiState};
use crate::support::{arg_error, load, store};
use crate::types::*;

/// A handle for a new communicator, with its parent's error handler.
fn enter(mpi: &AbiState, comm: Rc<Communicator>, parent: MPI_Comm) -> MPI_Comm {
    let handle = mpi.comms.insert(comm.clone());
    comm.set_handle(handle.0);
    mpi.errors.inherit(handle, parent);
    handle
}

/// Stores `MPI_COMM_NULL`, which stays there when the constructor fails.
///
/// # Safety
/// `newcomm` is null or valid.
pub(crate) unsafe fn prepare(newcomm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { store(newcomm, "the new communicator", MPI_COMM_NULL) }
}

/// Stores what was made; `MPI_COMM_NULL` for nothing.
///
/// # Safety
/// `newcomm` is valid.
pub(crate) unsafe fn give(
    mpi: &AbiState,
    newcomm: *mut MPI_Comm,
    made: Option<Rc<Communicator>>,
    parent: MPI_Comm,
) -> Result<()> {
    let handle = made.map_or(MPI_COMM_NULL, |c| enter(mpi, c, parent));
    // SAFETY: the caller's.
    unsafe { store(newcomm, "the new communicator", handle) }
}

pub(crate) fn hints(mpi: &AbiState, info: MPI_Info) -> Result<Option<Rc<Info>>> {
    if info == MPI_INFO_NULL {
        return Ok(None);
    }
    mpi.infos.get(info).map(Some)
}

/// `MPI_Comm_dup`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_dup(mpi: &AbiState, comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { comm_dup_with_info(mpi, comm, MPI_INFO_NULL, newcomm) }
}

/// `MPI_Comm_dup_with_info`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_dup_with_info(
    mpi: &AbiState,
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let old = mpi.comms.get(comm)?;
    let info = hints(mpi, info)?;
    let made = mpi.core()?.comm_dup(&old)?;
    if let Some(info) = info {
        made.info().replace(&info);
    }
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, Some(made), comm) }
}

/// `MPI_Comm_idup`.
///
/// # Safety
/// The pointers are null or valid, `newcomm` until the request completes.
pub unsafe fn comm_idup(
    mpi: &AbiState,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { comm_idup_with_info(mpi, comm, MPI_INFO_NULL, newcomm, request) }
}

/// `MPI_Comm_idup_with_info`.
///
/// # Safety
/// The conditions of [`comm_idup`].
pub unsafe fn comm_idup_with_info(
    mpi: &AbiState,
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let old = mpi.comms.get(comm)?;
    let info = hints(mpi, info)?.map(|i| i.dup());
    request::check_out(request)?;
    let core = mpi.core()?;
    let run = core.comm_idup(&old, move |made| {
        if let Some(info) = &info {
            made.info().replace(info);
        }
        // SAFETY: tasks run inside MPI calls, so this thread is inside.
        let mpi = unsafe { state::mpi() };
        let handle = enter(mpi, made, comm);
        // SAFETY: the program keeps it until the request completes.
        unsafe { newcomm.write(handle) };
    })?;
    let id = core.start_task(
        Some(&old),
        Box::pin(async move {
            let error = run.await.err();
            Completed {
                status: Status::EMPTY,
                error,
            }
        }),
    );
    // SAFETY: checked above.
    unsafe { request::give(request, id) }
}

/// `MPI_Comm_create`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_create(
    mpi: &AbiState,
    comm: MPI_Comm,
    group: MPI_Group,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let (old, group) = (mpi.comms.get(comm)?, mpi.groups.get(group)?);
    let made = mpi.core()?.comm_create(&old, &group)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, made, comm) }
}

/// `MPI_Comm_create_group`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_create_group(
    mpi: &AbiState,
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let (old, group) = (mpi.comms.get(comm)?, mpi.groups.get(group)?);
    let made = mpi.core()?.comm_create_group(&old, &group, tag)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, made, comm) }
}

/// `MPI_Comm_split`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_split(
    mpi: &AbiState,
    comm: MPI_Comm,
    color: c_int,
    key: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let old = mpi.comms.get(comm)?;
    let made = mpi.core()?.comm_split(&old, color, key)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, made, comm) }
}

/// `MPI_Comm_split_type`.
///
/// # Safety
/// `newcomm` is null or valid.
pub unsafe fn comm_split_type(
    mpi: &AbiState,
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { prepare(newcomm) }?;
    let old = mpi.comms.get(comm)?;
    let kind = match split_type {
        MPI_UNDEFINED => SplitType::Undefined,
        MPI_COMM_TYPE_SHARED => SplitType::Shared,
        MPI_COMM_TYPE_HW_UNGUIDED => SplitType::HwUnguided,
        MPI_COMM_TYPE_HW_GUIDED => SplitType::HwGuided,
        MPI_COMM_TYPE_RESOURCE_GUIDED => SplitType::ResourceGuided,
        other => return Err(arg_error(format!("{other} is not a split type"))),
    };
    let info = hints(mpi, info)?;
    let made = mpi
        .core()?
        .comm_split_type(&old, kind, key, info.as_deref())?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give(mpi, newcomm, made, comm) }
}

/// `MPI_Comm_free`.
///
/// # Safety
/// `comm` is null or valid.
pub unsafe fn comm_free(mpi: &AbiState, comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { end(mpi, comm, Core::comm_free) }
}

/// `MPI_Comm_disconnect` (MPI-5.0 §11.10.4): waits for this process's pending operations first.
///
/// # Safety
/// `comm` is null or valid.
pub unsafe fn comm_disconnect(mpi: &AbiState, comm: *mut MPI_Comm) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { end(mpi, comm, Core::comm_disconnect) }
}

/// # Safety
/// `comm` is null or valid.
unsafe fn end(
    mpi: &AbiState,
    comm: *mut MPI_Comm,
    run: impl FnOnce(&Core, &Rc<Communicator>) -> Result<()>,
) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(comm, "the communicator") }?;
    let found = mpi.comms.get(handle)?;
    run(mpi.core()?, &found)?;
    drop(mpi.comms.remove(handle)?);
    mpi.errors.forget(handle);
    // SAFETY: as above.
    unsafe { store(comm, "the communicator", MPI_COMM_NULL) }
}
