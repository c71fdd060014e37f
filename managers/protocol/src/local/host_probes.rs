//! The probes of other hosts' managers, and where the ranks are that this host's ranks wait for.

use crate::detector::{DetectorSettings, Prober};
use crate::manager_messages::Time;
use rejoin_channel_table::Rank;
use std::collections::BTreeMap;

/// The probes of this host's manager.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct HostProbes {
    pub prober: Prober,
    /// The hosts of ranks that ranks have waited for; `None`: central was asked.
    places: BTreeMap<Rank, Option<usize>>,
}

impl HostProbes {
    pub fn new(settings: DetectorSettings) -> HostProbes {
        HostProbes {
            prober: Prober::new(settings),
            places: BTreeMap::new(),
        }
    }

    pub fn deadline(&self) -> Option<Time> {
        self.prober.deadline()
    }

    /// The host of a rank; `None`: it is asked for. Returns whether central is to be asked now.
    pub fn place_of(&mut self, rank: Rank) -> (Option<usize>, bool) {
        let known = self.places.get(&rank).copied();
        if known.is_none() {
            self.places.insert(rank, None);
        }
        (known.flatten(), known.is_none())
    }

    /// Central says on which host a rank is.
    pub fn rank_on(&mut self, rank: Rank, host: usize) {
        self.places.insert(rank, Some(host));
    }

    /// Ranks may be on other hosts from now on.
    pub fn forget_places(&mut self) {
        self.places.clear();
    }
}
