//! Hosts that ranks have left, and processes that may still act there.

use crate::central::interface::HostIndex;
use rejoin_channel_table::Rank;
use std::collections::BTreeSet;

/// Where processes of ranks that are on other hosts may still act, and which hosts have had ranks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Departures {
    /// Ranks that a rollback has taken away from these hosts, until the hosts say that nothing of
    /// them acts there any more.
    under_way: BTreeSet<(Rank, HostIndex)>,
    /// Hosts that ranks have moved to or from, and drained ones.
    visited: BTreeSet<HostIndex>,
}

impl Departures {
    /// A rank is on another host from now on, and a process of it may still act on this one.
    pub fn begin(&mut self, rank: Rank, from: HostIndex) {
        self.under_way.insert((rank, from));
    }

    /// Nothing of the rank acts on this host any more.
    pub fn end(&mut self, rank: Rank, from: HostIndex) {
        self.under_way.remove(&(rank, from));
    }

    /// The host is lost, with everything that ran there.
    pub fn host_lost(&mut self, host: HostIndex) {
        self.under_way.retain(|(_, from)| *from != host);
    }

    /// A process of this rank may still act on this host.
    pub fn is_under_way(&self, rank: Rank, from: HostIndex) -> bool {
        self.under_way.contains(&(rank, from))
    }

    /// A process of this rank may still act on another host than this one.
    pub fn acts_elsewhere(&self, rank: Rank, home: HostIndex) -> bool {
        let mut all = self.under_way.iter();
        all.any(|(one, from)| *one == rank && *from != home)
    }

    /// The ranks that are on others, and may still act on this host.
    pub fn acting_on(&self, host: HostIndex) -> Vec<Rank> {
        let there = self.under_way.iter().filter(|(_, from)| *from == host);
        there.map(|(rank, _)| *rank).collect()
    }

    /// A rank moves to or from this host, or it is drained.
    pub fn visit(&mut self, host: HostIndex) {
        self.visited.insert(host);
    }

    /// Whether a rank has moved to or from this host, or it is drained.
    pub fn has_visited(&self, host: HostIndex) -> bool {
        self.visited.contains(&host)
    }

    /// All hosts that ranks have moved to or from, and drained ones.
    pub fn visited(&self) -> impl Iterator<Item = HostIndex> {
        self.visited.iter().copied()
    }
}
