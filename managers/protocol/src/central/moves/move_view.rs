//! How far moves are, for those who look on.

use crate::central::interface::HostIndex;
use rejoin_channel_table::Rank;
use serde::{Deserialize, Serialize};

/// What happens to a rank that moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MovePhase {
    /// The rank runs, and its host writes a copy of its memory to a file.
    Writing,
    /// The rank runs, and the other host copies the file and loads it.
    Copying,
    /// The rank runs, and the next step waits for a checkpoint.
    Waiting,
    /// The rank stops, and its host writes what the rank has written since the last copy.
    Stopping,
    /// The rank waits, and the other host makes a process of it.
    Restoring,
}

/// A rank that is on its way, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MoveView {
    /// The rank.
    pub rank: Rank,
    /// The host that it is on.
    pub from: HostIndex,
    /// The host that it goes to.
    pub to: HostIndex,
    /// What its host or the other one does with it.
    pub phase: MovePhase,
    /// The number of the copy, from 1 on; the last one is taken when it stops.
    pub copy: u32,
    /// Bytes of the file of this phase, as far as hosts have said.
    pub done: u64,
    /// All of its bytes, if that is known.
    pub of: Option<u64>,
    /// Nanoseconds from the beginning of the phase until there were so many bytes.
    pub took: u64,
    /// Nanoseconds since the order.
    pub since: u64,
}
