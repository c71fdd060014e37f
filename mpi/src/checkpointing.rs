//! Checkpoints: those that the manager requests (see [`Mpi::accept_checkpoints`]), and those that
//! the program asks for.

use crate::error::{Error, ErrorClass, Result};
use crate::runtime::Mpi;
use rejoin_channel_table::Identity;
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

    /// The registered memory is stored as the state of this number, on all ranks.
    ///
    /// # Errors
    /// The manager does not answer.
    pub fn has_stored(&self, number: u32) -> Result<()> {
        self.dev_mut().has_stored(number)
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
