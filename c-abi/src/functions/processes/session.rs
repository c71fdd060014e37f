//! Sessions (MPI-5.0 §11.3): handles to a library that no `MPI_Init` need have started, and the
//! process sets `mpi://WORLD` and `mpi://SELF`.
//!
//! All sessions of a process and the world model share one runtime, which ends with the last of
//! them.

use std::ffi::{c_char, c_int};
use std::rc::Rc;

use rejoin_mpi::group::ProcessSet;
use rejoin_mpi::{Communicator, Group, Info, Result};

use super::init;
use crate::constants::*;
use crate::errors::Installed;
use crate::functions::communicators::{create, group};
use crate::functions::info;
use crate::handles::HandleKind;
use crate::library_state;
use crate::state::{AbiState, SessionState};
use crate::support::{arg_error, load, store, store_string, string};
use crate::types::*;

const LEVELS: [(&str, c_int); 4] = [
    ("MPI_THREAD_SINGLE", MPI_THREAD_SINGLE),
    ("MPI_THREAD_FUNNELED", MPI_THREAD_FUNNELED),
    ("MPI_THREAD_SERIALIZED", MPI_THREAD_SERIALIZED),
    ("MPI_THREAD_MULTIPLE", MPI_THREAD_MULTIPLE),
];

/// The thread level that the hints of a new session ask for.
fn level(mpi: &AbiState, info: MPI_Info) -> Result<c_int> {
    if info == MPI_INFO_NULL {
        return Ok(MPI_THREAD_SINGLE);
    }
    let Some(wanted) = mpi.infos.get(info)?.get("thread_level")? else {
        return Ok(MPI_THREAD_SINGLE);
    };
    let known = LEVELS.iter().find(|l| l.0 == wanted);
    known
        .map(|l| l.1)
        .ok_or_else(|| arg_error(format!("{wanted:?} is not a thread level")))
}

