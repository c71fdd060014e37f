//! Which ranks can move now, and to which hosts.

use super::move_request::{MovePlan, MoveRequest, Movers};
use super::move_table::MoveTable;
use super::rank_progress::RankMove;
use crate::central::cluster::Cluster;
use crate::central::commits::Commits;
use crate::central::interface::HostIndex;
use crate::central::job_course::JobCourse;
use crate::central::job_terms::JobTerms;
use crate::central::phase::CentralPhase;
use crate::central::placement::UsableHost;
use crate::central::return_state::ReturnState;

/// Looks at the state of the job, and answers what can move.
pub(in crate::central) struct MoveRules<'a> {
    pub(in crate::central) course: &'a JobCourse,
    pub(in crate::central) cluster: &'a Cluster,
    pub(in crate::central) commits: &'a Commits,
    pub(in crate::central) returns: &'a ReturnState,
    pub(in crate::central) moves: &'a MoveTable,
    pub(in crate::central) terms: &'a JobTerms,
}

impl MoveRules<'_> {
    /// Why no rank can move in this job from now on.
    pub(in crate::central) fn refuses_moves(&self) -> Option<&'static str> {
        let ends = self.course.end.verdict().is_some() || self.course.end.interrupted().is_some();
        match self.course.phase {
            _ if !self.commits.mode.recovers() => Some("the job runs with --recovery none"),
            _ if self.refuses_logs() => Some(
                "where messages are logged, ranks move only if determinants outlive hosts \
                 (--stable node)",
            ),
            _ if ends || self.course.stop.is_some() => Some("the job is ending"),
            CentralPhase::Finalizing | CentralPhase::Finalized => {
                Some("all ranks are in MPI_Finalize")
            }
            CentralPhase::Ending | CentralPhase::Over => Some("the job is ending"),
            _ => None,
        }
    }

    /// Ranks have logs, which do not go with them to other hosts.
    pub(in crate::central) fn refuses_logs(&self) -> bool {
        let go_along = self.terms.takes_in();
        self.commits.mode.logs_messages() && !go_along
    }

    /// Whether the next request can be carried out now. A host that is about to end has no time to
    /// wait for files: before its ranks stop, they wait for them as all do.
    pub(in crate::central) fn can_begin_moves(&self) -> bool {
        let is_urgent = self.moves.next_urgent().is_some();
        let is_quiet = self.commits.checkpoints().is_some_and(|checkpoints| {
            checkpoints.is_quiet() || (is_urgent && checkpoints.pending().is_none())
        });
        let is_away = self.commits.mode.logs_messages() && self.cluster.ranks.is_any_away();
        self.course.phase == CentralPhase::Running
            && !self.returns.decides_on_loss(&self.course.phase)
            && is_quiet
            && !is_away
    }

    /// The hosts that ranks can move to now.
    pub(in crate::central) fn usable_hosts(&self) -> Vec<UsableHost> {
        let mut usable = self.possible_hosts();
        usable.retain(|one| self.cluster.hosts.takes_in(one.host));
        usable
    }

    /// The hosts that ranks can move to now, and hosts that may take ranks in again: silent ones,
    /// and those that their ranks are to leave.
    pub(in crate::central) fn possible_hosts(&self) -> Vec<UsableHost> {
        let before = self
            .terms
            .failover
            .iter()
            .flat_map(|failover| &failover.lost);
        let before: Vec<HostIndex> = before.copied().collect();
        let usable = self.cluster.hosts.usable();
        let usable = usable.filter(|one| !before.contains(&one.host));
        let takes_in = self.terms.takes_in();
        // One look at the ranks: with many hosts, one for each takes minutes.
        let has_ranks = self
            .cluster
            .ranks
            .hosts_with_ranks(self.cluster.hosts.len());
        let has_link = |one: &UsableHost| {
            takes_in || self.cluster.departures.has_visited(one.host) || has_ranks[one.host]
        };
        usable.filter(has_link).collect()
    }

    /// The moves of a request. With them why other ranks stay, if it names hosts: these have others
    /// that can move.
    pub(in crate::central::moves) fn planned(
        &self,
        request: &MoveRequest,
    ) -> Result<MovePlan, String> {
        let checkpoints = self.commits.checkpoints();
        if checkpoints.is_none_or(|c| c.committed().is_none()) {
            return Err("the job has no checkpoint that it could roll back to".into());
        }
        let (placement, usable) = (self.cluster.ranks.placement(), self.usable_hosts());
        let spreads = matches!(request.movers, Movers::Balance | Movers::Exchange(..));
        if let Some(host) = self.cluster.hosts.silent().filter(|_| spreads) {
            return Err(format!("host {} is silent", self.cluster.hosts.name(host)));
        }
        let before = self.moves.plan_of(request.id);
        let targets = match before {
            Some(before) => request.plan_again(before, &placement, &usable)?,
            None => request.plan(&placement, &usable)?,
        };
        let there = before.map(|before| before.there(&placement));
        let mut plan = MovePlan {
            there: there.unwrap_or_default(),
            ..MovePlan::default()
        };
        let names_ranks = matches!(request.movers, Movers::Ranks(_) | Movers::Exchange(..));
        for (rank, to) in targets {
            if !self.cluster.ranks.is_computing(rank) {
                let why = format!("rank {} is in MPI_Finalize, or has ended", rank.0);
                if names_ranks {
                    return Err(why);
                }
                plan.others_stay.get_or_insert(why);
                continue;
            }
            plan.moves.push(RankMove {
                rank,
                from: self.cluster.ranks.host_of(rank),
                to,
                incarnation: self.cluster.ranks.next_incarnation(rank),
            });
        }
        Ok(plan)
    }

    /// Why a host can't be drained now.
    pub(in crate::central) fn refuses_drain(&self, host: HostIndex) -> Option<String> {
        if let Some(refusal) = self.refuses_moves() {
            return Some(refusal.to_owned());
        }
        if !self.cluster.ranks.is_any_on(host) {
            return None;
        }
        let mut others = self.possible_hosts();
        others.retain(|other| other.host != host);
        if others.is_empty() {
            return Some("there is no other host".into());
        }
        let waits = !others
            .iter()
            .any(|other| self.cluster.hosts.takes_in(other.host));
        waits.then(|| "no other host takes ranks in now".into())
    }

    /// A host has ranks, and no other one can take them in.
    pub(in crate::central) fn has_nowhere_to_go(&self, host: HostIndex) -> bool {
        let mut others = self.possible_hosts().into_iter();
        self.cluster.ranks.is_any_on(host) && !others.any(|other| other.host != host)
    }
}
