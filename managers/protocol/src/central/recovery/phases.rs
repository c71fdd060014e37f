//! The state of phases in which the job recovers.

use crate::manager_messages::Time;
use rejoin_channel_table::Epoch;

/// Ranks are being rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) struct GlobalRestore {
    /// To which checkpoint; `None`: to the start.
    pub epoch: Option<Epoch>,
    /// When the first failure was reported: others may follow before all ranks are restored.
    pub since: Time,
}
