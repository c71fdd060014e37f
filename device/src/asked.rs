//! Checkpoints that the program asks for.

use rejoin_channel_table::Epoch;
use rejoin_wire::ToManager;

use crate::device::Device;
use crate::error::Result;

/// What is known of the job's checkpoints.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The last one that the job can go back to.
    pub(crate) kept: Epoch,
    /// The last number of which no checkpoint can come any more.
    pub(crate) abandoned: Epoch,
}

impl Device {
    /// Whether images are taken of this process.
    #[must_use]
    pub fn takes_images(&self) -> bool {
        self.imager.is_some()
    }

    /// The program's state is stored as the one of this number, on all ranks.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn has_stored(&mut self, number: u32) -> Result<()> {
        match &mut self.io.agent {
            Some(agent) => agent.tell(&ToManager::Stored { number }),
            None => Ok(()),
        }
    }

    /// Asks for a checkpoint with this rank's state from here on. [`Device::checkpointed`] tells
    /// what becomes of it; a process that comes back from its image continues behind this call.
    ///
    /// # Errors
    /// A manager that cannot be spoken to.
    pub fn ask_for_checkpoint(&mut self) -> Result<Epoch> {
        let after = self.engine.epoch().max(self.known.abandoned);
        if let Some(agent) = &mut self.io.agent {
            agent.tell(&ToManager::Checkpoint { after })?;
        }
        Ok(after)
    }

    /// Whether a checkpoint later than `after` is there; `false` when it was given up, `None` while
    /// it is under way.
    #[must_use]
    pub fn checkpointed(&self, after: Epoch) -> Option<bool> {
        let Known { kept, abandoned } = self.known;
        (kept.max(abandoned) > after).then_some(kept > after)
    }
}
