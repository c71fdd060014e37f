//! Where the ranks of the job are, as far as the choice of algorithms depends on it.

use std::collections::BTreeMap;

use rejoin_channel_table::Rank;

/// The cost of a message between ranks of one host, for its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCost {
    /// A copy, while both ranks are awake.
    Copy,
    /// A system call, as a message to another host.
    SystemCall,
}

/// Which ranks of the job share a host, and what a message within a host costs. The value is the
/// same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobLocality {
    /// The number of each rank's host.
    hosts: Vec<u32>,
    cost: LocalCost,
}

impl JobLocality {
    /// The locality of ranks on these hosts, which are given in the order of ranks.
    pub fn new<H: Ord>(hosts: impl IntoIterator<Item = H>, cost: LocalCost) -> Self {
        let mut numbers = BTreeMap::new();
        let number = |host| {
            let next = numbers.len() as u32;
            *numbers.entry(host).or_insert(next)
        };
        Self {
            hosts: hosts.into_iter().map(number).collect(),
            cost,
        }
    }

    /// The number of a rank's host, from 0: ranks with equal numbers can share memory.
    ///
    /// # Panics
    /// When the job has no such rank.
    #[must_use]
    pub fn host(&self, rank: Rank) -> u32 {
        self.hosts[rank.index()]
    }

    /// The cost of a message between ranks of one host.
    #[must_use]
    pub fn cost(&self) -> LocalCost {
        self.cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_host_have_its_number() {
        let locality = JobLocality::new(["b", "a", "b", "c"], LocalCost::Copy);
        let numbers = [0, 1, 2, 3].map(|rank| locality.host(Rank(rank)));
        assert_eq!(numbers, [0, 1, 0, 2]);
        assert_eq!(locality.cost(), LocalCost::Copy);
    }
}
