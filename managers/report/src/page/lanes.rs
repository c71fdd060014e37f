//! The lanes of a timeline: one for each rank, or, for many ranks, one for each host or for a block
//! of consecutive ranks.

use crate::history::{JobHistory, RankRun};
use std::collections::BTreeMap;

/// Ranks up to which each has a lane.
const MOST_RANKS: u64 = 32;
/// Lanes that stand for several ranks.
const MOST_GROUPS: u64 = 48;

/// How ranks belong to lanes.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// By their number.
    Ranks,
    /// By their host: the lane of each.
    Hosts(BTreeMap<String, usize>),
    /// So many consecutive ranks to a lane.
    Blocks(u64),
}

/// The lanes of a job.
#[derive(Debug)]
pub struct Lanes<'a> {
    kind: Kind,
    labels: Vec<String>,
    placement: &'a [RankRun],
    note: String,
}

impl<'a> Lanes<'a> {
    /// The lanes for this job.
    pub fn of(job: &'a JobHistory) -> Lanes<'a> {
        let (ranks, is_known) = number_of_ranks(job);
        let mut hosts: Vec<(&str, u64)> = Vec::new();
        let mut places = BTreeMap::new();
        for run in &job.placement {
            let place = *places.entry(run.host.clone()).or_insert(hosts.len());
            if place == hosts.len() {
                hosts.push((&run.host, 0));
            }
            hosts[place].1 += u64::from(run.last.saturating_sub(run.first)) + 1;
        }
        let (kind, labels, mut note) = if ranks <= MOST_RANKS {
            let labels = (0..ranks).map(|rank| format!("rank {rank}")).collect();
            (Kind::Ranks, labels, "A lane is a rank.".to_owned())
        } else if (2..=MOST_GROUPS).contains(&(hosts.len() as u64)) {
            let labels = hosts.iter().map(|(host, _)| (*host).to_owned());
            let note = format!("A lane is a host with all its ranks, {ranks} in all.");
            (Kind::Hosts(places), labels.collect(), note)
        } else {
            let size = ranks.div_ceil(MOST_GROUPS);
            let firsts = (0..ranks).step_by(size as usize);
            let labels = firsts.map(|first| {
                let last = (first + size).min(ranks) - 1;
                format!("ranks {first}–{last}")
            });
            let note = format!("A lane is a block of {size} ranks, {ranks} in all.");
            (Kind::Blocks(size), labels.collect(), note)
        };
        if !is_known {
            note +=
                " No event says how many ranks the job has: ranks without an event are missing.";
        }
        Lanes {
            kind,
            labels,
            placement: &job.placement,
            note,
        }
    }

    /// The names of the lanes, from the top.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// What a lane is, in words.
    pub fn note(&self) -> &str {
        &self.note
    }

    /// The lane of a rank, which is on this host if that is known.
    pub fn of_rank(&self, rank: u32, host: Option<&str>) -> Option<usize> {
        let lane = match &self.kind {
            Kind::Ranks => rank as usize,
            Kind::Blocks(size) => (u64::from(rank) / size) as usize,
            Kind::Hosts(places) => {
                let host = host.and_then(|host| places.get(host));
                *host.or_else(|| places.get(self.host_of(rank)?))?
            }
        };
        (lane < self.labels.len()).then_some(lane)
    }

    /// The lanes of a host's ranks. In a lane of several hosts, the others count, too.
    pub fn of_host(&self, host: &str) -> Vec<usize> {
        if let Kind::Hosts(places) = &self.kind {
            return places.get(host).copied().into_iter().collect();
        }
        let runs = self.placement.iter().filter(|run| run.host == host);
        let mut lanes: Vec<usize> = runs
            .filter_map(|run| {
                let first = self.of_rank(run.first, None)?;
                let last = self.of_rank(run.last, None);
                Some(first..=last.unwrap_or(self.labels.len() - 1))
            })
            .flatten()
            .collect();
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    fn host_of(&self, rank: u32) -> Option<&str> {
        let after = self.placement.partition_point(|run| run.first <= rank);
        let run = self.placement.get(after.checked_sub(1)?)?;
        (rank <= run.last).then_some(run.host.as_str())
    }
}

/// How many ranks the job has, and whether an event says so.
fn number_of_ranks(job: &JobHistory) -> (u64, bool) {
    if let Some(ranks) = job.ranks {
        return (u64::from(ranks), true);
    }
    let failed = job.failures.iter().map(|failure| failure.rank);
    let slowest = job.checkpoints.iter().filter_map(|c| c.rank);
    let last = failed.chain(slowest).max();
    (last.map_or(0, |last| u64::from(last) + 1), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(ranks: u32, hosts: u32) -> JobHistory {
        let each = ranks.div_ceil(hosts);
        let run = |host: u32| RankRun {
            first: host * each,
            last: ((host + 1) * each).min(ranks) - 1,
            host: format!("h{host}"),
        };
        let mut job = JobHistory::default();
        job.ranks = Some(ranks);
        job.placement = (0..hosts).map(run).collect();
        job
    }

    #[test]
    fn lanes_are_ranks_then_hosts_then_blocks_of_ranks() {
        let few = job(32, 2);
        let lanes = Lanes::of(&few);
        assert_eq!(lanes.labels().len(), 32);
        assert_eq!(lanes.of_rank(31, None), Some(31));
        assert_eq!(lanes.of_rank(32, None), None);
        assert_eq!(lanes.of_host("h1"), (16..32).collect::<Vec<_>>());
        let many = job(10_000, 40);
        let lanes = Lanes::of(&many);
        assert_eq!(lanes.labels().len(), 40);
        assert_eq!(lanes.of_rank(9_999, None), Some(39));
        // Where it was when it failed, before it came back elsewhere.
        assert_eq!(lanes.of_rank(9_999, Some("h3")), Some(3));
        assert_eq!(lanes.of_host("h7"), [7]);
        assert!(lanes.note().contains("10000 in all"), "{}", lanes.note());
        for hosts in [1, 49] {
            let many = job(10_000, hosts);
            let lanes = Lanes::of(&many);
            assert_eq!(lanes.labels().len(), 48, "{hosts} hosts");
            assert_eq!(lanes.labels()[47], "ranks 9823–9999");
            assert_eq!(lanes.of_rank(9_999, None), Some(47));
            let last = format!("h{}", hosts - 1);
            assert!(lanes.of_host(&last).contains(&47));
            assert!(lanes.note().contains("209 ranks"), "{}", lanes.note());
        }
    }

    #[test]
    fn a_file_may_claim_any_number_of_ranks() {
        let mut most = job(1, 1);
        most.ranks = Some(u32::MAX);
        let lanes = Lanes::of(&most);
        assert!(lanes.labels().len() <= 48);
        assert!(lanes.of_rank(u32::MAX, None).is_none_or(|lane| lane < 48));
        most.ranks = Some(0);
        assert_eq!(Lanes::of(&most).labels().len(), 0);
        most.ranks = None;
        let lanes = Lanes::of(&most);
        assert!(lanes.note().contains("No event says"), "{}", lanes.note());
        assert!(lanes.of_host("h0").is_empty());
    }
}
