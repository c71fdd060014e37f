//! Which ranks of a communicator share a host.

use rustc_hash::FxHashMap;

use crate::adi::LocalCost;

/// Most ranks of one host whose exchanges are linear.
pub(in crate::coll) const MAX_LINEAR_RANKS: usize = 16;

/// Where the ranks of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coll) enum Span {
    /// The place of the ranks is not known, or nothing follows from it.
    Unknown,
    /// All on one host, few, and messages within it cost little.
    OneHost,
    /// On several hosts, with more than one on some.
    Hosts,
}

/// The hosts of a communicator's ranks: the same on all of them, and for as long as the
/// communicator lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locality {
    /// The number of each rank's host, in the order of their first ranks.
    host: Vec<u32>,
    /// All ranks, host by host, each host's in their order.
    ranks: Vec<u32>,
    /// Where each host's ranks begin there, and the end.
    starts: Vec<u32>,
    /// The most ranks of one host.
    max_ranks: u32,
    /// Cost of a message within a host.
    cost: LocalCost,
    span: Span,
}

impl Locality {
    /// The locality of ranks on these hosts, which are given as numbers in the order of ranks.
    /// `cost` is the cost of a message within a host.
    pub fn new(hosts: impl IntoIterator<Item = u32>, cost: LocalCost) -> Self {
        let mut numbers = FxHashMap::default();
        let number = |host| {
            let next = numbers.len() as u32;
            *numbers.entry(host).or_insert(next)
        };
        let host: Vec<u32> = hosts.into_iter().map(number).collect();
        let (size, count) = (host.len(), numbers.len());
        let mut ranks: Vec<u32> = (0..size as u32).collect();
        ranks.sort_by_key(|&rank| host[rank as usize]);
        let mut starts = vec![0; count + 1];
        for &h in &host {
            starts[h as usize + 1] += 1;
        }
        let max_ranks = starts.iter().copied().max().unwrap_or(0);
        for h in 0..count {
            starts[h + 1] += starts[h];
        }
        let span = match count {
            1 if size <= MAX_LINEAR_RANKS && cost == LocalCost::Copy => Span::OneHost,
            _ if 1 < count && count < size => Span::Hosts,
            _ => Span::Unknown,
        };
        Self {
            host,
            ranks,
            starts,
            max_ranks,
            cost,
            span,
        }
    }

    /// Where all these ranks are.
    #[inline(always)]
    pub(in crate::coll) fn span(&self) -> Span {
        self.span
    }

    /// Number of hosts.
    #[inline]
    #[must_use]
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether messages within a host cost so little that its ranks exchange linearly.
    #[inline]
    #[must_use]
    pub fn is_cheap_within(&self) -> bool {
        self.cost == LocalCost::Copy
    }

    /// The number of a rank's host.
    #[inline]
    #[must_use]
    pub fn of(&self, rank: usize) -> usize {
        self.host[rank] as usize
    }

    /// The ranks of a host, ascending.
    #[inline]
    #[must_use]
    pub fn ranks(&self, host: usize) -> &[u32] {
        &self.ranks[self.starts[host] as usize..self.starts[host + 1] as usize]
    }

    /// The most ranks of one host.
    #[must_use]
    pub fn max_ranks(&self) -> usize {
        self.max_ranks as usize
    }

    /// All ranks, host by host.
    #[inline]
    #[must_use]
    pub fn all(&self) -> &[u32] {
        &self.ranks
    }

    /// Where a host's ranks begin among all.
    #[inline]
    #[must_use]
    pub fn start(&self, host: usize) -> usize {
        self.starts[host] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_found_by_host_whatever_their_order() {
        let numbers = [7, 3, 7, 9, 3, 3];
        let hosts = Locality::new(numbers, LocalCost::Copy);
        assert_eq!(hosts.count(), 3);
        assert_eq!(
            (0..6).map(|r| hosts.of(r)).collect::<Vec<_>>(),
            [0, 1, 0, 2, 1, 1]
        );
        assert_eq!(hosts.ranks(0), [0, 2]);
        assert_eq!(hosts.ranks(1), [1, 4, 5]);
        assert_eq!(hosts.ranks(2), [3]);
        assert_eq!(hosts.all(), [0, 2, 1, 4, 5, 3]);
        assert_eq!(hosts.start(2), 5);
        assert_eq!(hosts.max_ranks(), 3);
    }

    #[test]
    fn one_host_and_no_rank() {
        assert_eq!(Locality::new([2; 4], LocalCost::Copy).count(), 1);
        assert_eq!(Locality::new([], LocalCost::Copy).count(), 0);
    }
}
