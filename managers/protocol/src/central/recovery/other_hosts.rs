//! The job loses a host and continues on the others.
//!
//! The driver is asked whether nothing of the lost host is missing that the job needs: its output
//! before the newest checkpoint on partner hosts, and the files themselves. Then the mode plans
//! who comes back where: all ranks, or the groups with ranks on lost hosts. Without such a
//! checkpoint, all ranks start anew with registered memory, if the program has stored any, or
//! the loss ends the job.

use crate::central::checkpoint_handler::CheckpointHandler;
use crate::central::ending::EndHandler;
use crate::central::event::Event;
use crate::central::host_table::Silence;
use crate::central::interface::{CentralEffect, HostIndex, RankPlacement, StoredState};
use crate::central::job_parts::JobParts;
use crate::central::moves::MoveHandler;
use crate::central::phase::CentralPhase;
use crate::central::placement::{self, UsableHost};
use crate::central::recovery::FailureHandler;
use crate::central::returns::{
    LostPlaces, OrderHandler, ReplacedHost, ReturnHandler, ReturnPlan, Returning,
};
use crate::manager_messages::MovedRank;
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeSet;

/// Decides how the job continues without lost hosts.
pub(in crate::central) struct HostLossHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> HostLossHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        HostLossHandler { job: job.all() }
    }
}

