//! The images of this host's ranks, and the checkpoints whose images count.

use rejoin_channel_table::{Epoch, Generation, Rank};
use rejoin_wire::FromManager;
use std::collections::BTreeSet;

/// The images of this host's ranks, and the checkpoints whose images count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ImageTable {
    committed: Option<Epoch>,
    /// Of the epochs up to this one only the committed one counts.
    abandoned: Epoch,
    /// The highest epoch that was aborted for a reason. A restart of central abandons others.
    aborted: Epoch,
    /// Central was started again: the epochs that it abandons next were not aborted for a reason.
    resumed: bool,
    /// The images from which ranks can be restored.
    images: BTreeSet<(Rank, Epoch)>,
}

impl ImageTable {
    /// From now on the images of `committed` count, and those of epochs above `abandoned`. Returns
    /// the images that are there and do not count.
    pub fn commit(&mut self, committed: Option<Epoch>, abandoned: Epoch) -> Vec<(Rank, Epoch)> {
        self.committed = committed;
        self.abandoned = self.abandoned.max(abandoned);
        if !std::mem::take(&mut self.resumed) {
            self.aborted = self.aborted.max(abandoned);
        }
        let dropped = self.images.iter().filter(|(_, epoch)| !self.counts(*epoch));
        let dropped: Vec<_> = dropped.copied().collect();
        for image in &dropped {
            self.images.remove(image);
        }
        dropped
    }

    /// The job continues from this checkpoint, of which these ranks have images.
    pub fn continue_from(&mut self, epoch: Epoch, ranks: impl Iterator<Item = Rank>) {
        self.commit(Some(epoch), epoch);
        self.images.extend(ranks.map(|rank| (rank, epoch)));
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
        Some(epoch) == self.committed || epoch > self.abandoned
    }

    /// An image of this epoch comes too late.
    pub fn is_abandoned(&self, epoch: Epoch) -> bool {
        epoch <= self.abandoned
    }

    /// The epoch after which a rank's program asks for a checkpoint. A rank that rolled back does
    /// not know which epochs were abandoned by that; it asks for none of them.
    pub fn asked_after(&self, after: Epoch) -> Epoch {
        match self.committed {
            Some(committed) if committed > after => after,
            _ => after.max(self.abandoned),
        }
    }

    /// The result of the checkpoint after this epoch is known.
    pub fn answers(&self, after: Epoch) -> bool {
        after < self.aborted.max(self.committed.unwrap_or_default())
    }

    /// The answer to ranks that asked for a checkpoint.
    pub fn answer(&self, generation: Generation) -> FromManager {
        FromManager::Committed {
            generation,
            epoch: self.committed,
            abandoned: self.aborted,
        }
    }
}