/// `MPI_Session_init` (MPI-5.0 §11.3.1).
///
/// # Safety
/// `session` is null or valid.
pub unsafe fn session_init(
    mpi: &AbiState,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> Result<()> {
    if session.is_null() {
        return Err(arg_error("the pointer for the session is null"));
    }
    let level = level(mpi, info)?.max(library_state::thread_level());
    let handler = mpi.errors.find(HandleKind::Session, errhandler)?;
    let level = init::open(mpi, level)?;
    let handle = mpi.sessions.insert(Rc::new(SessionState { level }));
    mpi.errors.set_handler(handle, handler);
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { store(session, "the session", handle) }?;
    // The first image of a program that goes without MPI_Init.
    mpi.core()?.safe_point()
}

/// `MPI_Session_finalize` (MPI-5.0 §11.3.1): the last one, after `MPI_Finalize` when there was an
/// `MPI_Init`, waits for the other processes.
///
/// # Safety
/// `session` is null or valid.
pub unsafe fn session_finalize(mpi: &AbiState, session: *mut MPI_Session) -> Result<()> {
    // SAFETY: the caller's.
    let handle = unsafe { load(session, "the session") }?;
    drop(mpi.sessions.remove(handle)?);
    mpi.errors.forget(handle);
    init::close(mpi)?;
    // SAFETY: as above.
    unsafe { store(session, "the session", MPI_SESSION_NULL) }
}

/// `MPI_Session_get_info` (MPI-5.0 §11.3.1).
///
/// # Safety
/// `info_used` is null or valid.
pub unsafe fn session_get_info(
    mpi: &AbiState,
    session: MPI_Session,
    info_used: *mut MPI_Info,
) -> Result<()> {
    let level = mpi.sessions.get(session)?.level;
    let used = Info::new().with_memory_kinds()?;
    if let Some((name, _)) = LEVELS.iter().find(|l| l.1 == level) {
        used.set("thread_level", name)?;
    }
    // SAFETY: the caller's.
    unsafe { info::give(mpi, info_used, used) }
}

/// `MPI_Session_get_num_psets` (MPI-5.0 §11.3.2).
///
/// # Safety
/// `npset_names` is null or valid.
pub unsafe fn session_get_num_psets(
    mpi: &AbiState,
    session: MPI_Session,
    _info: MPI_Info,
    npset_names: *mut c_int,
) -> Result<()> {
    mpi.sessions.with(session, |_| ())?;
    let n = ProcessSet::ALL.len() as c_int;
    // SAFETY: the program passed it for the result.
    unsafe { store(npset_names, "the number of process sets", n) }
}

/// `MPI_Session_get_nth_pset` (MPI-5.0 §11.3.2): the name as far as there is room, and the room
/// that all of it needs.
///
/// # Safety
/// `pset_len` is null or valid, `pset_name` has room for as many bytes as it says.
pub unsafe fn session_get_nth_pset(
    mpi: &AbiState,
    session: MPI_Session,
    _info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> Result<()> {
    mpi.sessions.with(session, |_| ())?;
    let found = usize::try_from(n).ok().and_then(|n| ProcessSet::ALL.get(n));
    let Some(name) = found.map(|set| set.name()) else {
        let have = ProcessSet::ALL.len();
        return Err(arg_error(format!("process set {n} of {have}")));
    };
    // SAFETY: the caller's.
    let room = unsafe { load(pset_len, "the length") }?;
    if room > 0 {
        // SAFETY: the program promises the room.
        unsafe { store_string(pset_name, room as usize, name, std::ptr::null_mut()) }?;
    }
    let needed = name.len() + 1;
    // SAFETY: as above.
    unsafe { store(pset_len, "the length", needed as c_int) }
}

/// The processes of a set.
///
/// # Safety
/// `name` is null or a string.
unsafe fn members(mpi: &AbiState, name: *const c_char) -> Result<Rc<Group>> {
    // SAFETY: the caller's.
    let name = unsafe { string(name, "the name of the process set") }?;
    match ProcessSet::named(&name) {
        Some(ProcessSet::World) => Ok(mpi.core()?.world().group().clone()),
        Some(ProcessSet::Own) => Ok(mpi.core()?.self_comm().group().clone()),
        None => Err(arg_error(format!("there is no process set {name:?}"))),
    }
}

/// `MPI_Session_get_pset_info` (MPI-5.0 §11.3.2).
///
/// # Safety
/// `pset_name` is null or a string, `info` is null or valid.
pub unsafe fn session_get_pset_info(
    mpi: &AbiState,
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    mpi.sessions.with(session, |_| ())?;
    // SAFETY: the caller's.
    unsafe {
        let size = members(mpi, pset_name)?.size().to_string();
        let about = Info::new();
        about.set("mpi_size", &size)?;
        info::give(mpi, info, about)
    }
}

/// `MPI_Group_from_session_pset` (MPI-5.0 §7.3.2).
///
/// # Safety
/// `pset_name` is null or a string, `newgroup` is null or valid.
pub unsafe fn group_from_session_pset(
    mpi: &AbiState,
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    mpi.sessions.with(session, |_| ())?;
    // SAFETY: the caller's.
    unsafe { group::give(mpi, newgroup, members(mpi, pset_name)?) }
}

/// `MPI_Comm_create_from_group` (MPI-5.0 §7.4.2).
///
/// # Safety
/// `stringtag` is null or a string, `newcomm` is null or valid.
pub unsafe fn comm_create_from_group(
    mpi: &AbiState,
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { create::prepare(newcomm) }?;
    let handler = mpi.errors.find(HandleKind::Comm, errhandler)?;
    let group = mpi.groups.get(group)?;
    // SAFETY: the caller's.
    let tag = unsafe { string(stringtag, "the tag") }?;
    let hints = create::hints(mpi, info)?;
    let made = mpi.core()?.comm_create_from_group(&group, &tag)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give_without_parent(mpi, newcomm, made, hints, handler) }
}

/// `MPI_Intercomm_create_from_groups` (MPI-5.0 §7.6.2).
///
/// # Safety
/// `stringtag` is null or a string, `newintercomm` is null or valid.
#[allow(clippy::too_many_arguments, reason = "the standard's")]
pub unsafe fn intercomm_create_from_groups(
    mpi: &AbiState,
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe { create::prepare(newintercomm) }?;
    let handler = mpi.errors.find(HandleKind::Comm, errhandler)?;
    let group = mpi.groups.get(local_group)?;
    // It counts at the leader only.
    let remote = mpi.groups.get(remote_group);
    let remote = remote.map(|remote| (remote, remote_leader));
    // SAFETY: the caller's.
    let tag = unsafe { string(stringtag, "the tag") }?;
    let hints = create::hints(mpi, info)?;
    let core = mpi.core()?;
    let made = core.intercomm_create_from_groups(&group, local_leader, remote, &tag)?;
    // SAFETY: not null, and so valid by the caller's promise.
    unsafe { give_without_parent(mpi, newintercomm, made, hints, handler) }
}

/// Stores what was made, if anything, with its hints and error handler.
///
/// # Safety
/// `newcomm` is valid.
unsafe fn give_without_parent(
    mpi: &AbiState,
    newcomm: *mut MPI_Comm,
    made: Option<Rc<Communicator>>,
    hints: Option<Rc<Info>>,
    handler: Installed,
) -> Result<()> {
    let Some(made) = made else {
        return Ok(());
    };
    if let Some(hints) = hints {
        made.info().replace(&hints);
    }
    // SAFETY: the caller's.
    unsafe {
        create::give(mpi, newcomm, Some(made), MPI_COMM_NULL)?;
        mpi.errors.set_handler(newcomm.read(), handler);
    }
    Ok(())
}
