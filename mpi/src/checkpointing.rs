//! Checkpoints: those that the manager requests (see [`Mpi::accept_checkpoints`]), and those that
//! the program asks for.

use crate::adi::Dev;
use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use rejoin_channel_table::{Epoch, Identity};
use std::path::PathBuf;

pub use rejoin_device::safe_point::{is_pending, try_park_others};

impl Mpi {
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
            |device| device.ask_regions_number(above),
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
        let after = self.dev_mut().ask_for_checkpoint()?;
        match self.wait_until(None, |mpi| Ok(mpi.dev().checkpointed(after)))? {
            true => Ok(()),
            false => {
                let text = "the checkpoint was aborted; mpirun says why";
                Err(Error::new(ErrorClass::Other, text))
            }
        }
    }
}
