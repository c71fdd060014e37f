//! A checkpoint that is committed on some level.

use crate::manager_messages::Time;
use rejoin_channel_table::Epoch;
use rejoin_wire::ImageCost;

/// A committed checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommittedCheckpoint {
    /// Number of the checkpoint.
    pub epoch: Epoch,
    /// When it was committed in memory.
    pub at: Time,
    /// The highest cost of it for a rank.
    pub cost: ImageCost,
}
