//! Levels of images, and the checkpoints that are committed on each.
//!
//! An image is first in memory, as a frozen clone of its rank. It may also go to a file, which
//! outlives the clone. A checkpoint is committed on a level when central has stored that every rank
//! has its image there. The commit in memory comes first and waits for no file. Later checkpoints
//! may be committed in memory while files of an earlier one are written. So up to three
//! checkpoints count at a time: the newest in memory, the one whose files are being written, and
//! the newest in files.
//!
//! A rollback takes the newest of these of which every rank still has an image, wherever the image
//! is: a clone of one rank and a file of another fit together if the checkpoint is the same.

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
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Memory => "memory",
            Level::File => "file",
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
}

impl CommittedEpochs {
    /// Whether images of this checkpoint count.
    #[must_use]
    pub fn contains(&self, epoch: Epoch) -> bool {
        self.newest_first().any(|counted| counted == epoch)
    }

    /// No rollback goes back behind this checkpoint, now or later.
    #[must_use]
    pub fn oldest(&self) -> Option<Epoch> {
        // Files that are being written may be all that there is later.
        self.file.or(self.writing).or(self.memory)
    }

    /// The checkpoints, without repetition.
    pub fn newest_first(&self) -> impl Iterator<Item = Epoch> + use<> {
        let writing = self.writing.filter(|_| self.writing != self.memory);
        let known = [self.memory, self.writing];
        let file = self.file.filter(|_| !known.contains(&self.file));
        [self.memory, writing, file].into_iter().flatten()
    }
}
