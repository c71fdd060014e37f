//! How far the decision to launch the job again has come.

use crate::central::messages::Relaunch;
use crate::control::Time;

/// How far the decision has come.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::central) enum Relaunching {
    /// The driver is asked for the newest stored state.
    Asked,
    /// It is decided; before this moment, ranks of the lost host may still act. `None`: it was
    /// decided by a central manager that has ended.
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
