//! Checkpoints: those that the manager requests (see [`Mpi::accept_checkpoints`]), and those that
//! the program asks for.

use crate::adi::Dev;
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use rejoin_channel_table::{Epoch, Identity};
use rejoin_device::safe_point::try_park_others;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

pub use rejoin_device::safe_point::is_pending;

/// The runtime of this process, for the signal's handler. It is never freed.
static CORE: AtomicPtr<Mpi> = AtomicPtr::new(std::ptr::null_mut());
/// Whether code of the library runs, in any thread.
static IS_INSIDE: OnceLock<fn() -> bool> = OnceLock::new();

/// Meets the request of this number, if all threads of the program run its own code. Runs in the
/// signal's handler. Another thread may be about to enter the library, so it is parked first. If a
/// thread is inside, its call finds the request at its end.
fn take_here(number: u32) -> bool {
    // The next call of the library tries again, and reports why if it can't.
    let Ok(_parked) = try_park_others() else {
        return false;
    };
    if IS_INSIDE.get().is_none_or(|is_inside| is_inside()) {
        return false;
    }
    // SAFETY: null, or what `accept_checkpoints` has stored, which is never freed. Only this thread
    // runs, and it is outside of the library.
    let core = unsafe { CORE.load(Ordering::Acquire).as_ref() };
    // The device may be in use at the end of a call, which finds the request.
    let Some(mut dev) = core.and_then(Mpi::try_dev_mut) else {
        return false;
    };
    // An error shuts the device, and the program's next call reports it.
    let _ = dev.meet_signal(number);
    true
}

impl Mpi {
    /// Lets the manager request checkpoints by signal, at any place in the program: the handler
    /// takes the image unless `is_inside` says that code of the library runs, in any thread. Then
    /// [`is_pending`] is true until [`Mpi::safe_point`].
    ///
    /// # Errors
    /// The system refuses the signal.
    pub fn accept_checkpoints(self: &Rc<Self>, is_inside: fn() -> bool) -> Result<()> {
        IS_INSIDE.get_or_init(|| is_inside);
        let core = Rc::into_raw(Rc::clone(self)).cast_mut();
        CORE.store(core, Ordering::Release);
        self.dev_mut().accept_checkpoints(take_here)
    }

    /// Job, generation and incarnation of this process.
    pub fn identity(&self) -> Identity {
        self.dev().identity()
    }

    /// Folder for the memory that the program registers as its state, if the user named one.
    pub fn state_folder(&self) -> Option<PathBuf> {
        self.dev().state_folder().0
    }

    /// The newest state in that folder that the job may continue from, if it continues from there.
    pub fn restart_from(&self) -> Option<u32> {
        self.dev().state_folder().1
    }

    /// Asks the manager for the number of a checkpoint of registered memory, above this one. A
    /// process that is restored while it waits asks again.
    ///
    /// # Errors
    /// The manager does not answer.
    pub(crate) fn regions_number(&self, above: Epoch) -> Result<Epoch> {
        self.until_answered(
            |device| device.request_regions_number(above),
            |device| device.regions_number(),
        )
    }

    /// Reports that the registered memory is stored at this checkpoint, on all ranks, and waits for
    /// the commit. Returns the checkpoint before it that counts. A process that is restored while
    /// it waits reports again.
    ///
    /// # Errors
    /// The manager does not answer.
    pub(crate) fn commit_regions(&self, epoch: Epoch) -> Result<Option<Epoch>> {
        self.until_answered(
            |device| device.regions_stored(epoch),
            |device| device.regions_before(epoch),
        )
    }

    /// Asks the manager, once in each generation, until the answer has come.
    fn until_answered<T>(
        &self,
        ask: impl Fn(&mut Dev) -> Result<()>,
        answer: impl Fn(&Dev) -> Option<T>,
    ) -> Result<T> {
        let mut asked = None;
        self.wait_until(None, |mpi| {
            let present = mpi.identity().generation;
            if asked != Some(present) {
                asked = Some(present);
                ask(&mut mpi.dev_mut())?;
                return Ok(None);
            }
            Ok(answer(&mpi.dev()))
        })
    }

    /// Whether the job takes images of its processes.
    pub fn takes_images(&self) -> bool {
        self.dev().takes_images()
    }

    /// Requests a checkpoint with this process's present state, and waits until it is committed.
    /// Another rank need not ask.
    ///
    /// # Errors
    /// The checkpoint was aborted, or the job takes none.
    pub fn checkpoint(&self) -> Result<()> {
        if !self.takes_images() {
            let text = "this job takes no images of its ranks: it was started with --recovery none, \
                        or without mpirun";
            return Err(Error::new(ErrorClass::UnsupportedOperation, text));
        }
        let after = self.dev_mut().request_checkpoint()?;
        match self.wait_until(None, |mpi| Ok(mpi.dev().checkpointed(after)))? {
            true => Ok(()),
            false => {
                let text = "the checkpoint was aborted; mpirun says why";
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }
}
