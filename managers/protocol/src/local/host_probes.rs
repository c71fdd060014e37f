//! The probes of other hosts' managers, and the ranks that wait for theirs.

use crate::detector::{DetectorSettings, Prober};
use crate::manager_messages::Time;

/// The probes of this host's manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostProbes {
    pub prober: Prober,
}

impl HostProbes {
    pub fn new(settings: DetectorSettings) -> HostProbes {
        HostProbes {
            prober: Prober::new(settings),
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.prober.deadline()
    }
}
