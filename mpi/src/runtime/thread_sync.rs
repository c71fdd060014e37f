//! What the threads of a process share while they wait.

use crate::big_lock::{BigLock, Completions, Pass, Until};
use crate::error::Result;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;

/// The lock of `MPI_THREAD_MULTIPLE`, if the program asked for it, and the count of events that
/// resume its suspended threads.
#[derive(Default)]
pub(super) struct ThreadSync {
    lock: OnceCell<Arc<BigLock>>,
    /// Things that completed without the device: a generalized request, a future.
    events: Cell<u64>,
}

impl ThreadSync {
    /// The lock, made at the first call. `waker` gives what brings a thread back from the device.
    pub(super) fn make_lock(
        &self,
        waker: impl FnOnce() -> Box<dyn Fn() + Send + Sync>,
    ) -> Arc<BigLock> {
        let make = || Arc::new(BigLock::new(waker()));
        self.lock.get_or_init(make).clone()
    }

    /// Whether there is a lock.
    #[inline(always)]
    pub(super) fn has_lock(&self) -> bool {
        self.lock.get().is_some()
    }

    /// Counts something that completed without the device.
    #[inline]
    pub(super) fn event(&self) {
        self.events.set(self.events.get().wrapping_add(1));
    }

    /// Number of events so far, those of the device not among them.
    #[inline(always)]
    pub(super) fn events(&self) -> u64 {
        self.events.get()
    }

    /// Whether another thread waits, which will block in the device.
    pub(super) fn is_another_waiting(&self) -> bool {
        self.lock.get().is_some_and(|l| l.is_another_waiting())
    }

    /// Blocks in `wait` (the device's), as [`BigLock::block`] if there is a lock.
    ///
    /// # Errors
    /// The errors of `wait`.
    #[inline(always)]
    pub(super) fn block(
        &self,
        completions: &dyn Completions,
        until: Until,
        mut wait: impl FnMut(Pass) -> Result<()>,
    ) -> Result<()> {
        match self.lock.get() {
            None => wait(Pass::Blocking),
            Some(lock) => lock.block(completions, until, &mut wait),
        }
    }
}
