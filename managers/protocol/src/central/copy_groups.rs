//! Which host keeps what is needed to replace the image files of a lost host.
//!
//! The hosts with ranks form groups of a given size, in their order. The files of the first ranks
//! of a group's hosts are a *stripe*, those of their second ranks another one, and so on. A host of
//! the next group keeps the exclusive or of a stripe's files: their *parity*. With it and the other
//! files of the stripe, each of them can be made again (Patterson, Gibson and Katz, "A case for
//! redundant arrays of inexpensive disks", 1988). The parity of a single file is a copy, so groups
//! of one host are hosts whose files the next host copies.

use super::placement::HostIndex;
use crate::manager_messages::MovedRank;
use rejoin_channel_table::Rank;
use std::collections::{BTreeMap, BTreeSet};

/// Ranks of different hosts whose files have a parity on yet another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stripe {
    /// The ranks in their order, and their hosts. The first rank names the stripe.
    pub members: Vec<(Rank, HostIndex)>,
    /// The host that keeps the parity.
    pub holder: HostIndex,
}

/// The stripes of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CopyGroups {
    stripes: Vec<Stripe>,
    /// For each rank its stripe.
    of_rank: BTreeMap<Rank, usize>,
}

impl CopyGroups {
    /// The stripes of ranks on these hosts, in groups of so many hosts. Groups are smaller if not
    /// enough hosts have ranks. There are none if one host has all ranks.
    #[must_use]
    pub fn new(placement: &[HostIndex], size: usize) -> CopyGroups {
        let mut ranks: BTreeMap<HostIndex, Vec<Rank>> = BTreeMap::new();
        for (rank, host) in (0u32..).map(Rank).zip(placement) {
            ranks.entry(*host).or_default().push(rank);
        }
        let hosts: Vec<HostIndex> = ranks.keys().copied().collect();
        let size = size.min(hosts.len().saturating_sub(1));
        let mut groups = CopyGroups::default();
        if size == 0 {
            return groups;
        }
        let all: Vec<&[HostIndex]> = hosts.chunks(size).collect();
        let next = all.iter().skip(1).chain(&all[..1]);
        for (group, next) in all.iter().zip(next) {
            groups.add(group, next, &ranks);
        }
        groups
    }

    fn add(
        &mut self,
        group: &[HostIndex],
        next: &[HostIndex],
        ranks: &BTreeMap<HostIndex, Vec<Rank>>,
    ) {
        // The hosts of the next group keep the stripes in turn.
        for (place, holder) in next.iter().cycle().enumerate() {
            let member = |host: &HostIndex| Some((*ranks[host].get(place)?, *host));
            let mut members: Vec<_> = group.iter().filter_map(member).collect();
            if members.is_empty() {
                return;
            }
            members.sort_unstable();
            let stripe = self.stripes.len();
            self.of_rank
                .extend(members.iter().map(|(rank, _)| (*rank, stripe)));
            self.stripes.push(Stripe {
                members,
                holder: *holder,
            });
        }
    }

    /// All stripes.
    #[must_use]
    pub fn stripes(&self) -> &[Stripe] {
        &self.stripes
    }

    /// The stripe of a rank.
    #[must_use]
    pub fn stripe_of(&self, rank: Rank) -> Option<&Stripe> {
        self.of_rank.get(&rank).map(|stripe| &self.stripes[*stripe])
    }

    /// The stripe that this rank names.
    #[must_use]
    pub fn named(&self, rank: Rank) -> Option<&Stripe> {
        self.stripe_of(rank)
            .filter(|stripe| stripe.members[0].0 == rank)
    }

