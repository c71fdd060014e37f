//! Orders for ranks that come back alone, and wait: ranks of lost hosts until nothing acts on these
//! hosts, and ranks that return to a former host until nothing of them acts on the other.

use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

/// Orders that wait until nothing acts elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct HeldGroupOrders {
    /// For each rank when nothing acts on lost hosts any more, and the checkpoint from which it
    /// comes back.
    held: BTreeMap<Rank, (Time, Epoch)>,
}

impl HeldGroupOrders {
    /// These ranks come back from this checkpoint, at this time or later. One that waited for a
    /// later time already still does: it may be on its way from a lost host for the second time.
    pub fn hold(&mut self, until: Time, ranks: &[(Rank, Incarnation)], epoch: Epoch) {
        for (rank, _) in ranks {
            let (since, from) = self.held.entry(*rank).or_insert((until, epoch));
            (*since, *from) = (until.max(*since), epoch);
        }
    }

    /// The order of this rank waits.
    pub fn has(&self, rank: Rank) -> bool {
        self.held.contains_key(&rank)
    }

    /// The order of this rank waits until this time at least, if it waits.
    pub fn delay(&mut self, rank: Rank, until: Time) {
        if let Some((since, _)) = self.held.get_mut(&rank) {
            *since = until.max(*since);
        }
    }

    /// These ranks have their orders.
    pub fn forget(&mut self, ranks: &[(Rank, Incarnation)]) {
        for (rank, _) in ranks {
            self.held.remove(rank);
        }
    }

    /// Those that are due now. `acts_elsewhere`: a process of the rank may act on another host.
    pub fn take_due(
        &mut self,
        now: Time,
        acts_elsewhere: impl Fn(Rank) -> bool,
    ) -> Vec<(Rank, Epoch)> {
        let due: Vec<(Rank, Epoch)> = (self.held.iter())
            .filter(|(rank, (until, _))| *until <= now && !acts_elsewhere(**rank))
            .map(|(rank, (_, epoch))| (*rank, *epoch))
            .collect();
        for (rank, _) in &due {
            self.held.remove(rank);
        }
        due
    }

    /// When the next ones are due that wait for a time only.
    pub fn due(&self, acts_elsewhere: impl Fn(Rank) -> bool) -> Option<Time> {
        let timed = self.held.iter().filter(|(rank, _)| !acts_elsewhere(**rank));
        timed.map(|(_, (until, _))| *until).min()
    }

    /// The job rolls back as a whole.
    pub fn clear(&mut self) {
        self.held.clear();
    }
}
