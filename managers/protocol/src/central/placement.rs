//! Which host a rank runs on after another host is lost.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_hosts_ranks_go_to_a_spare_then_to_the_least_loaded() {
        let first = without(0, &[0, 0, 0, 1], 0..3);
        assert_eq!(first, Some(vec![2, 2, 2, 1]));
        assert_eq!(without(2, &[2, 2, 2, 1], 1..3), Some(vec![1; 4]));
        assert_eq!(without(1, &[1; 4], 1..2), None);
    }
}
