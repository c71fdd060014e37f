//! Which host a rank runs on after another host is lost, and which host keeps copies of its files.

use std::collections::BTreeSet;

/// Number of a host in the order in which the driver named them.
pub type HostIndex = usize;

/// For each rank its host, when the ranks of a lost host move to another one. That is a host
/// without ranks, or the one with the fewest. `usable` are the remaining hosts. `None`: there is no
/// other.
#[must_use]
pub fn without(
    host: HostIndex,
    placement: &[HostIndex],
    usable: impl Iterator<Item = HostIndex>,
) -> Option<Vec<HostIndex>> {
    let ranks_on = |host: HostIndex| placement.iter().filter(|h| **h == host).count();
    let others = usable.filter(|&other| other != host);
    let next = others.min_by_key(|&other| ranks_on(other))?;
    let moved = placement.iter().map(|&h| if h == host { next } else { h });
    Some(moved.collect())
}

/// The host that keeps copies of the image files of another: the next one that has ranks. `None`:
/// there is no other. `placement`: for each rank its host.
#[must_use]
pub fn partner(host: HostIndex, placement: &[HostIndex]) -> Option<HostIndex> {
    partner_among(host, &placement.iter().copied().collect())
}

fn partner_among(host: HostIndex, used: &BTreeSet<HostIndex>) -> Option<HostIndex> {
    let next = used.range(host + 1..).next().or(used.first())?;
    Some(*next).filter(|next| *next != host)
}

/// The partner of each of so many hosts.
pub(super) fn partners(hosts: usize, placement: &[HostIndex]) -> Vec<Option<HostIndex>> {
    let used = placement.iter().copied().collect();
    (0..hosts).map(|host| partner_among(host, &used)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partners_of_hosts_with_ranks_form_a_ring() {
        assert_eq!(
            partners(4, &[0, 0, 2, 3])[..],
            [Some(2), Some(2), Some(3), Some(0)]
        );
        assert_eq!(partner(1, &[1, 1]), None);
    }

    #[test]
    fn a_lost_hosts_ranks_go_to_a_spare_then_to_the_least_loaded() {
        let first = without(0, &[0, 0, 0, 1], 0..3);
        assert_eq!(first, Some(vec![2, 2, 2, 1]));
        assert_eq!(without(2, &[2, 2, 2, 1], 1..3), Some(vec![1; 4]));
        assert_eq!(without(1, &[1; 4], 1..2), None);
    }
}
