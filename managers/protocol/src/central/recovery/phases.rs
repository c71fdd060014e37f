//! The state of phases in which the job recovers.

use crate::central::interface::Relaunch;
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

/// How far the decision to launch the job again has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) enum Relaunching {
    /// The driver is asked for the newest stored state.
    Asked,
    /// The relaunch is decided; before this moment, ranks of the lost host may still act. `None`: a
    /// central manager that has ended decided it.
    Decided(Box<Relaunch>, Option<Time>),
}

impl Relaunching {
    /// When the relaunch may begin.
    pub fn due(&self) -> Option<Time> {
        match self {
            Relaunching::Asked => None,
            Relaunching::Decided(_, at) => *at,
        }
    }
}
