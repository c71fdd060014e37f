//! Whether and where the job can be launched again.

use crate::central::cluster::Cluster;
use crate::central::commits::Commits;
use crate::central::interface::{Failover, HostIndex, StoredState};
use crate::central::job_course::JobCourse;
use crate::central::job_parts::JobParts;
use crate::central::job_terms::JobTerms;
use crate::central::placement;
use crate::verdict::Verdict;

/// Looks at the state of the job, and answers how a next launch could continue it.
pub(in crate::central) struct LaunchRules<'a> {
    pub(in crate::central) course: &'a JobCourse,
    pub(in crate::central) cluster: &'a Cluster,
    pub(in crate::central) commits: &'a Commits,
    pub(in crate::central) terms: &'a JobTerms,
}

impl<'a> LaunchRules<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        LaunchRules {
            course: job.course,
            cluster: job.cluster,
            commits: job.commits,
            terms: job.terms,
        }
    }
}

impl LaunchRules<'_> {
    /// The job may be launched again from files of images that hosts have for themselves.
    pub(in crate::central) fn may_need_files(&self) -> bool {
        self.placement_without_lost().is_some()
    }

    /// The host by whose loss the job ended, and where its ranks can run.
    pub(in crate::central) fn placement_without_lost(&self) -> Option<(HostIndex, Vec<HostIndex>)> {
        let Some(Verdict::HostLost { host: name, .. }) = self.course.end.verdict() else {
            return None;
        };
        let Failover { lost: before, .. } = self.terms.failover.as_ref()?;
        let host = self.cluster.hosts.position(name)?;
        let placement = self.cluster.ranks.placement();
        let replaced = self
            .cluster
            .placement()
            .map_or(&[][..], |placement| &placement.lost[..]);
        let is_lost = |other: &HostIndex| before.contains(other) || replaced.contains(other);
        let others =
            (0..self.cluster.hosts.len()).filter(|other| *other != host && !is_lost(other));
        // One that was drained is better than none, and one that was lost beside this one may be
        // reached again by then.
        let flaws = |other: HostIndex| {
            (
                self.cluster.hosts.is_lost(other),
                self.cluster.hosts.drains(other),
            )
        };
        let least = others.clone().map(flaws).min()?;
        let best = others.filter(|other| flaws(*other) == least);
        let next = placement::without(host, &placement, best);
        Some((host, next?))
    }

    /// Whether the program gives a right answer from there.
    pub(in crate::central) fn may_continue(&self, state: StoredState) -> bool {
        match state {
            StoredState::Regions(_) => true,
            StoredState::Images(epoch) => {
                // What ranks log is there if other hosts can take them in.
                let takes_in = self.terms.takes_in();
                let has_logs = takes_in || !self.commits.mode.logs_messages();
                has_logs && self.commits.mode.outlived(epoch).is_none()
            }
        }
    }
}
