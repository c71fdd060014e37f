//! The way into the library, around every implementation.

use std::cell::Cell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, Ordering};

use rejoin_mpi::{Error, ErrorClass, Result, checkpointing};

use crate::constants::{MPI_SUCCESS, MPI_T_ERR_NOT_SUPPORTED};
use crate::entry_call::{EntryPoint, Phase};
use crate::errors::ErrorOwner;
use crate::handles::{HandleKind, invalid};
use crate::raise::raise;
use crate::state::{AbiState, mpi};
use crate::types::*;
use crate::{callback, image, library_state, lock};

/// The latest call without the lock, of the one thread that may make such calls.
static LATEST: AtomicPtr<EntryPoint> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// The latest call of this thread that took the lock.
    static HOLDER: Cell<Option<&'static EntryPoint>> = const { Cell::new(None) };
}

/// The name of the function that this thread is in, for reports.
pub fn current() -> &'static str {
    let call = if lock::is_held() {
        HOLDER.get()
    } else {
        // SAFETY: null or what `enter` stored, which lives forever.
        unsafe { LATEST.load(Ordering::Relaxed).as_ref() }
    };
    call.map_or("a call", |call| call.name)
}

/// Runs an implementation: checks the library's state, takes the lock when threads need it, sends
/// an error to the handler of `owner`. On the fast path, one relaxed load, three stores and a test
/// of the result.
#[inline(always)]
pub fn enter(
    call: &'static EntryPoint,
    owner: ErrorOwner,
    run: impl FnOnce(&AbiState) -> Result<()>,
) -> c_int {
    let locked = if library_state::is_running_unlocked() && !call.lock_always {
        false
    } else {
        match admit(call) {
            Ok(locked) => locked,
            Err(code) => return code,
        }
    };
    if locked {
        HOLDER.set(Some(call));
    } else {
        LATEST.store(std::ptr::from_ref(call).cast_mut(), Ordering::Relaxed);
    }
    let mark = callback::enter(locked);
    // SAFETY: the library runs without lock (one thread at a time, by the program's promise) or the
    // lock is held.
    let mpi = unsafe { mpi() };
    let code = match run(mpi) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(mpi, call, owner, error),
    };
    callback::leave(locked, mark);
    if checkpointing::is_pending() && mark == 0 {
        image::take_pending(mpi, locked);
    }
    if locked {
        lock::release();
    }
    code
}

/// Runs the fast path of an implementation, which does all of a simple call or nothing. `None`:
/// nothing was done, and [`enter`] must run the call. Not used where threads need the lock.
#[inline(always)]
pub fn try_fast_path(
    call: &'static EntryPoint,
    owner: ErrorOwner,
    run: impl FnOnce(&AbiState) -> Option<Result<()>>,
) -> Option<c_int> {
    if !library_state::is_running_unlocked() {
        return None;
    }
    LATEST.store(std::ptr::from_ref(call).cast_mut(), Ordering::Relaxed);
    let mark = callback::enter(false);
    // SAFETY: the library runs without lock: one thread at a time, by the program's promise.
    let mpi = unsafe { mpi() };
    let done = run(mpi).map(|result| match result {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(mpi, call, owner, error),
    });
    callback::leave(false, mark);
    if done.is_some() && checkpointing::is_pending() && mark == 0 {
        image::take_pending(mpi, false);
    }
    done
}

/// The slow part of the check: whether the lock was taken, or the code of the error.
#[cold]
#[inline(never)]
fn admit(call: &'static EntryPoint) -> Result<bool, c_int> {
    let locked = call.lock_always || library_state::is_locked();
    if locked {
        lock::acquire();
    }
    if call.phase == Phase::Any || library_state::is_running() {
        return Ok(locked);
    }
    if !locked {
        lock::acquire();
    }
    // SAFETY: the lock is held.
    let mpi = unsafe { mpi() };
    let code = raise(mpi, call, ErrorOwner::None, refusal(mpi));
    lock::release();
    Err(code)
}

/// Why the library does not run.
fn refusal(mpi: &AbiState) -> Error {
    if let Err(error) = mpi.check_process() {
        return error;
    }
    let when = if library_state::is_finalized() {
        "called after MPI_Finalize"
    } else {
        "called before MPI_Init"
    };
    Error::new(ErrorClass::Other, when)
}

/// A function that is not implemented yet. An invalid handle is reported first, as by other
/// libraries.
#[cold]
#[inline(never)]
pub fn missing(call: &'static EntryPoint, owner: ErrorOwner) -> c_int {
    enter(call, owner, |mpi| {
        if let ErrorOwner::Object(kind, raw) = owner
            && !mpi.exists(kind, raw)
        {
            return Err(match kind {
                HandleKind::Win => invalid(MPI_Win(raw)),
                HandleKind::File => invalid(MPI_File(raw)),
                HandleKind::Session => invalid(MPI_Session(raw)),
                _ => invalid(MPI_Comm(raw)),
            });
        }
        Err(Error::new(
            ErrorClass::UnsupportedOperation,
            "this function is not implemented yet in Rejoin",
        ))
    })
}

/// A function of the tools' interface that is not implemented yet. These call no error handler
/// (MPI-5.0 §15.3.9).
#[cold]
#[inline(never)]
pub fn missing_tool(_name: &'static str) -> c_int {
    MPI_T_ERR_NOT_SUPPORTED
}
