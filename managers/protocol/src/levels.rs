//! Levels of images, and the checkpoints that are committed on each.
//!
//! An image is first in memory, as a frozen clone of its rank. It may also go to a file, which
//! outlives the clone, and the file to a partner host, where it outlives the loss of the rank's
//! host. A checkpoint is committed on a level when central has stored that every rank has its image
//! there. The commit in memory comes first and waits for no file. Later checkpoints may be
//! committed in memory while files of an earlier one are written, and in files while those of an
//! earlier one are copied. So up to five checkpoints count at a time: the newest in memory, the one
//! whose files are being written, the newest in files, the one whose files are being copied, and
//! the newest on partner hosts.
//!
//! A rollback takes the newest of these of which every rank still has an image, wherever the image
//! is: a clone of one rank and a file of another fit together if the checkpoint is the same. After
//! the loss of a host that is the newest on partner hosts.

use rejoin_channel_table::Epoch;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Where images are, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// In memory of the rank's host, as a frozen clone of the rank.
    Memory,
    /// In a file.
    File,
    /// In a file that outlives the loss of the rank's host: a partner host has it, too, or sees the
    /// same folder.
    Partner,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Memory => "memory",
            Level::File => "file",
            Level::Partner => "partner",
        })
    }
}

/// The checkpoints whose images count. All of them have been committed in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CommittedEpochs {
    /// The newest checkpoint; no other one is newer.
    pub memory: Option<Epoch>,
    /// The checkpoint whose images are being written to files.
    pub writing: Option<Epoch>,
    /// The newest checkpoint of which every rank has a file.
    pub file: Option<Epoch>,
    /// The checkpoint in files that partner hosts are copying.
    pub copying: Option<Epoch>,
    /// The newest checkpoint whose files are on partner hosts. Where no copies are made, the newest
    /// one in files.
    pub partner: Option<Epoch>,
}

impl CommittedEpochs {
    /// Only this checkpoint counts, on all levels.
    #[must_use]
    pub fn only(epoch: Option<Epoch>) -> CommittedEpochs {
        CommittedEpochs {
            memory: epoch,
            writing: None,
            file: epoch,
            copying: None,
            partner: epoch,
        }
    }

    /// Whether images of this checkpoint count.
    #[must_use]
    pub fn contains(&self, epoch: Epoch) -> bool {
        self.newest_first().any(|counted| counted == epoch)
    }

    /// Whether the files of this checkpoint count.
    #[must_use]
    pub fn is_in_files(&self, epoch: Epoch) -> bool {
        [self.file, self.copying, self.partner].contains(&Some(epoch))
    }

    /// No rollback goes back behind this checkpoint, now or later.
    #[must_use]
    pub fn oldest(&self) -> Option<Epoch> {
        // What is under way to a level may be all that there is later.
        let copied = self.partner.or(self.copying);
        copied.or(self.file).or(self.writing).or(self.memory)
    }

    /// The checkpoints, without repetition.
    pub fn newest_first(&self) -> impl Iterator<Item = Epoch> + use<> {
        let files = [self.file, self.copying, self.partner];
        let all = [self.memory, self.writing, files[0], files[1], files[2]];
        let is_first = move |place: usize| !all[..place].contains(&all[place]);
        let places = (0..all.len()).filter(move |place| is_first(*place));
        places.filter_map(move |place| all[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_levels_count_and_the_safest_one_is_the_horizon() {
        let mut epochs = CommittedEpochs {
            memory: Some(Epoch(9)),
            writing: Some(Epoch(9)),
            file: Some(Epoch(7)),
            copying: Some(Epoch(5)),
            partner: None,
        };
        let all = |epochs: CommittedEpochs| epochs.newest_first().map(|e| e.0).collect::<Vec<_>>();
        assert_eq!(all(epochs), [9, 7, 5]);
        assert_eq!(epochs.oldest(), Some(Epoch(5)));
        epochs.partner = Some(Epoch(3));
        assert_eq!(all(epochs), [9, 7, 5, 3]);
        assert_eq!(epochs.oldest(), Some(Epoch(3)));
        assert!(epochs.is_in_files(Epoch(5)) && !epochs.is_in_files(Epoch(9)));
        assert_eq!(all(CommittedEpochs::only(Some(Epoch(2)))), [2]);
        assert_eq!(CommittedEpochs::default().oldest(), None);
    }
}
