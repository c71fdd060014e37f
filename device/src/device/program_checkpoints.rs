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

    /// Asks for the number of a checkpoint of registered memory, above the highest one that is in
    /// use in the folder. [`Device::regions_number`] returns it.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn ask_regions_number(&mut self, above: Epoch) -> Result<()> {
        self.recovery.region_answers().ask(above);
        self.manager.send(&ToManager::AskRegionsNumber { above })
    }

    /// The number that was asked for, once it has come.
    #[must_use]
    pub fn regions_number(&self) -> Option<Epoch> {
        self.recovery.answered().number()
    }

    /// The registered memory is stored at this checkpoint, on all ranks.
    /// [`Device::regions_before`] says when that is committed.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn regions_stored(&mut self, epoch: Epoch) -> Result<()> {
        self.recovery.region_answers().stored(epoch);
        self.manager.send(&ToManager::RegionsStored { epoch })
    }

    /// Once this checkpoint of registered memory is committed: the one before it that counts, if
    /// any.
    #[must_use]
    pub fn regions_before(&self, epoch: Epoch) -> Option<Option<Epoch>> {
        self.recovery.answered().before(epoch)
    }

    /// Requests a checkpoint with this rank's state from here on. [`Device::checkpointed`] returns
    /// its outcome; a process that is restored from its image continues behind this call.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn ask_for_checkpoint(&mut self) -> Result<Epoch> {
        let after = self.recovery.latest(self.engine.epoch());
        self.recovery.asks(after);
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
