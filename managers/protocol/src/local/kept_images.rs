//! The images of this host's ranks, and the checkpoints whose images count.

use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_wire::FromManager;
use std::collections::BTreeSet;

/// The images of this host's ranks, and the checkpoints whose images count.
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
    /// The images from which ranks can be restored.
    images: BTreeSet<(Rank, Epoch)>,
}

impl KeptImages {
    /// From now on the images of `kept` count, and those of numbers above `abandoned`. Returns the
    /// images that are there and do not count.
    pub fn keep(&mut self, kept: Option<Epoch>, abandoned: Epoch) -> Vec<(Rank, Epoch)> {
        self.kept = kept;
        self.abandoned = self.abandoned.max(abandoned);
        if !std::mem::take(&mut self.resumed) {
            self.refused = self.refused.max(abandoned);
        }
        let dropped = self.images.iter().filter(|(_, epoch)| !self.counts(*epoch));
        let dropped: Vec<_> = dropped.copied().collect();
        for image in &dropped {
            self.images.remove(image);
        }
        dropped
    }

    /// A rank has made an image.
    pub fn add(&mut self, rank: Rank, epoch: Epoch) {
        self.images.insert((rank, epoch));
    }

    /// An image is gone. Returns whether it was there.
    pub fn remove(&mut self, rank: Rank, epoch: Epoch) -> bool {
        self.images.remove(&(rank, epoch))
    }

    /// Whether a rank can be restored from this epoch.
    pub fn contains(&self, rank: Rank, epoch: Epoch) -> bool {
        self.images.contains(&(rank, epoch))
    }

    /// The epochs from which a rank can be restored.
    pub fn of(&self, rank: Rank) -> impl Iterator<Item = Epoch> {
        let all = (rank, Epoch(0))..=(rank, Epoch(u32::MAX));
        self.images.range(all).map(|(_, epoch)| *epoch)
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
