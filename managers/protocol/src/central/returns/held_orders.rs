//! Orders to restore ranks that wait until nothing of these ranks acts elsewhere.

use crate::central::interface::HostIndex;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// The order for one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct HeldOrder {
    /// When no lease of a lost host lasts any more on which it may act.
    until: Time,
    /// The checkpoint from which it comes back; `None`: the start.
    from: Option<Epoch>,
}

/// Where ranks are, and whether a process of theirs may act on another host.
pub(in crate::central) trait RankPlaces {
    /// The host on which a rank is to be restored.
    fn host_of(&self, rank: Rank) -> HostIndex;
    /// A process of the rank may act on a host that it has left.
    fn acts_elsewhere(&self, rank: Rank) -> bool;
}

/// The orders that wait, for each rank. The ranks of a host wait for each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(in crate::central) struct HeldOrders {
    orders: BTreeMap<Rank, HeldOrder>,
}

impl HeldOrders {
    /// These ranks come back from this checkpoint, at this time or later. One that waited for a
    /// later time already still does: it may be on its way from a lost host for the second time.
    pub fn hold(&mut self, until: Time, ranks: impl Iterator<Item = Rank>, from: Option<Epoch>) {
        for rank in ranks {
            let order = self.orders.entry(rank);
            let order = order.or_insert(HeldOrder { until, from });
            (order.until, order.from) = (until.max(order.until), from);
        }
    }

    /// The order of this rank waits.
    pub fn has(&self, rank: Rank) -> bool {
        self.orders.contains_key(&rank)
    }

    /// The order of this rank waits until this time at least, if it waits.
    pub fn delay(&mut self, rank: Rank, until: Time) {
        if let Some(order) = self.orders.get_mut(&rank) {
            order.until = until.max(order.until);
        }
    }

    /// These ranks have their orders.
    pub fn forget(&mut self, ranks: impl Iterator<Item = Rank>) {
        for rank in ranks {
            self.orders.remove(&rank);
        }
    }

    /// Until when the orders of some of these ranks wait, if that time is to come.
    pub fn latest(&self, now: Time, ranks: impl Iterator<Item = Rank>) -> Option<Time> {
        let orders = ranks.filter_map(|rank| self.orders.get(&rank));
        let times = orders.map(|order| order.until);
        times.filter(|until| *until > now).max()
    }

    /// The hosts on which some rank waits for a process elsewhere.
    fn hindered(&self, places: &impl RankPlaces) -> BTreeSet<HostIndex> {
        let ranks = self.orders.keys().copied();
        let waiting = ranks.filter(|rank| places.acts_elsewhere(*rank));
        waiting.map(|rank| places.host_of(rank)).collect()
    }

    /// For each host without such a rank, when its ranks may be restored.
    fn times(&self, places: &impl RankPlaces) -> BTreeMap<HostIndex, Time> {
        let mut times = BTreeMap::new();
        for (rank, order) in &self.orders {
            let until = times.entry(places.host_of(*rank)).or_insert(order.until);
            *until = order.until.max(*until);
        }
        let hindered = self.hindered(places);
        times.retain(|host, _| !hindered.contains(host));
        times
    }

    /// Takes the orders that may be given now: the ranks by their host and their checkpoint.
    pub fn take_due(
        &mut self,
        now: Time,
        places: &impl RankPlaces,
    ) -> BTreeMap<(HostIndex, Option<Epoch>), Vec<Rank>> {
        let mut times = self.times(places);
        times.retain(|_, until| *until <= now);
        let mut due: BTreeMap<_, Vec<Rank>> = BTreeMap::new();
        self.orders.retain(|rank, order| {
            let host = places.host_of(*rank);
            let is_due = times.contains_key(&host);
            if is_due {
                due.entry((host, order.from)).or_default().push(*rank);
            }
            !is_due
        });
        due
    }

    /// When the next orders are due that wait for a time only.
    pub fn due(&self, places: &impl RankPlaces) -> Option<Time> {
        self.times(places).into_values().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each rank is on the host of its tens.
    struct Places(BTreeSet<Rank>);

    impl RankPlaces for Places {
        fn host_of(&self, rank: Rank) -> HostIndex {
            rank.index() / 10
        }

        fn acts_elsewhere(&self, rank: Rank) -> bool {
            self.0.contains(&rank)
        }
    }

    fn ranks<const N: usize>(ranks: [u32; N]) -> impl Iterator<Item = Rank> {
        ranks.into_iter().map(Rank)
    }

    #[test]
    fn the_ranks_of_a_host_wait_for_each_other() {
        let mut held = HeldOrders::default();
        let free = Places(BTreeSet::new());
        held.hold(Time(5), ranks([1, 11]), Some(Epoch(2)));
        held.hold(Time(9), ranks([2]), None);
        assert_eq!(held.due(&free), Some(Time(5)));
        assert!(held.take_due(Time(4), &free).is_empty());
        let first = held.take_due(Time(5), &free);
        assert_eq!(
            first,
            BTreeMap::from([((1, Some(Epoch(2))), vec![Rank(11)])])
        );
        let both = [
            ((0, None), vec![Rank(2)]),
            ((0, Some(Epoch(2))), vec![Rank(1)]),
        ];
        assert_eq!(held.take_due(Time(9), &free), BTreeMap::from(both));
        assert_eq!((held.due(&free), held.has(Rank(1))), (None, false));
    }

    #[test]
    fn a_process_elsewhere_is_waited_for_without_a_time() {
        let mut held = HeldOrders::default();
        held.hold(Time(0), ranks([1, 2]), Some(Epoch(2)));
        let mut places = Places(BTreeSet::from([Rank(2)]));
        assert_eq!(held.due(&places), None);
        assert!(held.take_due(Time(99), &places).is_empty());
        places.0.clear();
        held.delay(Rank(2), Time(7));
        held.delay(Rank(3), Time(8));
        assert_eq!(held.due(&places), Some(Time(7)));
        assert!(held.take_due(Time(6), &places).is_empty());
        assert_eq!(held.take_due(Time(7), &places).len(), 1);
    }

    #[test]
    fn who_waits_for_the_second_time_waits_for_the_later_end_and_comes_from_the_later_plan() {
        let mut held = HeldOrders::default();
        let free = Places(BTreeSet::new());
        held.hold(Time(9), ranks([1]), Some(Epoch(4)));
        held.hold(Time(3), ranks([1]), Some(Epoch(2)));
        let latest = |now| held.latest(now, ranks([1, 2]));
        assert_eq!((latest(Time(8)), latest(Time(9))), (Some(Time(9)), None));
        assert!(held.take_due(Time(8), &free).is_empty());
        let due = held.take_due(Time(9), &free);
        assert_eq!(due, BTreeMap::from([((0, Some(Epoch(2))), vec![Rank(1)])]));
        held.hold(Time(1), ranks([1, 2]), None);
        held.forget(ranks([1, 2]));
        assert_eq!(held, HeldOrders::default());
    }
}
