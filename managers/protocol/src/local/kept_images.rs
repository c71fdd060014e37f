//! The checkpoints whose images count on this host.

use rejoin_channel_table::{Epoch, Generation};
use rejoin_wire::FromManager;

/// The checkpoints whose images count on this host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct KeptImages {
    /// The checkpoint that counts.
    kept: Option<Epoch>,
    /// Images up to this one count only if kept.
    abandoned: Epoch,
    /// The highest number that was given up for a reason.
    refused: Epoch,
    /// Central was started again: images that it drops next were not abandoned for a reason.
    resumed: bool,
}

impl KeptImages {
    /// From now on the images of `kept` count, and those of numbers above `abandoned`.
    pub fn keep(&mut self, kept: Option<Epoch>, abandoned: Epoch) {
        self.kept = kept;
        self.abandoned = self.abandoned.max(abandoned);
        if !std::mem::take(&mut self.resumed) {
            self.refused = self.refused.max(abandoned);
        }
    }

    /// Central was started again.
    pub fn resumed(&mut self) {
        self.resumed = true;
    }

    /// An image of this epoch counts.
    pub fn counts(&self, epoch: Epoch) -> bool {
        Some(epoch) == self.kept || epoch > self.abandoned
    }

    /// An image of this epoch comes too late.
    pub fn is_abandoned(&self, epoch: Epoch) -> bool {
        epoch <= self.abandoned
    }

    /// The epoch after which a rank's program asks for a checkpoint. A rank that rolled back does
    /// not know which numbers were given up by that; it asks for none of them.
    pub fn asked_after(&self, after: Epoch) -> Epoch {
        match self.kept {
            Some(kept) if kept > after => after,
            _ => after.max(self.abandoned),
        }
    }

    /// What became of the checkpoint after this epoch is known.
    pub fn answers(&self, after: Epoch) -> bool {
        after < self.refused.max(self.kept.unwrap_or_default())
    }

    /// The answer to ranks that asked for a checkpoint.
    pub fn answer(&self, generation: Generation) -> FromManager {
        FromManager::Kept {
            generation,
            epoch: self.kept,
            abandoned: self.refused,
        }
    }
}