    /// A rank whose host is lost, and the hosts that have what replaces its file, unless one of
    /// them is lost, too.
    pub fn moved(&self, rank: Rank, is_lost: impl Fn(&HostIndex) -> bool) -> MovedRank {
        let stripe = self.stripe_of(rank);
        let holder = stripe.map(|stripe| stripe.holder);
        let members = stripe.map_or(&[][..], |stripe| &stripe.members);
        let others = members.iter().filter(|(other, _)| *other != rank);
        let others: Vec<_> = others.copied().collect();
        let are_lost = holder.iter().any(&is_lost) || others.iter().any(|(_, host)| is_lost(host));
        match are_lost {
            true => MovedRank {
                rank,
                holder: None,
                others: Vec::new(),
            },
            false => MovedRank {
                rank,
                holder,
                others,
            },
        }
    }

    /// Whether all files can be made again that are on these hosts.
    #[must_use]
    pub fn outlive(&self, lost: &[HostIndex]) -> bool {
        let lost: BTreeSet<HostIndex> = lost.iter().copied().collect();
        self.stripes.iter().all(|stripe| {
            let hosts = stripe.members.iter().map(|(_, host)| host);
            match hosts.filter(|host| lost.contains(host)).count() {
                0 => true,
                1 => !lost.contains(&stripe.holder),
                _ => false,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(stripe: &Stripe) -> Vec<(u32, HostIndex)> {
        let members = stripe.members.iter();
        members.map(|(rank, host)| (rank.0, *host)).collect()
    }

    #[test]
    fn groups_of_one_host_are_copied_by_the_next_one() {
        let groups = CopyGroups::new(&[0, 0, 2, 3, 5], 1);
        let holders = [0, 1, 2, 3, 4].map(|rank| groups.stripe_of(Rank(rank)).map(|s| s.holder));
        assert_eq!(holders, [Some(2), Some(2), Some(3), Some(5), Some(0)]);
        assert!(
            groups
                .stripes()
                .iter()
                .all(|stripe| stripe.members.len() == 1)
        );
        assert_eq!(CopyGroups::new(&[1, 1], 1), CopyGroups::default());
        assert!(groups.outlive(&[2]) && groups.outlive(&[0, 3]) && !groups.outlive(&[0, 2]));
    }

    #[test]
    fn hosts_of_the_next_group_keep_stripes_in_turn() {
        // Ranks 0 and 1 on host 0, 2 and 3 on 1, 4 on 2, 5 and 6 on 3.
        let groups = CopyGroups::new(&[0, 0, 1, 1, 2, 3, 3], 2);
        let found: Vec<_> = groups
            .stripes()
            .iter()
            .map(|s| (members(s), s.holder))
            .collect();
        let want = [
            (vec![(0, 0), (2, 1)], 2),
            (vec![(1, 0), (3, 1)], 3),
            (vec![(4, 2), (5, 3)], 0),
            (vec![(6, 3)], 1),
        ];
        assert_eq!(found, want);
        assert_eq!(groups.named(Rank(1)).map(|stripe| stripe.holder), Some(3));
        assert_eq!(groups.named(Rank(3)), None);
        assert!(groups.outlive(&[1]) && !groups.outlive(&[0, 1]) && !groups.outlive(&[0, 2]));
    }

    proptest! {
        #[test]
        fn any_host_of_several_can_be_lost(
            placement in proptest::collection::vec(0usize..9, 1..40),
            size in 1usize..12,
        ) {
            let groups = CopyGroups::new(&placement, size);
            let hosts: BTreeSet<HostIndex> = placement.iter().copied().collect();
            prop_assert_eq!(groups.stripes().is_empty(), hosts.len() == 1);
            for host in hosts.iter().filter(|_| hosts.len() > 1) {
                prop_assert!(groups.outlive(&[*host]));
            }
            for (rank, host) in (0u32..).map(Rank).zip(&placement).filter(|_| hosts.len() > 1) {
                let stripe = groups.stripe_of(rank).expect("each rank has one");
                prop_assert!(stripe.members.contains(&(rank, *host)));
                let others: BTreeSet<HostIndex> =
                    stripe.members.iter().map(|(_, host)| *host).collect();
                prop_assert_eq!(others.len(), stripe.members.len(), "a host twice");
                prop_assert!(!others.contains(&stripe.holder));
            }
        }
    }
}
