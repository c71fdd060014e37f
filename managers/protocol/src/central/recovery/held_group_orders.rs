//! Orders for ranks of lost hosts that come back alone. They wait until nothing acts on these
//! hosts.

use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

/// Orders for ranks of lost hosts that wait until nothing acts there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct HeldGroupOrders {
    /// When that is, and for each rank the checkpoint from which it comes back.
    held: BTreeMap<Rank, (Time, Epoch)>,
}

impl HeldGroupOrders {
    pub fn hold(&mut self, until: Time, ranks: &[(Rank, Incarnation)], epoch: Epoch) {
        let ranks = ranks.iter().map(|(rank, _)| (*rank, (until, epoch)));
        self.held.extend(ranks);
    }

    /// Those that are due now.
    pub fn take_due(&mut self, now: Time) -> Vec<(Rank, Epoch)> {
        let due: Vec<(Rank, Epoch)> = (self.held.iter())
            .filter(|(_, (until, _))| *until <= now)
            .map(|(rank, (_, epoch))| (*rank, *epoch))
            .collect();
        for (rank, _) in &due {
            self.held.remove(rank);
        }
        due
    }

    /// When the next ones are due.
    pub fn due(&self) -> Option<Time> {
        self.held.values().map(|(until, _)| *until).min()
    }

    /// The job rolls back as a whole.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
