//! Whether MPI is initialised, running or finalised, and whether threads may call at the same time.

use std::sync::atomic::{AtomicU32, Ordering};

/// A bit of [`CALLS`]: `MPI_Init` or a session made the library usable.
const RUNNING: u32 = 1;
/// A bit of [`CALLS`]: calls take the lock (`MPI_THREAD_MULTIPLE`).
const LOCKED: u32 = 2;
/// A bit of [`CALLS`]: this process is a child that `fork` made of one that ran MPI.
const FORKED: u32 = 4;
/// A bit of [`WORLD`]: `MPI_Init` or `MPI_Init_thread` has completed.
const INITIALIZED: u32 = 1;
/// A bit of [`WORLD`]: `MPI_Finalize` has completed.
const FINALIZED: u32 = 2;

/// The state that every entry point reads.
static CALLS: AtomicU32 = AtomicU32::new(0);
/// The state of the world model, which programs may ask for.
static WORLD: AtomicU32 = AtomicU32::new(0);
/// The provided thread level, an `MPI_THREAD_…` constant; meaningful once initialised.
static LEVEL: AtomicU32 = AtomicU32::new(0);

/// Whether the library runs and calls need no lock: one relaxed load, the whole check of the fast
/// path.
#[inline(always)]
pub fn is_running_unlocked() -> bool {
    CALLS.load(Ordering::Relaxed) == RUNNING
}

/// Whether calls that need an initialised library may run.
pub fn is_running() -> bool {
    CALLS.load(Ordering::Acquire) & RUNNING != 0
}

/// Whether every call takes the lock.
pub fn is_locked() -> bool {
    CALLS.load(Ordering::Acquire) & LOCKED != 0
}

/// The answer of `MPI_Initialized` (MPI-5.0 §11.4.1): also true after `MPI_Finalize`.
pub fn is_initialized() -> bool {
    WORLD.load(Ordering::Acquire) & INITIALIZED != 0
}

/// The answer of `MPI_Finalized`. True in a forked child, so that exit handlers do not finalise
/// there.
pub fn is_finalized() -> bool {
    is_forked() || WORLD.load(Ordering::Acquire) & FINALIZED != 0
}

/// Whether this process is a child that `fork` made of one that ran MPI: it shares the parent's
/// connections and must not touch them.
pub fn is_forked() -> bool {
    CALLS.load(Ordering::Acquire) & FORKED != 0
}

/// The provided thread level, an `MPI_THREAD_…` constant.
pub fn thread_level() -> i32 {
    LEVEL.load(Ordering::Acquire) as i32
}

/// `MPI_Init` has succeeded with the thread level `provided`.
pub fn set_initialized(provided: i32) {
    LEVEL.store(provided as u32, Ordering::Release);
    WORLD.fetch_or(INITIALIZED, Ordering::AcqRel);
}

/// The library runs from now on. `multiple` says that calls may come from several threads at once;
/// once calls take the lock, they keep taking it.
pub fn set_running(multiple: bool) {
    let locked = if multiple { LOCKED } else { 0 };
    CALLS.fetch_or(RUNNING | locked, Ordering::AcqRel);
}

/// `MPI_Finalize` has done its work.
pub fn set_finalized() {
    WORLD.fetch_or(FINALIZED, Ordering::AcqRel);
}

/// Neither the world model nor a session uses the library any more.
pub fn set_ended() {
    CALLS.store(0, Ordering::Release);
}

/// This process is a new child of `fork`. Async-signal-safe.
pub fn set_forked() {
    CALLS.store(FORKED, Ordering::Release);
}
