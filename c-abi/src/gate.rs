//! The library's state as the entry points see it, in one word: not initialised, running, finalised,
//! and whether threads may call at the same time.

use std::sync::atomic::{AtomicU32, Ordering};

/// Running and no lock needed: the only value that lets the fast path through.
const OPEN: u32 = RUNNING;
/// `MPI_Init` or a session made the library usable.
const RUNNING: u32 = 1;
/// Calls take the lock (`MPI_THREAD_MULTIPLE`).
const LOCKED: u32 = 2;
/// `MPI_Init` or `MPI_Init_thread` has completed.
const INITIALIZED: u32 = 4;
/// `MPI_Finalize` has completed.
const FINALIZED: u32 = 8;

/// This process is a child that `fork` made of one that ran MPI.
const FORKED: u32 = 16;

/// `RUNNING` and `LOCKED`, or `FORKED`: what the entry points look at.
static GATE: AtomicU32 = AtomicU32::new(0);
/// `INITIALIZED` and `FINALIZED`: what programs may ask for.
static WORLD: AtomicU32 = AtomicU32::new(0);
/// The provided thread level; meaningful once initialised.
static LEVEL: AtomicU32 = AtomicU32::new(0);

/// Whether calls may run without lock: one relaxed load, the whole check of the fast path.
#[inline(always)]
pub fn is_open() -> bool {
    GATE.load(Ordering::Relaxed) == OPEN
}

/// Whether calls that need an initialised library may run.
pub fn is_running() -> bool {
    GATE.load(Ordering::Acquire) & RUNNING != 0
}

/// Whether every call takes the lock.
pub fn is_locked() -> bool {
    GATE.load(Ordering::Acquire) & LOCKED != 0
}

/// What `MPI_Initialized` tells (MPI-5.0 §11.4.1): also true after `MPI_Finalize`.
pub fn is_initialized() -> bool {
    WORLD.load(Ordering::Acquire) & INITIALIZED != 0
}

/// What `MPI_Finalized` tells. True in a forked child, so that exit handlers which finalise leave it alone.
pub fn is_finalized() -> bool {
    is_forked() || WORLD.load(Ordering::Acquire) & FINALIZED != 0
}

/// Whether this process is a child that `fork` made of one that ran MPI: it shares the parent's connections
/// and must not touch them.
pub fn is_forked() -> bool {
    GATE.load(Ordering::Acquire) & FORKED != 0
}

/// The provided thread level, an `MPI_THREAD_…` constant.
pub fn thread_level() -> i32 {
    LEVEL.load(Ordering::Acquire) as i32
}

/// `MPI_Init` has succeeded with the thread level `provided`; `multiple` says that calls may come from
/// several threads at once.
pub fn initialized(provided: i32, multiple: bool) {
    LEVEL.store(provided as u32, Ordering::Release);
    WORLD.fetch_or(INITIALIZED, Ordering::AcqRel);
    opened(multiple);
}

/// The library runs from now on; once it takes the lock, it keeps taking it.
pub fn opened(multiple: bool) {
    let locked = if multiple { LOCKED } else { 0 };
    GATE.fetch_or(RUNNING | locked, Ordering::AcqRel);
}

/// `MPI_Finalize` has done its work.
pub fn finalized() {
    WORLD.fetch_or(FINALIZED, Ordering::AcqRel);
}

/// Nothing uses the library any more.
pub fn closed() {
    GATE.store(0, Ordering::Release);
}

/// A child of `fork` is here. Async-signal-safe.
pub fn forked() {
    GATE.store(FORKED, Ordering::Release);
}
