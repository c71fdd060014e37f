//! The images of this host's ranks, and the checkpoints whose images count.

use crate::levels::CommittedEpochs;
use rejoin_channel_table::{Epoch, Generation, ImageId, MoveNumber, Rank};
use rejoin_wire::FromManager;
use std::collections::BTreeMap;

/// The file of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ImageFileState {
    /// There is none.
    Absent,
    /// The file is being written.
    Partial,
    /// The image outlives its process.
    Whole,
}

/// An image that does not count any more, or only in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Superseded {
    /// The image does not count.
    Everywhere(Rank, ImageId),
    /// The image counts in its file only.
    InMemory(Rank, ImageId),
}

/// The images of this host's ranks, and the checkpoints whose images count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct ImageTable {
    committed: CommittedEpochs,
    /// Of the epochs up to this one only the committed ones count.
    abandoned: Epoch,
    /// The highest epoch that was aborted for a reason. A restart of central abandons others.
    aborted: Epoch,
    /// Central was started again: the epochs that it abandons next were not aborted for a reason.
    resumed: bool,
    /// The last checkpoints of recovery groups, by rank: earlier images of it do not count.
    of_groups: BTreeMap<Rank, Epoch>,
    /// The images from which ranks can be restored.
    images: BTreeMap<(Rank, ImageId), ImageFileState>,
}

impl ImageTable {
    /// From now on the images of `committed` count, and those of epochs above `abandoned`. Returns
    /// the images that are there and do not count there. `moves`: whether a rank of this host is
    /// about to move with an image, which stays then.
    pub fn commit(
        &mut self,
        committed: CommittedEpochs,
        abandoned: Epoch,
        moves: impl Fn(Rank, MoveNumber) -> bool,
    ) -> Vec<Superseded> {
        self.committed = committed;
        self.abandoned = self.abandoned.max(abandoned);
        if !std::mem::take(&mut self.resumed) {
            self.aborted = self.aborted.max(abandoned);
        }
        let all = self.images.keys().copied().collect();
        self.take_superseded(all, moves)
    }

    /// The recovery group of these ranks has committed this checkpoint. Returns images of them that
    /// are there and do not count any more. `moves`: as with [`ImageTable::commit`].
    pub fn commit_group(
        &mut self,
        ranks: &[Rank],
        epoch: Epoch,
        moves: impl Fn(Rank, MoveNumber) -> bool,
    ) -> Vec<Superseded> {
        let before = ranks.iter().filter_map(|rank| self.of_groups.get(rank));
        // Its image was gone, so that later images of the group are void, too.
        let falls_back = before.copied().any(|before| before > epoch);
        self.of_groups
            .extend(ranks.iter().map(|rank| (*rank, epoch)));
        let this = ImageId::Checkpoint(epoch);
        let mut superseded = Vec::new();
        if falls_back {
            let void = self.images_of(ranks, |image| image > this);
            for (rank, image) in void {
                self.images.remove(&(rank, image));
                superseded.push(Superseded::Everywhere(rank, image));
            }
        }
        // Central may not know of later ones yet.
        let earlier = self.images_of(ranks, |image| image < this);
        superseded.extend(self.take_superseded(earlier, moves));
        superseded
    }

    /// The images of these ranks of which `among` is true.
    fn images_of(&self, ranks: &[Rank], among: impl Fn(ImageId) -> bool) -> Vec<(Rank, ImageId)> {
        let first = ImageId::Checkpoint(Epoch(0));
        let of_rank = |rank: Rank| {
            let from_rank = self.images.range((rank, first)..).map(|(key, _)| *key);
            from_rank.take_while(move |(of, _)| *of == rank)
        };
        let images = ranks.iter().copied().flat_map(of_rank);
        images.filter(|(_, image)| among(*image)).collect()
    }

    /// Forgets those of these images that do not count any more, and returns them, and those of
    /// which only the file counts. `moves`: as with [`ImageTable::commit`].
    fn take_superseded(
        &mut self,
        mut images: Vec<(Rank, ImageId)>,
        moves: impl Fn(Rank, MoveNumber) -> bool,
    ) -> Vec<Superseded> {
        images.retain(|(rank, image)| !is_of_move(*rank, *image, &moves));
        let mut superseded = Vec::new();
        for (rank, image) in images {
            let newest = self.of_groups.get(&rank).copied();
            let newest = newest.or(self.committed.memory);
            let only_file = image.checkpoint().is_some_and(|epoch| {
                let file = self.images.get(&(rank, image));
                let is_whole = file == Some(&ImageFileState::Whole);
                self.committed.is_in_files(epoch) && newest != Some(epoch) && is_whole
            });
            if only_file {
                superseded.push(Superseded::InMemory(rank, image));
            } else if !self.counts_of(rank, image) && self.remove(rank, image) {
                superseded.push(Superseded::Everywhere(rank, image));
            }
        }
        superseded
    }

    /// The rank is of a recovery group that has committed a checkpoint.
    pub fn is_of_group(&self, rank: Rank) -> bool {
        self.of_groups.contains_key(&rank)
    }

    /// The job starts anew, or rolls back as a whole.
    pub fn forget_groups(&mut self) {
        self.of_groups.clear();
    }