impl HostLossHandler<'_> {
    /// A host is lost, with everything that ran there.
    pub(in crate::central) fn host_gone(&mut self, host: HostIndex, why: String) {
        let Some(name) = self.job.cluster.hosts.lose(host, &why) else {
            return;
        };
        OrderHandler::of(&mut self.job).hold_departed(host);
        if !self.job.cluster.ranks.is_any_on(host) && self.job.course.end.verdict().is_none() {
            self.empty_host_gone(host, why);
            return OrderHandler::of(&mut self.job).release_orders();
        }
        let begins_anew = self.may_begin_without(host);
        let goes_on = begins_anew || self.may_continue();
        if !goes_on || !self.job.cluster.hosts.is_remote(host) {
            return self.ends_without(name, why);
        }
        self.job.returns.lost_hosts.add(host, why);
        match begins_anew {
            true => self.begin_anew(),
            false => self.request_states(),
        }
    }

    fn request_states(&mut self) {
        self.job.out.push(CentralEffect::RequestStored {
            regions: self.job.commits.regions.epochs(),
        });
    }

    /// A host is lost before there is any checkpoint: the job begins anew on the others if it would
    /// do so for a rank, or ends.
    fn begin_anew(&mut self) {
        let now = self.job.out.now;
        let placement = self.placement_on_others(None);
        match placement.filter(|_| self.job.commits.mode.admits(now)) {
            Some(placement) => self.return_without_hosts(None, placement),
            None => self.give_up_lost_hosts(),
        }
    }

    /// Nothing but `MPI_Init` is lost if the job begins anew without this host. A host that has
    /// never begun is a mistake of the user's.
    fn may_begin_without(&self, host: HostIndex) -> bool {
        let ends =
            self.job.course.end.verdict().is_some() || self.job.course.end.interrupted().is_some();
        let takes_in = self.job.terms.takes_in();
        let has_begun =
            self.job.cluster.ranks.is_any_started_on(host) && !self.job.cluster.ranks.has_absent();
        let Some(checkpoints) = self
            .job
            .commits
            .checkpoints()
            .filter(|_| takes_in && has_begun)
        else {
            return false;
        };
        let is_early = match &self.job.course.phase {
            CentralPhase::Starting => true,
            CentralPhase::Restoring(restoring) => restoring.epoch.is_none(),
            CentralPhase::Running => checkpoints.pending().is_some(),
            CentralPhase::Resuming(_)
            | CentralPhase::Finalizing
            | CentralPhase::Finalized
            | CentralPhase::Ending
            | CentralPhase::Over => false,
        };
        let has_state = checkpoints.committed().is_some()
            || self.job.commits.groups.oldest_commit().is_some()
            || self.job.commits.regions.epochs().newest.is_some();
        is_early && !has_state && !ends
    }

    /// A host without ranks is lost. It may have images of ranks that have moved away.
    fn empty_host_gone(&mut self, host: HostIndex, why: String) {
        MoveHandler::of(&mut self.job).end_moves_of_host(host);
        self.job.returns.losses.forget_exits_on(host);
        self.job.returns.report_losses(self.job.out);
        self.job.out.event(Event::EmptyHostLost {
            name: self.job.cluster.hosts.name(host),
            why,
        });
        let outlives = self.epoch_without_hosts();
        let checkpoints = self.job.commits.checkpoints();
        let counted = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        for epoch in counted.newest_first() {
            let ranks = self.job.cluster.former_hosts.ranks_at(host, epoch);
            if Some(epoch) == outlives && !ranks.is_empty() {
                // Until there is a newer one, a rollback needs files elsewhere.
                CheckpointHandler::of(&mut self.job).on_checkpoint_request();
                continue;
            }
            for rank in ranks {
                CheckpointHandler::of(&mut self.job).image_lost(rank, epoch, None);
            }
        }
    }

    /// The job can continue on other hosts, if the driver has a state for that.
    fn may_continue(&self) -> bool {
        let runs = matches!(
            self.job.course.phase,
            CentralPhase::Starting
                | CentralPhase::Running
                | CentralPhase::Restoring(_)
                | CentralPhase::Finalizing
                | CentralPhase::Resuming(_)
        );
        let ends =
            self.job.course.end.verdict().is_some() || self.job.course.end.interrupted().is_some();
        runs && !ends && self.job.terms.failover.is_some() && self.job.commits.mode.recovers()
    }

    /// Whether the program gives a right answer from there.
    fn may_continue_from(&self, state: StoredState) -> bool {
        match state {
            StoredState::Regions(_) => self.may_continue(),
            // What ranks log is there if other hosts can take them in.
            StoredState::Images(epoch) => {
                let takes_in = self.job.terms.takes_in() && self.may_continue();
                takes_in && self.job.commits.mode.outlived(epoch).is_none()
            }
        }
    }

    /// The checkpoint to which the job can roll back on other hosts, if the driver has the output
    /// before it and the files are there.
    fn epoch_without_hosts(&self) -> Option<Epoch> {
        let epoch = self.job.commits.checkpoints()?.outlives_hosts()?;
        let is_right = self.may_continue_from(StoredState::Images(epoch));
        is_right.then_some(epoch)
    }

    /// The driver says from which stored states the job can continue without a host.
    pub(in crate::central) fn on_stored_states(&mut self, states: &[StoredState]) {
        let asked = self.job.returns.lost_hosts.hosts().len();
        self.drop_silent(states);
        if asked > 0 && self.job.returns.lost_hosts.hosts().len() == asked {
            self.continue_without_hosts(states);
        }
    }

    fn continue_without_hosts(&mut self, states: &[StoredState]) {
        if let Some(epoch) = self.epoch_without_hosts() {
            let older = |state: &StoredState| matches!(state, StoredState::Images(e) if *e < epoch);
            if states.contains(&StoredState::Images(epoch)) {
                if let Some(placement) = self.placement_on_others(Some(epoch)) {
                    return self.return_without_hosts(Some(epoch), placement);
                }
            } else if states.iter().any(older) {
                // Newer files were committed after the question.
                return self.request_states();
            }
        }
        let regions = states.iter().find_map(|state| match state {
            StoredState::Regions(epoch) => Some(*epoch),
            StoredState::Images(_) => None,
        });
        match regions.filter(|_| self.may_continue()) {
            Some(epoch) => self.start_with_regions(epoch),
            None => self.give_up_lost_hosts(),
        }
    }

    /// All ranks start anew on other hosts, with the registered memory of this checkpoint.
    fn start_with_regions(&mut self, epoch: Epoch) {
        let now = self.job.out.now;
        let placement = self.placement_on_others(None);
        match placement.filter(|_| self.job.commits.mode.admits(now)) {
            Some(placement) => {
                let last = self.job.commits.last_number();
                self.job.commits.regions.start_from(Some(epoch), last);
                self.return_without_hosts(None, placement);
            }
            None => self.give_up_lost_hosts(),
        }
    }

    /// The loss of hosts is the end of the job.
    fn give_up_lost_hosts(&mut self) {
        let lost = self.job.returns.lost_hosts.take_hosts().into_iter().next();
        if let Some((host, why)) = lost {
            self.ends_without(self.job.cluster.hosts.name(host), why);
        }
    }

    /// The job ends without a host. If it is ending for a signal, that is why.
    fn ends_without(&mut self, host: String, why: String) {
        let signal = self.job.course.end.interrupted();
        let verdict = match signal.filter(|_| self.job.terms.failover.is_some()) {
            Some(signal) => Verdict::Interrupted { signal },
            None => Verdict::HostLost { host, why },
        };
        EndHandler::of(&mut self.job).decide(verdict);
    }

    /// Where all ranks can run without the hosts that are lost, if they come back from this
    /// checkpoint; `None`: from the start.
    fn placement_on_others(&self, from: Option<Epoch>) -> Option<RankPlacement> {
        let before = self
            .job
            .terms
            .failover
            .iter()
            .flat_map(|failover| &failover.lost);
        let before: Vec<HostIndex> = before.copied().collect();
        let former = self.job.cluster.ranks.placement();
        let former = from.map_or(former.clone(), |epoch| {
            self.job.cluster.former_hosts.placement_at(epoch, &former)
        });
        let groups = self.job.cluster.copy_groups_of(&former);
        let mut hosts = former.clone();
        // Also those without ranks now, which ranks have left since.
        for lost in self.job.cluster.hosts.lost() {
            let counts = placement::counts(&hosts);
            let ranks = counts.get(lost).copied().unwrap_or(0);
            let usable = self.job.cluster.hosts.usable();
            let usable = usable.filter(|one| !before.contains(&one.host));
            let usable: Vec<UsableHost> = usable.collect();
            let usable = placement::preferred(&usable, &counts, ranks).into_iter();
            hosts = placement::without(lost, &hosts, usable.map(|one| one.host))?;
        }
        let ranks = (0u32..).map(Rank).zip(former.iter().zip(&hosts));
        let moved = ranks.filter(|(_, (former, now))| former != now);
        let lost = |host: &HostIndex| self.job.cluster.hosts.is_lost(*host);
        let moved = moved.map(|(rank, _)| groups.moved(rank, lost));
        let mut moved: Vec<MovedRank> = moved.collect();
        let earlier = self
            .job
            .cluster
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        for earlier in earlier {
            if moved.iter().all(|one| one.rank != earlier.rank) {
                moved.push(earlier.clone());
            }
        }
        for (rank, present) in (0u32..).map(Rank).zip(self.job.cluster.ranks.placement()) {
            let is_known = || moved.iter().any(|one| one.rank == rank);
            if self.job.cluster.hosts.is_lost(present) && !is_known() {
                // Its file is at home. It waits for the end of the lost host's lease as others do.
                moved.push(MovedRank {
                    rank,
                    holder: None,
                    others: Vec::new(),
                });
            }
        }
        moved.sort();
        Some(RankPlacement {
            hosts,
            lost: self.job.cluster.hosts.lost().collect(),
            moved,
            from,
        })
    }

    /// Ranks come back from this checkpoint, those of lost hosts on others. `placement`: where
    /// ranks are if all of them come back.
    fn return_without_hosts(&mut self, from: Option<Epoch>, placement: RankPlacement) {
        let runs = matches!(
            self.job.course.phase,
            CentralPhase::Running | CentralPhase::Finalizing
        );
        let present = self.job.cluster.ranks.placement();
        let of_groups = from.filter(|_| runs && self.job.commits.mode.logs_messages());
        let (who, placement) = if let Some(epoch) = of_groups {
            let members = self.members_of_lost(epoch);
            let placement = self.placement_of_groups(&members, placement);
            (Returning::Groups(members.into_iter().collect()), placement)
        } else {
            (Returning::All, placement)
        };
        let lost = self.job.returns.lost_hosts.take_hosts().into_iter();
        let replaced = |(host, why)| {
            let rank = present.iter().position(|present| *present == host);
            let successor = rank.map_or(host, |rank| placement.hosts[rank]);
            ReplacedHost {
                host,
                why,
                successor,
            }
        };
        let hosts = lost.map(replaced).collect();
        let lost = Some(LostPlaces { hosts, placement });
        FailureHandler::of(&mut self.job).begin_rollback();
        ReturnHandler::of(&mut self.job).begin_return(ReturnPlan { who, from, lost });
    }

    /// The ranks that come back from this checkpoint: of the groups that have ranks on lost hosts,
    /// and of those that may lack messages for these.
    fn members_of_lost(&self, epoch: Epoch) -> BTreeSet<Rank> {
        let lost = self.job.returns.lost_hosts.hosts();
        let is_lost = |rank: &Rank| {
            let host = self.job.cluster.ranks.host_of(*rank);
            lost.iter().any(|(lost, _)| *lost == host)
        };
        let all = (0..self.job.cluster.ranks.count()).map(Rank);
        let others = self.job.returns.lost_hosts.returning().iter().copied();
        let ranks = all.filter(is_lost).chain(others);
        let members = ranks.flat_map(|rank| self.job.commits.groups.members(rank));
        members
            .copied()
            .chain(self.job.commits.returning_beside(epoch, self.job.terms))
            .collect()
    }

    /// Where ranks are if only these come back. `all`: where they were if all did so.
    fn placement_of_groups(&self, returning: &BTreeSet<Rank>, all: RankPlacement) -> RankPlacement {
        let present = self.job.cluster.ranks.placement();
        let mut placement = all;
        for (rank, host) in (0u32..).map(Rank).zip(&present) {
            if !returning.contains(&rank) {
                placement.hosts[rank.index()] = *host;
            }
        }
        placement.moved.retain(|one| returning.contains(&one.rank));
        let earlier = self
            .job
            .cluster
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        let stands = |one: &&MovedRank| !returning.contains(&one.rank);
        placement
            .moved
            .extend(earlier.iter().filter(stands).cloned());
        placement.moved.sort();
        placement
    }

    /// Hosts have fallen silent, or one has been for too long.
    pub(in crate::central) fn silence(&mut self, silence: Silence) {
        if let Some(host) = silence.lost {
            let why = "it has been silent for too long (--host-patience)".to_string();
            self.job.out.push(CentralEffect::Drop(host));
            self.host_gone(host, why);
        } else if silence.begins && self.job.terms.failover.is_some() {
            self.request_states();
        }
    }

    /// The job can continue without a lost host, so central does not wait for a silent one. It
    /// waits for the last one that could take ranks: that may be cut off for a moment.
    pub(in crate::central) fn drop_silent(&mut self, states: &[StoredState]) {
        if let Some(host) = self.job.cluster.hosts.silent()
            && self.job.cluster.hosts.usable().any(|other| {
                let lost = self.job.terms.failover.iter().flat_map(|f| &f.lost);
                let is_silent = self.job.cluster.hosts.is_silent(other.host);
                other.host != host && !is_silent && !lost.into_iter().any(|l| *l == other.host)
            })
            && states.iter().any(|state| self.may_continue_from(*state))
        {
            self.job.out.push(CentralEffect::Drop(host));
            self.host_gone(host, "it is silent".to_string());
        }
    }
}
