//! How long a host has until it ends.

use crate::manager_messages::Time;

/// The time that ranks have to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LeaveTime {
    /// When the manager ends.
    pub until: Time,
    /// When central is told again.
    pub again: Time,
}

impl LeaveTime {
    /// When something is to be done.
    pub fn deadline(&self) -> Time {
        self.until.min(self.again)
    }
}
