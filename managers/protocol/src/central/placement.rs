//! Which host a rank runs on after another host is lost.

/// Number of a host in the order in which the driver named them.
pub type HostIndex = usize;

/// A host that can have ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsableHost {
    /// Number of the host.
    pub host: HostIndex,
    /// How many ranks it takes before others get more.
    pub slots: usize,
    /// The host gets ranks only if no other host has room.
    pub is_suspect: bool,
}

/// The hosts among these that may get so many ranks: without suspect ones, if another one has room.
/// `counts`: the number of ranks of each host.
#[must_use]
pub fn preferred(hosts: &[UsableHost], counts: &[usize], ranks: usize) -> Vec<UsableHost> {
    let count = |host: HostIndex| counts.get(host).copied().unwrap_or(0);
    let has_room = |one: &UsableHost| count(one.host).saturating_add(ranks) <= one.slots;
    let is_room = hosts.iter().any(|one| !one.is_suspect && has_room(one));
    let hosts = hosts.iter().filter(|one| !(is_room && one.is_suspect));
    hosts.copied().collect()
}

/// How many ranks each host has.
#[must_use]
pub fn counts(placement: &[HostIndex]) -> Vec<usize> {
    let mut counts = vec![0; placement.iter().max().map_or(0, |last| last + 1)];
    placement.iter().for_each(|host| counts[*host] += 1);
    counts
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suspect_host_gets_ranks_only_if_no_other_has_room() {
        let host = |host, slots, is_suspect| UsableHost {
            host,
            slots,
            is_suspect,
        };
        let hosts = [host(0, 2, false), host(1, 4, true)];
        let chosen = |placement: &[HostIndex], ranks| {
            let chosen = preferred(&hosts, &counts(placement), ranks).into_iter();
            chosen.map(|one| one.host).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[0, 1], 1), [0]);
        assert_eq!(chosen(&[0, 1], 2), [0, 1]);
        assert_eq!(chosen(&[0, 0], 1), [0, 1]);
    }

    #[test]
    fn a_lost_hosts_ranks_go_to_a_spare_then_to_the_least_loaded() {
        let first = without(0, &[0, 0, 0, 1], 0..3);
        assert_eq!(first, Some(vec![2, 2, 2, 1]));
        assert_eq!(without(2, &[2, 2, 2, 1], 1..3), Some(vec![1; 4]));
        assert_eq!(without(1, &[1; 4], 1..2), None);
    }
}
