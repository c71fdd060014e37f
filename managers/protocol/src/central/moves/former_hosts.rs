//! Where ranks were before they moved: their images of earlier checkpoints are there.

use crate::central::interface::HostIndex;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeSet;

/// A move that counts as long as the job may roll back behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FormerHost {
    rank: Rank,
    /// Images of checkpoints up to this one are on the former host.
    last: Epoch,
    host: HostIndex,
}

/// The moves that count, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct FormerHosts {
    moves: Vec<FormerHost>,
}

impl FormerHosts {
    /// A rank has moved away from this host, which has its images of checkpoints up to `last`.
    pub fn add(&mut self, rank: Rank, last: Epoch, host: HostIndex) {
        self.moves.push(FormerHost { rank, last, host });
    }

    /// The job does not roll back behind this checkpoint any more.
    pub fn forget_before(&mut self, oldest: Epoch) {
        self.moves.retain(|one| one.last >= oldest);
    }

    /// The host that a rank was on at this checkpoint; `None`: it has not moved since.
    #[must_use]
    pub fn at(&self, rank: Rank, epoch: Epoch) -> Option<HostIndex> {
        let mut later = self.moves.iter();
        let first = later.find(|one| one.rank == rank && one.last >= epoch);
        first.map(|one| one.host)
    }

    /// Where all ranks were at this checkpoint, if they are on these hosts now.
    #[must_use]
    pub fn placement_at(&self, epoch: Epoch, now: &[HostIndex]) -> Vec<HostIndex> {
        let ranks = (0u32..).map(Rank).zip(now);
        let at = ranks.map(|(rank, host)| self.at(rank, epoch).unwrap_or(*host));
        at.collect()
    }

    /// These ranks, in their order, come back from this checkpoint: their later moves have not
    /// happened.
    pub fn roll_back(&mut self, ranks: &[Rank], epoch: Epoch) {
        let is_void =
            |one: &FormerHost| one.last >= epoch && ranks.binary_search(&one.rank).is_ok();
        self.moves.retain(|one| !is_void(one));
    }

    /// The hosts that may have images of a rank which it took before it moved away.
    pub fn hosts_of(&self, rank: Rank) -> BTreeSet<HostIndex> {
        let of_rank = self.moves.iter().filter(|one| one.rank == rank);
        of_rank.map(|one| one.host).collect()
    }

    /// The ranks whose images of this checkpoint are on this host, though they are on others.
    #[must_use]
    pub fn ranks_at(&self, host: HostIndex, epoch: Epoch) -> BTreeSet<Rank> {
        let ranks = self.ranks_of(host).into_iter();
        ranks
            .filter(|rank| self.at(*rank, epoch) == Some(host))
            .collect()
    }

    /// The ranks whose images of a checkpoint are on this host, though they are on others.
    #[must_use]
    pub fn ranks_of(&self, host: HostIndex) -> Vec<Rank> {
        let on = self.moves.iter().filter(|one| one.host == host);
        on.map(|one| one.rank).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_was_where_its_first_later_move_began() {
        let mut former = FormerHosts::default();
        former.add(Rank(1), Epoch(3), 0);
        former.add(Rank(1), Epoch(5), 2);
        assert_eq!(former.placement_at(Epoch(3), &[0, 1]), [0, 0]);
        assert_eq!(former.placement_at(Epoch(5), &[0, 1]), [0, 2]);
        assert_eq!(former.placement_at(Epoch(7), &[0, 1]), [0, 1]);
        assert_eq!(former.ranks_of(2), [Rank(1)]);
        assert_eq!(former.ranks_at(2, Epoch(5)), BTreeSet::from([Rank(1)]));
        assert_eq!(former.ranks_at(2, Epoch(3)), BTreeSet::new());
        former.forget_before(Epoch(5));
        assert_eq!(former.at(Rank(1), Epoch(5)), Some(2));
        former.roll_back(&[Rank(0), Rank(1)], Epoch(5));
        assert_eq!(former.at(Rank(1), Epoch(5)), None);
    }

    #[test]
    fn some_ranks_roll_back_behind_their_moves_and_others_stand() {
        let mut former = FormerHosts::default();
        former.add(Rank(1), Epoch(3), 0);
        former.add(Rank(2), Epoch(3), 0);
        former.add(Rank(1), Epoch(5), 2);
        assert_eq!(former.hosts_of(Rank(1)), BTreeSet::from([0, 2]));
        former.roll_back(&[Rank(1)], Epoch(5));
        assert_eq!(former.placement_at(Epoch(3), &[7, 7, 7]), [7, 0, 0]);
        assert_eq!(former.at(Rank(1), Epoch(5)), None);
        assert_eq!(former.hosts_of(Rank(1)), BTreeSet::from([0]));
    }
}
