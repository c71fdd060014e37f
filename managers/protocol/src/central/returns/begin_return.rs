//! Ranks get new incarnations and their places, and the journal gets the record of that.

use super::return_plan::{LostPlaces, ReturnPlan, Returning};
use crate::central::checkpoint_handler::CheckpointHandler;
use crate::central::ending::EndHandler;
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record, Return};
use crate::central::job_parts::JobParts;
use crate::central::phase::CentralPhase;
use crate::central::recovery::{GlobalRestore, GroupCommitHandler};
use crate::central::recovery_groups::GroupCheckpoint;
use crate::central::returns::OrderHandler;
use crate::manager_messages::{RankMoveOrder, Time, ToLocal};
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Incarnation, Rank};

/// Lets ranks come back: the record, the orders, and their start.
pub(in crate::central) struct ReturnHandler<'a> {
    /// All parts: what it does can touch each of them.
    pub(in crate::central) job: JobParts<'a>,
}

impl<'a> ReturnHandler<'a> {
    /// The handler of a step.
    pub(in crate::central) fn of(job: &'a mut JobParts<'_>) -> Self {
        ReturnHandler { job: job.all() }
    }
}

impl ReturnHandler<'_> {
    /// Ranks come back as planned: the record comes first, and the orders last.
    pub(in crate::central) fn begin_return(&mut self, plan: ReturnPlan) {
        let ReturnPlan { who, from, lost } = plan;
        let ranks = who.ranks(self.job.cluster.ranks.count());
        if lost.is_none()
            && let Some(lost) = from.and_then(|epoch| self.lost_former_host(&ranks, epoch))
        {
            return self.without_former_host(lost, &who, &ranks);
        }
        if let (Returning::Groups(members), Some(epoch)) = (&who, from) {
            self.commit_return(members, epoch, lost.as_ref());
        }
        let placed = match &lost {
            Some(lost) => self.place_without_lost(&ranks, lost),
            None => self.place_at_images(&ranks, from),
        };
        self.job
            .cluster
            .former_hosts
            .roll_back(&ranks, from.unwrap_or_default());
        let abandoned = self.renew(&who, from);
        let ranks = self.store_return(&who, from);
        if who == Returning::All {
            self.store_commits(from);
        }
        self.job.out.effects.extend(placed);
        OrderHandler::of(&mut self.job).order_return(from, &ranks);
        if let Some(abandoned) = abandoned {
            CheckpointHandler::of(&mut self.job).notify_committed(abandoned);
        }
        if let Some(lost) = lost {
            self.report_replaced(&lost, from);
        }
    }

    /// A rollback of these ranks to this checkpoint needs the image of one that has moved since,
    /// and its host of that time is lost. Returns the host and the rank.
    fn lost_former_host(&self, ranks: &[Rank], epoch: Epoch) -> Option<(HostIndex, Rank)> {
        let at = |rank: &Rank| Some((*rank, self.job.cluster.former_hosts.at(*rank, epoch)?));
        let mut former = ranks.iter().filter_map(at);
        let (rank, host) = former.find(|(_, host)| self.job.cluster.hosts.is_lost(*host))?;
        Some((host, rank))
    }

    /// The host of an image is lost: the ranks come back as for a host that is lost now, from files
    /// elsewhere.
    fn without_former_host(
        &mut self,
        (host, rank): (HostIndex, Rank),
        who: &Returning,
        ranks: &[Rank],
    ) {
        let why = format!("it had the image of rank {}, which had moved", rank.0);
        if let Returning::Finalized(_) = who {
            let host = self.job.cluster.hosts.name(host);
            return EndHandler::of(&mut self.job).decide(Verdict::HostLost { host, why });
        }
        self.job.returns.lost_hosts.add_returning(host, why, ranks);
        self.job.out.push(CentralEffect::RequestStored {
            regions: self.job.commits.regions.epochs(),
        });
    }

    /// Of ranks on lost hosts only files are left, and there may be one each. Others hold what they
    /// had, from this checkpoint and before.
    fn commit_return(&mut self, members: &[Rank], epoch: Epoch, lost: Option<&LostPlaces>) {
        let Some(lost) = lost else {
            return self.fall_back_to(members, epoch);
        };
        let is_lost = |rank: &Rank| {
            let then = self.job.cluster.former_hosts.at(*rank, epoch);
            then.is_some_and(|then| lost.has(then))
                || lost.has(self.job.cluster.ranks.host_of(*rank))
        };
        let ranks: Vec<Rank> = members.iter().copied().filter(is_lost).collect();
        if let Some(checkpoints) = self.job.commits.checkpoints_mut() {
            checkpoints.lose_on_hosts(&ranks, epoch);
        }
        GroupCommitHandler::of(&mut self.job).commit_files_of(members, epoch);
    }

    /// Ranks of lost hosts are on others from now on. Ranks that have moved since the checkpoint
    /// may be back where its files are, or on other hosts if that one was lost, too.
    fn place_without_lost(&mut self, ranks: &[Rank], lost: &LostPlaces) -> Vec<CentralEffect> {
        let present = self.job.cluster.ranks.placement();
        for lost in &lost.hosts {
            self.job.returns.losses.forget_exits_on(lost.host);
        }
        for rank in ranks {
            let host = lost.placement.hosts[rank.index()];
            self.job.cluster.hosts.join(host);
        }
        let vacated = self.leave_hosts(&present, &lost.placement.hosts);
        self.job
            .cluster
            .place(lost.placement.clone(), &mut self.job.commits.mode);
        let mut effects = vec![CentralEffect::Placed(lost.placement.clone())];
        effects.extend(vacated);
        effects
    }

    /// The ranks among these that have moved since this checkpoint are back on the hosts that have
    /// their images of it. These hosts still take part.
    fn place_at_images(&mut self, ranks: &[Rank], from: Option<Epoch>) -> Vec<CentralEffect> {
        let epoch = from.unwrap_or_default();
        let home = |rank: &Rank| {
            let then = self.job.cluster.former_hosts.at(*rank, epoch);
            let then = then.filter(|then| *then != self.job.cluster.ranks.host_of(*rank));
            Some((*rank, then?))
        };
        let moved: Vec<(Rank, HostIndex)> = ranks.iter().filter_map(home).collect();
        if moved.is_empty() {
            return Vec::new();
        }
        let present = self.job.cluster.ranks.placement();
        let mut next = present.clone();
        for (rank, home) in &moved {
            next[rank.index()] = *home;
        }
        let vacated = self.leave_hosts(&present, &next);
        self.job
            .cluster
            .move_back(&moved, &mut self.job.commits.mode);
        let mut effects = vec![CentralEffect::MovedBack(epoch, moved)];
        effects.extend(vacated);
        effects
    }

    /// Tells hosts that are not lost which ranks they have no more.
    fn leave_hosts(&mut self, present: &[HostIndex], next: &[HostIndex]) -> Vec<CentralEffect> {
        let ranks = (0u32..).map(Rank).zip(present.iter().zip(next));
        let left = ranks
            .filter(|(_, (host, next))| host != next && !self.job.cluster.hosts.is_lost(**host));
        let left: Vec<(Rank, HostIndex)> = left.map(|(rank, (host, _))| (rank, *host)).collect();
        for (rank, host) in &left {
            self.job.cluster.departures.begin(*rank, *host);
        }
        let vacate = |(rank, host): (Rank, HostIndex)| {
            let instance = self.job.cluster.ranks.instance(rank);
            CentralEffect::Send(host, ToLocal::Move(RankMoveOrder::Vacate { instance }))
        };
        left.into_iter().map(vacate).collect()
    }

    /// The ranks get their next incarnations. Returns the newest checkpoint that counts no more
    /// for anybody.
    fn renew(&mut self, who: &Returning, from: Option<Epoch>) -> Option<Epoch> {
        let now = self.job.out.now;
        let since = match &self.job.course.phase {
            CentralPhase::Restoring(restoring) => restoring.since,
            _ => now,
        };
        self.job.returns.losses.rolls_back(since);
        match who {
            Returning::All => return self.renew_all(since, from),
            Returning::Groups(members) => self.renew_groups(members, from),
            Returning::Finalized(rank) => self.job.cluster.ranks.restore_alone(now, *rank),
        }
        None
    }

    fn renew_all(&mut self, since: Time, from: Option<Epoch>) -> Option<Epoch> {
        let checkpoints = self.job.commits.checkpoints_mut();
        let abandoned = checkpoints.and_then(|c| c.rolled_back(from));
        self.job.cluster.ranks.roll_back();
        let abandoned = abandoned.max(self.job.commits.groups.forget_commits());
        self.job.returns.losses.try_again();
        self.job.course.phase = CentralPhase::Restoring(GlobalRestore { epoch: from, since });
        abandoned
    }

    fn renew_groups(&mut self, members: &[Rank], from: Option<Epoch>) {
        let now = self.job.out.now;
        for member in members {
            self.job.cluster.ranks.restore_alone(now, *member);
        }
        self.job
            .commits
            .groups
            .return_of(members, from.unwrap_or_default());
        if self.job.course.phase == CentralPhase::Finalizing {
            self.job.course.phase = CentralPhase::Running;
        }
        self.job.commits.mode.set_last_checkpoint(None);
        // Images of a void request are dropped at the next commit. Those who have asked for it wait
        // for that one, which follows soon.
        if let Some(checkpoints) = self.job.commits.checkpoints_mut() {
            checkpoints.group_returns(members);
        }
    }

    /// Stores the return. Returns the ranks with their incarnations from now on.
    pub(in crate::central) fn store_return(
        &mut self,
        who: &Returning,
        from: Option<Epoch>,
    ) -> Vec<(Rank, Incarnation)> {
        let ranks = who.ranks(self.job.cluster.ranks.count()).into_iter();
        let instances = ranks.map(|rank| self.job.cluster.ranks.instance(rank));
        let ranks: Vec<_> = instances.map(|one| (one.rank, one.incarnation)).collect();
        self.job.out.persist(Record::Return(Box::new(Return {
            scope: who.scope(),
            generation: self.job.cluster.ranks.generation(),
            ranks: ranks.clone(),
            from,
            regions: self.job.commits.regions.start(),
            since: self.job.commits.regions.since(),
            placement: self.job.cluster.placement().cloned().map(Box::new),
            memory: Box::new(self.job.returns.memory(&self.job.commits.mode)),
        })));
        ranks
    }

    /// All ranks come back: earlier commits of groups and of registered memory are void.
    fn store_commits(&mut self, from: Option<Epoch>) {
        let now = self.job.out.now;
        if let Some(epoch) = from {
            let at = self
                .job
                .commits
                .checkpoints()
                .and_then(|c| c.committed_at(epoch));
            GroupCommitHandler::of(&mut self.job).commit_all_groups(epoch, at.unwrap_or(now));
        }
        if self.job.commits.regions.roll_back(from) {
            let epochs = self.job.commits.regions.epochs();
            self.job.out.persist(Record::RegionsCommitted { epochs });
        }
    }

    /// Says which hosts replace the lost ones. Of the present files there may be one each: newer
    /// ones get copies.
    fn report_replaced(&mut self, lost: &LostPlaces, from: Option<Epoch>) {
        if let Some(checkpoints) = self.job.commits.checkpoints_mut() {
            checkpoints.want_files();
            checkpoints.request_later();
        }
        for lost in &lost.hosts {
            self.job.out.event(Event::HostReplaced {
                name: self.job.cluster.hosts.name(lost.host),
                why: lost.why.clone(),
                to: self.job.cluster.hosts.name(lost.successor),
                generation: self.job.cluster.ranks.generation(),
                epoch: from,
                regions: self.job.commits.regions.start().filter(|_| from.is_none()),
            });
        }
        self.job.returns.report_losses(self.job.out);
    }

    /// The groups of these ranks come back from this checkpoint, and not from later commits of
    /// theirs.
    pub(in crate::central) fn fall_back_to(&mut self, ranks: &[Rank], epoch: Epoch) {
        let is_later = |rank: &Rank| {
            let last = self.job.commits.groups.committed(*rank);
            last.filter(|last| last.epoch > epoch)
        };
        let later = ranks
            .iter()
            .filter_map(|rank| Some((*rank, is_later(rank)?)));
        let later: Vec<(Rank, GroupCheckpoint)> = later.collect();
        let checkpoints = self.job.commits.checkpoints_mut();
        let Some(checkpoints) = checkpoints.filter(|_| !later.is_empty()) else {
            return;
        };
        let at = checkpoints.committed_at(epoch).unwrap_or_default();
        // What its ranks do from there on uses the memory of later images.
        let ranks: Vec<Rank> = later.iter().map(|(rank, _)| *rank).collect();
        checkpoints.fall_back(&ranks, epoch);
        for (rank, last) in later {
            self.job.returns.losses.report(Event::FallsBack {
                rank,
                host: self
                    .job
                    .cluster
                    .hosts
                    .name(self.job.cluster.ranks.host_of(rank)),
                from: last.epoch,
                why: "its file may lack messages for ranks that come back from an earlier one"
                    .to_owned(),
                to: epoch,
            });
            GroupCommitHandler::of(&mut self.job)
                .set_group_commit(rank, GroupCheckpoint { epoch, at });
        }
    }
}
