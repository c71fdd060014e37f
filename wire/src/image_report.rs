//! A rank's report about an image of itself to its manager.

use rejoin_channel_table::Generation;
use serde::{Deserialize, Serialize};

/// The cost of an image for the rank that took it.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct ImageCost {
    /// Microseconds for which the rank was suspended.
    pub stall: u64,
    /// Pages that the rank has copied because it wrote to them after its last image, at most.
    pub copied: u64,
    /// Microseconds that the system may have spent on these copies: its time for the process since
    /// the last image, limited to 2 to 16 for each page.
    pub copying: u64,
}

impl ImageCost {
    /// Microseconds in all: copying a page takes about two.
    #[must_use]
    pub fn total(self) -> u64 {
        self.stall.saturating_add(self.copied.saturating_mul(2))
    }

    /// Microseconds in all, with the system's own time for copies. That time includes system calls,
    /// so it only shows that an interval is far too short.
    #[must_use]
    pub fn taken(self) -> u64 {
        self.stall.saturating_add(self.copying)
    }
}

/// Files, locks and input that an image shares with other processes, for its manager.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holds {
    /// Device and inode of each file that is open for writing, at most [`crate::MOST_FILES`]. A
    /// file that several ranks name is not cut back. `None` when there are more.
    pub files: Option<Vec<(u64, u64)>>,
    /// Bytes of these files that a restore may have to read again, to find out whether they were
    /// overwritten.
    pub hashed: u64,
    /// The process holds file locks. Its successor gets them only once the process is dead.
    pub locks: bool,
    /// The image was taken in this generation, and shares memory with ranks of its host. It can't
    /// be restored alone, which would be in the same generation.
    pub together: Option<Generation>,
    /// Standard input, when it is a pipe.
    pub input: Option<Unread>,
}

/// A pipe as standard input, at an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unread {
    /// Device and inode of the pipe.
    pub pipe: (u64, u64),
    /// Bytes in it that were not read.
    pub bytes: u64,
    /// When they were counted: between these two times, in nanoseconds of the host's monotonic
    /// clock.
    pub counted: (u64, u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_counts_two_microseconds_per_page_or_the_time_of_the_copies() {
        let cost = ImageCost {
            stall: 100,
            copied: 30,
            copying: 250,
        };
        assert_eq!((cost.total(), cost.taken()), (160, 350));
        let most = ImageCost {
            copied: u64::MAX,
            ..cost
        };
        assert_eq!(most.total(), u64::MAX);
    }
}