    /// Has an image of a rank written to a file. Returns the state of the file before
    /// that; `None`: there is no such image.
    pub fn write(&mut self, rank: Rank, image: ImageId) -> Option<ImageFileState> {
        let file = self.images.get_mut(&(rank, image))?;
        let before = *file;
        if before == ImageFileState::Absent {
            *file = ImageFileState::Partial;
        }
        Some(before)
    }

    /// Whether an image of a rank is being written to a file.
    pub fn is_being_written(&self, rank: Rank, image: ImageId) -> bool {
        self.images.get(&(rank, image)) == Some(&ImageFileState::Partial)
    }

    /// The file of an image that is being written has come to this. Returns whether it was.
    pub fn set_file(&mut self, rank: Rank, image: ImageId, state: ImageFileState) -> bool {
        let file = self.images.get_mut(&(rank, image));
        let Some(file) = file.filter(|file| **file == ImageFileState::Partial) else {
            return false;
        };
        *file = state;
        true
    }

    /// The job continues from this checkpoint, of which these ranks have images.
    pub fn continue_from(&mut self, epoch: Epoch, ranks: impl Iterator<Item = Rank>) {
        self.commit(CommittedEpochs::only(Some(epoch)), epoch, |_, _| false);
        let images = ranks.map(|rank| ((rank, ImageId::Checkpoint(epoch)), ImageFileState::Whole));
        self.images.extend(images);
    }

    /// A rank that was on another host has this image in a file, unless the image is here since
    /// the rank was here before.
    pub fn add_stored(&mut self, rank: Rank, image: ImageId) {
        let state = self.images.entry((rank, image));
        state.or_insert(ImageFileState::Whole);
    }

    /// A rank has made an image.
    pub fn add(&mut self, rank: Rank, image: ImageId) {
        self.images.insert((rank, image), ImageFileState::Absent);
    }

    /// An image is gone. Returns whether it was there.
    pub fn remove(&mut self, rank: Rank, image: ImageId) -> bool {
        self.images.remove(&(rank, image)).is_some()
    }

    /// The checkpoints from which a rank can be restored.
    pub fn of(&self, rank: Rank) -> impl Iterator<Item = Epoch> {
        let first = ImageId::Checkpoint(Epoch(0));
        let last = ImageId::Checkpoint(Epoch(u32::MAX));
        let all = self.images.range((rank, first)..=(rank, last));
        all.filter_map(|((_, image), _)| image.checkpoint())
    }

    /// Central was started again.
    pub fn resumed(&mut self) {
        self.resumed = true;
    }

    /// An image of a rank counts. One with which it moves does until the next checkpoint.
    pub fn counts_of(&self, rank: Rank, image: ImageId) -> bool {
        let last = self.of_groups.get(&rank);
        let epoch = match image {
            ImageId::Checkpoint(epoch) => epoch,
            ImageId::Move(number) => {
                let last = last.copied().unwrap_or_default();
                return number.after >= self.abandoned.max(last);
            }
        };
        match last {
            Some(last) => {
                let is_file = self.committed.is_in_files(epoch);
                // The newest of all groups may be written next.
                let keeps_files = self.committed.file.or(self.committed.writing).is_some();
                let is_next = keeps_files && self.committed.memory == Some(epoch);
                let is_of_files = is_file || is_next || self.committed.writing == Some(epoch);
                epoch == *last || epoch > self.abandoned.max(*last) || is_of_files
            }
            None => self.counts(epoch),
        }
    }

    /// An image of this epoch counts.
    pub fn counts(&self, epoch: Epoch) -> bool {
        self.committed.contains(epoch) || epoch > self.abandoned
    }

    /// An image of this epoch comes too late.
    pub fn is_abandoned(&self, epoch: Epoch) -> bool {
        epoch <= self.abandoned
    }

    /// The epoch after which a rank's program asks for a checkpoint. A rank that rolled back does
    /// not know which epochs were abandoned by that; it asks for none of them.
    pub fn on_request_after(&self, after: Epoch) -> Epoch {
        match self.committed.memory {
            Some(committed) if committed > after => after,
            _ => after.max(self.abandoned),
        }
    }

    /// The result of the checkpoint after this epoch is known.
    pub fn answers(&self, after: Epoch) -> bool {
        after < self.aborted.max(self.committed.memory.unwrap_or_default())
    }

    /// No rollback goes back behind this checkpoint; 0 before the first commit.
    pub fn oldest_committed(&self) -> Epoch {
        self.committed.oldest().unwrap_or_default()
    }

    /// The answer to ranks that asked for a checkpoint.
    pub fn answer(&self, generation: Generation) -> FromManager {
        FromManager::Committed {
            generation,
            epoch: self.committed.memory,
            abandoned: self.aborted,
        }
    }
}

/// Whether it is an image with which the rank is about to move from this host.
fn is_of_move(rank: Rank, image: ImageId, moves: impl Fn(Rank, MoveNumber) -> bool) -> bool {
    match image {
        ImageId::Checkpoint(_) => false,
        ImageId::Move(number) => moves(rank, number),
    }
}
