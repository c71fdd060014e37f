//! Ranks that are spread evenly over the hosts.

use crate::central::interface::HostIndex;
use crate::central::placement::{UsableHost, counts};
use rejoin_channel_table::Rank;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The fewest moves after which each host has its share of the ranks by its slots, and none has
/// more ranks than slots as long as there is room. A suspect host has a share only if the others
/// have no room for all. `placement`: where ranks are now; those on hosts that are not usable move.
#[must_use]
pub(super) fn balance(placement: &[HostIndex], usable: &[UsableHost]) -> Vec<(Rank, HostIndex)> {
    let hosts = with_shares(placement.len(), usable);
    if hosts.is_empty() {
        return Vec::new();
    }
    let mut now = counts(placement);
    let last = hosts.iter().map(|one| one.host).max().unwrap_or(0);
    now.resize(now.len().max(last + 1), 0);
    let mut left = shares(placement.len(), &hosts, &now);
    // The last ranks of a host leave it.
    let mut leaving = Vec::new();
    for (rank, host) in (0u32..).map(Rank).zip(placement) {
        match left.get_mut(*host) {
            Some(room) if *room > 0 => *room -= 1,
            _ => leaving.push(rank),
        }
    }
    let room = left.iter().enumerate();
    let places = room.flat_map(|(host, room)| std::iter::repeat_n(host, *room));
    leaving.into_iter().zip(places).collect()
}

/// The hosts that have a share.
fn with_shares(ranks: usize, usable: &[UsableHost]) -> Vec<UsableHost> {
    let (suspect, sound): (Vec<UsableHost>, Vec<UsableHost>) =
        usable.iter().copied().partition(|one| one.is_suspect);
    let slots = sound.iter().map(|one| one.slots);
    match slots.fold(0usize, usize::saturating_add) >= ranks {
        true => sound,
        false => [sound, suspect].concat(),
    }
}

/// How many ranks each host gets: one after the other goes to the host that then is the least full.
/// Of equally full ones, those come first that have the rank already.
fn shares(ranks: usize, hosts: &[UsableHost], now: &[usize]) -> Vec<usize> {
    let mut shares = vec![0usize; now.len()];
    let next = |(order, one): (usize, &UsableHost), share: usize| NextShare {
        fill: share as u128 + 1,
        slots: one.slots.max(1) as u128,
        is_new: share >= now[one.host],
        order,
        host: one.host,
    };
    let hosts: Vec<(usize, &UsableHost)> = hosts.iter().enumerate().collect();
    let mut queue: BinaryHeap<Reverse<NextShare>> =
        hosts.iter().map(|one| Reverse(next(*one, 0))).collect();
    for _ in 0..ranks {
        let Some(mut least) = queue.peek_mut() else {
            break;
        };
        let Reverse(NextShare { order, host, .. }) = *least;
        shares[host] += 1;
        *least = Reverse(next(hosts[order], shares[host]));
    }
    shares
}

/// A host that is offered one more rank. The least full one comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NextShare {
    /// Ranks of the host, the offered one included.
    fill: u128,
    slots: u128,
    /// The rank would have to move there.
    is_new: bool,
    /// Place of the host in the list of hosts.
    order: usize,
    host: HostIndex,
}

impl Ord for NextShare {
    fn cmp(&self, other: &Self) -> Ordering {
        let fullness = (self.fill * other.slots).cmp(&(other.fill * self.slots));
        let rest = (self.is_new, self.order).cmp(&(other.is_new, other.order));
        fullness.then(rest)
    }
}

impl PartialOrd for NextShare {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn host(host: HostIndex, slots: usize, is_suspect: bool) -> UsableHost {
        UsableHost {
            host,
            slots,
            is_suspect,
        }
    }

    fn after(placement: &[HostIndex], moves: &[(Rank, HostIndex)]) -> Vec<HostIndex> {
        let mut placement = placement.to_vec();
        for (rank, to) in moves {
            placement[rank.index()] = *to;
        }
        placement
    }

    #[test]
    fn ranks_spread_over_new_hosts() {
        let usable = [host(0, 4, false), host(1, 4, false), host(2, 4, false)];
        let moves = balance(&[0, 0, 0, 1, 1, 1], &usable);
        assert_eq!(moves, [(Rank(2), 2), (Rank(5), 2)]);
        assert_eq!(balance(&[0, 0, 2, 1, 1, 2], &usable), []);
        let uneven = [host(0, 2, false), host(1, 4, false)];
        let moves = balance(&[0, 0, 0, 0, 0, 0], &uneven);
        assert_eq!(after(&[0; 6], &moves), [0, 0, 1, 1, 1, 1]);
    }

