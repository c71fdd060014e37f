//! Which ranks of a communicator share a host.

use crate::adi::LocalCost;

/// Most ranks of one host that exchange without steps.
pub const FLAT_RANKS: usize = 16;

/// Where the ranks of a call are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coll) enum Span {
    /// It is not known, or nothing follows from it.
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
    most: u32,
    /// Cost of a message within a host.
    cost: LocalCost,
    span: Span,
}

impl Locality {
    /// The hosts of `size` ranks. `same` says whether two ranks share a host, and `cost` is the
    /// cost of a message within a host.
    #[must_use]
    pub fn new(size: usize, cost: LocalCost, same: impl Fn(usize, usize) -> bool) -> Self {
        let mut firsts: Vec<usize> = Vec::new();
        let mut host = Vec::with_capacity(size);
        for rank in 0..size {
            // Ranks of a host are often numbered one after the other.
            let known = (0..firsts.len()).rev().find(|&h| same(firsts[h], rank));
            host.push(known.unwrap_or_else(|| {
                firsts.push(rank);
                firsts.len() - 1
            }) as u32);
        }
        let mut ranks: Vec<u32> = (0..size as u32).collect();
        ranks.sort_by_key(|&rank| host[rank as usize]);
        let mut starts = vec![0; firsts.len() + 1];
        for &h in &host {
            starts[h as usize + 1] += 1;
        }
        let most = starts.iter().copied().max().unwrap_or(0);
        for h in 0..firsts.len() {
            starts[h + 1] += starts[h];
        }
        let span = match firsts.len() {
            1 if size <= FLAT_RANKS && cost == LocalCost::Copy => Span::OneHost,
            count if 1 < count && count < size => Span::Hosts,
            _ => Span::Unknown,
        };
        Self {
            host,
            ranks,
            starts,
            most,
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

    /// Whether messages within a host cost so little that ranks exchange all at once, not in steps.
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
    pub fn most(&self) -> usize {
        self.most as usize
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
        let names = ["b", "a", "b", "c", "a", "a"];
        let hosts = Locality::new(names.len(), LocalCost::Copy, |a, b| names[a] == names[b]);
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
        assert_eq!(hosts.most(), 3);
    }

    #[test]
    fn one_host_and_no_rank() {
        assert_eq!(Locality::new(4, LocalCost::Copy, |_, _| true).count(), 1);
        assert_eq!(Locality::new(0, LocalCost::Copy, |_, _| true).count(), 0);
    }
}
