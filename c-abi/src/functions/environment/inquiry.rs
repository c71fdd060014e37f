//! Versions, time, addresses and the library's state (MPI-5.0 chapters 9 and 11).

use std::ffi::{c_char, c_int};

use rejoin_mpi::{Info, MACHINE, Result, decide};

use crate::constants::*;
use crate::functions::processes::init::is_main;
use crate::library_state;
use crate::state::{AbiState, mpi};
use crate::support::{store, store_string};
use crate::types::*;

/// `MPI_Get_version` (MPI-5.0 §9.1.1).
///
/// # Safety
/// The pointers are null or valid.
pub unsafe fn get_version(
    _mpi: &AbiState,
    version: *mut c_int,
    subversion: *mut c_int,
) -> Result<()> {
    // SAFETY: the program passed both for results.
    unsafe {
        store(version, "the version", MPI_VERSION)?;
        store(subversion, "the subversion", MPI_SUBVERSION)
    }
}

/// `MPI_Get_library_version` (MPI-5.0 §9.1.1).
///
/// # Safety
/// `version` is null or has room for `MPI_MAX_LIBRARY_VERSION_STRING` bytes, `resultlen` is null or
/// valid.
pub unsafe fn get_library_version(
    _mpi: &AbiState,
    version: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    let text = concat!(
        "Rejoin ",
        env!("CARGO_PKG_VERSION"),
        ", MPI-5.0 standard ABI 1.0"
    );
    let room = MPI_MAX_LIBRARY_VERSION_STRING as usize;
    // SAFETY: the program promises the room.
    unsafe { store_string(version, room, text, resultlen) }
}

/// `MPI_Get_hw_resource_info` (MPI-5.0 §9.1.2): the kinds of hardware that `MPI_Comm_split_type`
/// knows, by their URIs. Every process is restricted to one machine.
///
/// # Safety
/// `hw_info` is null or valid.
pub unsafe fn get_hw_resource_info(mpi: &AbiState, hw_info: *mut MPI_Info) -> Result<()> {
    let info = Info::new();
    info.set(MACHINE, "true")?;
    // SAFETY: the caller's.
    unsafe { crate::functions::info::give(mpi, hw_info, info) }
}

/// `MPI_Initialized` (MPI-5.0 §11.4.1).
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn initialized(_mpi: &AbiState, flag: *mut c_int) -> Result<()> {
    // SAFETY: the program passed it for the result.
    unsafe {
        store(
            flag,
            "the flag",
            c_int::from(library_state::is_initialized()),
        )
    }
}

/// `MPI_Finalized` (MPI-5.0 §11.4.1).
///
/// # Safety
/// `flag` is null or valid.
pub unsafe fn finalized(_mpi: &AbiState, flag: *mut c_int) -> Result<()> {
    // SAFETY: the program passed it for the result.
    unsafe { store(flag, "the flag", c_int::from(library_state::is_finalized())) }
}

/// `MPI_Pcontrol` (MPI-5.0 §15.2.3): there is no profiler inside the library to control.
pub fn pcontrol(_mpi: &AbiState, _level: c_int) -> Result<()> {
    Ok(())
}

/// `MPI_Wtime` (MPI-5.0 §9.6): seconds of the machine's monotonic clock. In logging modes a
/// restored rank is told the same times again.
pub fn wtime() -> f64 {
    let now = seconds(|clock, time| {
        // SAFETY: `time` is a variable of ours.
        unsafe { libc::clock_gettime(clock, time) };
    });
    match decide::is_logging() {
        false => now,
        true => recorded_time(now),
    }
}

/// The time for the program in logging modes, when the clock says `now`. Threads that do not call
/// MPI otherwise get the time of the clock: their execution is not repeated.
#[cold]
fn recorded_time(now: f64) -> f64 {
    if !library_state::is_running_unlocked() || !is_main() {
        return now;
    }
    // SAFETY: the library runs without a lock, and this is the thread that calls it.
    let core = unsafe { mpi() }.core.get();
    core.map_or(now, |core| core.wall_time(now))
}

/// `MPI_Wtick` (MPI-5.0 §9.6): the resolution of [`wtime`] in seconds.
pub fn wtick() -> f64 {
    let tick = seconds(|clock, time| {
        // SAFETY: `time` is a variable of ours.
        unsafe { libc::clock_getres(clock, time) };
    });
    match decide::is_logging() {
        false => tick,
        true => tick.max(decide::TIME_RESOLUTION),
    }
}

fn seconds(ask: impl FnOnce(libc::clockid_t, *mut libc::timespec)) -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    ask(libc::CLOCK_MONOTONIC, &raw mut time);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// `MPI_Aint_add` (MPI-5.0 §5.1.5).
pub fn aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// `MPI_Aint_diff` (MPI-5.0 §5.1.5).
pub fn aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}