    #[test]
    fn draining_hosts_lose_their_ranks_and_suspect_ones_get_what_has_no_room() {
        let usable = [host(0, 2, false), host(2, 4, true)];
        assert_eq!(balance(&[0, 1], &usable), [(Rank(1), 0)]);
        let moves = balance(&[0, 1, 1], &usable);
        assert_eq!(counts(&after(&[0, 1, 1], &moves)), [1, 0, 2]);
        assert_eq!(balance(&[0, 1], &[]), []);
    }

    /// Up to four hosts and seven ranks, on any of them.
    fn worlds() -> impl Strategy<Value = (Vec<UsableHost>, Vec<HostIndex>)> {
        let slots = prop::collection::vec((1usize..5, prop::bool::weighted(0.2)), 1..5);
        slots.prop_flat_map(|slots| {
            let hosts = slots.iter().enumerate();
            let hosts: Vec<UsableHost> = hosts.map(|(h, (s, bad))| host(h, *s, *bad)).collect();
            let ranks = prop::collection::vec(0..hosts.len(), 0..8);
            ranks.prop_map(move |ranks| (hosts.clone(), ranks))
        })
    }

    /// How uneven a placement is: the sum, over the ranks, of how full their hosts are when one
    /// rank after the other comes, in sixtieths.
    fn unevenness(usable: &[UsableHost], placement: &[HostIndex]) -> usize {
        let counts = counts(placement);
        let of = |one: &UsableHost| {
            let count = counts.get(one.host).copied().unwrap_or(0);
            // Slots divide 60.
            count * (count + 1) / 2 * (60 / one.slots)
        };
        usable.iter().map(of).sum()
    }

    /// All ways to give so many ranks to so many hosts.
    fn ways(ranks: usize, hosts: usize) -> Vec<Vec<usize>> {
        if hosts < 2 {
            return vec![vec![ranks]];
        }
        let with = |first: usize| {
            let rest = ways(ranks - first, hosts - 1).into_iter();
            rest.map(move |rest| [vec![first], rest].concat())
        };
        (0..=ranks).flat_map(with).collect()
    }

    proptest! {
        #[test]
        fn no_host_is_over_its_slots_as_long_as_there_is_room((usable, ranks) in worlds()) {
            let then = after(&ranks, &balance(&ranks, &usable));
            let mut count = counts(&then);
            count.resize(usable.len(), 0);
            let room: usize = usable.iter().map(|one| one.slots).sum();
            for one in &usable {
                prop_assert!(room < ranks.len() || count[one.host] <= one.slots);
            }
            let sound = usable.iter().filter(|one| !one.is_suspect);
            let room: usize = sound.map(|one| one.slots).sum();
            let mut suspect = usable.iter().filter(|one| one.is_suspect);
            prop_assert!(room < ranks.len() || suspect.all(|one| count[one.host] == 0));
        }

        #[test]
        fn every_move_makes_a_fuller_host_emptier((usable, ranks) in worlds()) {
            let moves = balance(&ranks, &usable);
            let shared = with_shares(ranks.len(), &usable);
            let then = after(&ranks, &moves);
            for (rank, to) in &moves {
                let from = ranks[rank.index()];
                prop_assert_ne!(from, *to);
                let Some(from) = shared.iter().find(|one| one.host == from) else {
                    continue;
                };
                let mut without = then.clone();
                without[rank.index()] = from.host;
                prop_assert!(unevenness(&shared, &then) < unevenness(&shared, &without));
            }
            prop_assert_eq!(balance(&then, &usable), []);
        }

        #[test]
        fn no_fewer_moves_lead_to_as_even_a_placement((usable, ranks) in worlds()) {
            let moves = balance(&ranks, &usable);
            let shared = with_shares(ranks.len(), &usable);
            let best = unevenness(&shared, &after(&ranks, &moves));
            let mut now = counts(&ranks);
            now.resize(usable.len(), 0);
            for way in ways(ranks.len(), shared.len()) {
                let of = shared.iter().zip(&way);
                let placed: Vec<HostIndex> =
                    of.flat_map(|(one, n)| std::iter::repeat_n(one.host, *n)).collect();
                let stay: usize = shared.iter().zip(&way).map(|(one, n)| now[one.host].min(*n)).sum();
                let uneven = unevenness(&shared, &placed);
                prop_assert!(uneven >= best, "{:?} is more even", way);
                prop_assert!(uneven > best || ranks.len() - stay >= moves.len(), "{:?}", way);
            }
        }
    }
}
