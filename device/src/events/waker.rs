//! Waking a rank that is blocked, from another thread.
//!
//! The handle outlives the descriptor behind it: a restored process makes a new one, and the
//! threads that hold a [`Waker`] continue with it.

use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use nix::errno::Errno;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::descriptors;
use crate::error::{Error, Result};

/// Wakes a thread that is blocked in [`crate::Device::wait`]. May be used from any thread. Does
/// nothing once the device is gone.
#[derive(Clone, Debug, Default)]
pub struct Waker(Arc<Mutex<Option<EventFd>>>);

impl Waker {
    /// Wakes the waiting thread, or lets its next wait return at once.
    pub fn wake(&self) {
        if let Some(event) = &*self.event() {
            // Full means that a wake is already pending.
            let _ = event.write(1);
        }
    }

    /// Makes the descriptor anew, in the high block, and gives it to `watch`. One that is still
    /// there is closed; see [`Waker::forget`].
    pub(crate) fn open(&self, watch: impl FnOnce(&EventFd) -> Result<()>) -> Result<()> {
        let made = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
            .map_err(|errno| Error::system("make an eventfd", errno))?;
        let raised = descriptors::raise(OwnedFd::from(made))?;
        // SAFETY: the descriptor is the eventfd made above under another number.
        let event = unsafe { EventFd::from_owned_fd(raised) };
        watch(&event)?;
        *self.event() = Some(event);
        Ok(())
    }

    /// Takes note of a wake, so that the next one is an edge again.
    pub(crate) fn reset(&self) {
        if let Some(event) = &*self.event() {
            // Empty: another event of the same wake.
            let _: std::result::Result<u64, Errno> = event.read();
        }
    }

    /// Whether another thread is in the middle of a wake.
    pub(crate) fn is_in_use(&self) -> bool {
        matches!(self.0.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Closes the descriptor.
    pub(crate) fn close(&self) {
        *self.event() = None;
    }

    /// Drops a number that is no longer this library's, without a system call.
    pub(crate) fn forget(&self) {
        if let Some(event) = self.event().take() {
            let _ = OwnedFd::from(event).into_raw_fd();
        }
    }

    /// Nothing that is done under the lock can leave it half done.
    fn event(&self) -> MutexGuard<'_, Option<EventFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
