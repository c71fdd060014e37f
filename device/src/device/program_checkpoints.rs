//! Checkpoints that the program requests.

use rejoin_channel_table::Epoch;
use rejoin_wire::ToManager;

use super::Device;
use crate::error::Result;

impl Device {
    /// Whether images are taken of this process.
    #[must_use]
    pub fn takes_images(&self) -> bool {
        self.recovery.takes_images()
    }

    /// The program's state is stored as the one of this number, on all ranks.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn has_stored(&mut self, number: u32) -> Result<()> {
        self.manager.send(&ToManager::Stored { number })
    }

    /// Requests a checkpoint with this rank's state from here on. [`Device::checkpointed`] returns
    /// its outcome; a process that is restored from its image continues behind this call.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn ask_for_checkpoint(&mut self) -> Result<Epoch> {
        let after = self.recovery.latest(self.engine.epoch());
        self.manager.send(&ToManager::Checkpoint { after })?;
        Ok(after)
    }

    /// Whether a checkpoint later than `after` is committed; `false` when it was aborted, `None`
    /// while it is under way.
    #[must_use]
    pub fn checkpointed(&self, after: Epoch) -> Option<bool> {
        self.recovery.checkpointed(after)
    }
}
