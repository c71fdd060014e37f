//! The job loses a host and continues on the others, as after any rollback.
//!
//! The driver is asked whether nothing of the lost host is missing that the job needs: its output
//! before the newest checkpoint on partner hosts, and the files themselves. Then central stores the
//! rollback with the new placement. The other hosts roll back at once. A host that takes in ranks
//! of the lost one gets its order only when no lease of the lost one can last any more. So no rank
//! acts there when its successor begins. Without such a checkpoint, the loss ends the launch
//! (`relaunch`).

use super::phases::HeldOrders;
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, RankPlacement, StoredState};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::placement::{self, UsableHost};
use crate::manager_messages::{MovedRank, Time, ToLocal};
use crate::verdict::Verdict;
use rejoin_channel_table::{Epoch, Incarnation, Rank};

impl Central {
    /// A host is lost, with everything that ran there.
    pub(in crate::central) fn host_gone(
        &mut self,
        now: Time,
        host: HostIndex,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(name) = self.hosts.lose(host, &why) else {
            return;
        };
        self.hold_departed(now, host);
        self.departures.host_lost(host);
        if !self.ranks.is_any_on(host) && self.end.verdict().is_none() {
            self.empty_host_gone(now, host, why, effects);
            return self.order_awaiting(effects);
        }
        if !self.hosts.is_remote(host) || self.epoch_without_hosts().is_none() {
            return self.decide(now, Verdict::HostLost { host: name, why }, effects);
        }
        self.lost_hosts.add(host, why);
        effects.push(CentralEffect::AskRelaunchable {
            regions: self.regions.epochs(),
        });
    }

    /// A host without ranks is lost. It may have images of ranks that have moved away.
    fn empty_host_gone(
        &mut self,
        now: Time,
        host: HostIndex,
        why: String,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.end_moves_of_host(now, host, effects);
        self.losses.forget_exits_on(host);
        self.report_losses(effects);
        effects.push(CentralEffect::Event(Event::EmptyHostLost {
            name: self.hosts.name(host),
            why,
        }));
        let outlives = self.epoch_without_hosts();
        let checkpoints = self.mode.checkpoints();
        let counted = checkpoints.map(|c| c.epochs()).unwrap_or_default();
        for epoch in counted.newest_first() {
            let ranks = self.former_hosts.ranks_at(host, epoch);
            if Some(epoch) == outlives && !ranks.is_empty() {
                // Until there is a newer one, a rollback begins a launch with the files.
                self.checkpoint_asked(now, effects);
                continue;
            }
            for rank in ranks {
                self.image_lost(now, rank, epoch, None, effects);
            }
        }
    }

    /// A rollback of these ranks to this checkpoint needs the image of one that has moved since,
    /// and its host of that time is lost: files elsewhere may replace it in the next launch.
    pub(super) fn lost_former_host(&self, ranks: &[Rank], epoch: Epoch) -> Option<Verdict> {
        let at = |rank: &Rank| Some((*rank, self.former_hosts.at(*rank, epoch)?));
        let mut former = ranks.iter().filter_map(at);
        let (rank, host) = former.find(|(_, host)| self.hosts.is_lost(*host))?;
        Some(Verdict::HostLost {
            host: self.hosts.name(host),
            why: format!("it had the image of rank {}, which had moved", rank.0),
        })
    }

    /// It is about to be decided how the job continues without a host. A central manager that was
    /// started again asks all hosts first.
    pub(in crate::central) fn decides_on_loss(&self) -> bool {
        let resumes = matches!(self.phase, CentralPhase::Resuming(_));
        self.lost_hosts.is_pending() && !resumes
    }

    /// The checkpoint to which the job can roll back on other hosts, if the driver has the output
    /// before it and the files are there.
    fn epoch_without_hosts(&self) -> Option<Epoch> {
        let takes_in = self.failover.as_ref().is_some_and(|f| f.takes_in);
        let runs = matches!(
            self.phase,
            CentralPhase::Running
                | CentralPhase::Restoring(_)
                | CentralPhase::Finalizing
                | CentralPhase::Resuming(_)
        );
        let ends = self.end.verdict().is_some() || self.end.interrupted().is_some();
        let checkpoints = self
            .mode
            .checkpoints()
            .filter(|_| takes_in && runs && !ends);
        let epoch = checkpoints?.outlives_hosts()?;
        self.mode.outlived(epoch).is_none().then_some(epoch)
    }

    /// The driver says from which stored states the job can continue without a host.
    pub(in crate::central) fn relaunchable(
        &mut self,
        now: Time,
        states: &[StoredState],
        effects: &mut Vec<CentralEffect>,
    ) {
        let asked = self.lost_hosts.hosts().len();
        self.drop_silent(now, states, effects);
        if asked > 0 && self.lost_hosts.hosts().len() == asked {
            self.continue_without_hosts(now, states, effects);
        }
    }

    fn continue_without_hosts(
        &mut self,
        now: Time,
        states: &[StoredState],
        effects: &mut Vec<CentralEffect>,
    ) {
        if let Some(epoch) = self.epoch_without_hosts() {
            let older = |state: &StoredState| matches!(state, StoredState::Images(e) if *e < epoch);
            if states.contains(&StoredState::Images(epoch)) {
                let placement = self.placement_on_others(epoch);
                let others_stand =
                    matches!(self.phase, CentralPhase::Running | CentralPhase::Finalizing);
                if let Some(placement) = placement.clone()
                    && self.groups.are_several()
                    && others_stand
                {
                    let placement = self.placement_of_groups(epoch, placement);
                    return self.return_groups_on_others(now, epoch, placement, effects);
                }
                if let Some(placement) = placement {
                    return self.roll_back_on_others(now, epoch, placement, effects);
                }
            } else if states.iter().any(older) {
                // Newer files were committed after the question.
                return effects.push(CentralEffect::AskRelaunchable {
                    regions: self.regions.epochs(),
                });
            }
        }
        self.give_up_lost_hosts(now, effects);
    }

    /// The loss of hosts is the end of the launch.
    fn give_up_lost_hosts(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let lost = self.lost_hosts.take_hosts().into_iter().next();
        if let Some((host, why)) = lost {
            let host = self.hosts.name(host);
            self.decide(now, Verdict::HostLost { host, why }, effects);
        }
    }

    /// Where all ranks can run without the hosts that are lost.
    fn placement_on_others(&self, from: Epoch) -> Option<RankPlacement> {
        let before = self.failover.iter().flat_map(|failover| &failover.lost);
        let before: Vec<HostIndex> = before.copied().collect();
        let former = self
            .former_hosts
            .placement_at(from, &self.ranks.placement());
        let groups = self.copy_groups_of(&former);
        let mut hosts = former.clone();
        // Also those without ranks now, which ranks have left since.
        for lost in self.hosts.lost() {
            let counts = placement::counts(&hosts);
            let ranks = counts.get(lost).copied().unwrap_or(0);
            let usable = self.hosts.usable();
            let usable = usable.filter(|one| !before.contains(&one.host));
            let usable: Vec<UsableHost> = usable.collect();
            let usable = placement::preferred(&usable, &counts, ranks).into_iter();
            hosts = placement::without(lost, &hosts, usable.map(|one| one.host))?;
        }
        let ranks = (0u32..).map(Rank).zip(former.iter().zip(&hosts));
        let moved = ranks.filter(|(_, (former, now))| former != now);
        let lost = |host: &HostIndex| self.hosts.is_lost(*host);
        let moved = moved.map(|(rank, _)| groups.moved(rank, lost));
        let mut moved: Vec<MovedRank> = moved.collect();
        let earlier = self
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        for earlier in earlier {
            if moved.iter().all(|one| one.rank != earlier.rank) {
                moved.push(earlier.clone());
            }
        }
        moved.sort();
        Some(RankPlacement {
            hosts,
            lost: self.hosts.lost().collect(),
            moved,
            from,
        })
    }

    /// All ranks roll back to this checkpoint, those of lost hosts on others.
    fn roll_back_on_others(
        &mut self,
        now: Time,
        epoch: Epoch,
        placement: RankPlacement,
        effects: &mut Vec<CentralEffect>,
    ) {
        let lost = self.lost_hosts.take_hosts();
        let present = self.ranks.placement();
        let former = self.former_hosts.placement_at(epoch, &present);
        self.former_hosts.roll_back(epoch);
        let is_lost = |host: HostIndex| lost.iter().any(|(lost, _)| *lost == host);
        let vacated = self.leave_hosts(&present, &placement.hosts);
        let ranks = (0u32..).map(Rank).zip(&former);
        let ranks: Vec<Rank> = ranks
            .filter(|(_, host)| is_lost(**host))
            .map(|(rank, _)| rank)
            .collect();
        self.losses.forget_exits(&ranks);
        for rank in &ranks {
            self.hosts.join(placement.hosts[rank.index()]);
        }
        self.place(placement.clone());
        self.begin_rollback(now, effects);
        // The record comes first, and the orders last.
        let mut rollback = Vec::new();
        self.restore_all(now, Some(epoch), &mut rollback);
        let mut rollback = rollback.into_iter();
        effects.extend(rollback.next());
        effects.push(CentralEffect::Placed(placement.clone()));
        effects.extend(vacated);
        effects.extend(rollback);
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            // Of the present files there may be one each. Newer ones get copies.
            checkpoints.want_files();
            checkpoints.request_later();
        }
        for (host, why) in lost {
            let rank = former.iter().position(|former| *former == host);
            let to = rank.map_or(host, |rank| placement.hosts[rank]);
            effects.push(CentralEffect::Event(Event::HostReplaced {
                name: self.hosts.name(host),
                why,
                to: self.hosts.name(to),
                generation: self.ranks.generation(),
                epoch,
            }));
        }
        self.report_losses(effects);
    }

    /// Tells hosts that are not lost which ranks they have no more.
    pub(super) fn leave_hosts(
        &mut self,
        present: &[HostIndex],
        next: &[HostIndex],
    ) -> Vec<CentralEffect> {
        let ranks = (0u32..).map(Rank).zip(present.iter().zip(next));
        let left = ranks.filter(|(_, (host, next))| host != next && !self.hosts.is_lost(**host));
        let left: Vec<(Rank, HostIndex)> = left.map(|(rank, (host, _))| (rank, *host)).collect();
        for (rank, host) in &left {
            self.departures.begin(*rank, *host);
        }
        let vacate = |(rank, host): (Rank, HostIndex)| {
            let instance = self.ranks.instance(rank);
            CentralEffect::Send(host, ToLocal::Vacate { instance })
        };
        left.into_iter().map(vacate).collect()
    }

    /// Those of these ranks that were on hosts which this launch has lost.
    pub(super) fn moved_among(&self, ranks: &[(Rank, Incarnation)]) -> Vec<MovedRank> {
        let moved = self
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        let among = |one: &&MovedRank| ranks.iter().any(|(rank, _)| *rank == one.rank);
        moved.iter().filter(among).cloned().collect()
    }

    /// The hosts that wait for the end of a lost host's last lease, if one may still last.
    pub(in crate::central) fn held_orders(&self, now: Time) -> Option<HeldOrders> {
        let until = self.hosts.fence_of_lost(now)?;
        let moved = self
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        let hosts = moved.iter().map(|moved| self.ranks.host_of(moved.rank));
        let mut hosts: Vec<HostIndex> = hosts.collect();
        hosts.sort_unstable();
        hosts.dedup();
        (!hosts.is_empty()).then_some(HeldOrders { until, hosts })
    }

    /// Gives the orders that waited, if no process of a lost host can act any more.
    pub(in crate::central) fn held_tick(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        let CentralPhase::Restoring(restoring) = &mut self.phase else {
            return;
        };
        let epoch = restoring.epoch;
        let Some(held) = restoring.held.take_if(|held| held.until <= now) else {
            return;
        };
        let hosts = held.hosts.into_iter();
        let ready = hosts
            .filter(|host| !restoring.awaiting.contains(host))
            .collect();
        self.order_late(epoch, ready, effects);
    }

    /// Gives hosts the order to restore their ranks, later than the others got theirs.
    pub(super) fn order_late(
        &mut self,
        epoch: Option<Epoch>,
        hosts: Vec<HostIndex>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let mut by_host = self.ranks.by_host(self.hosts.len());
        for host in hosts {
            if self.hosts.is_done(host) {
                continue;
            }
            let ranks = std::mem::take(&mut by_host[host]);
            self.order_restore(host, epoch, ranks, effects);
            self.tell_commits(host, effects);
        }
    }

    /// Tells a host which images count: it was in no generation, or an older one, when the others
    /// were told.
    pub(super) fn tell_commits(&self, host: HostIndex, effects: &mut Vec<CentralEffect>) {
        let checkpoints = self.mode.checkpoints();
        let commit = ToLocal::Commit {
            generation: self.ranks.generation(),
            epochs: checkpoints.map(|c| c.epochs()).unwrap_or_default(),
            abandoned: checkpoints.map(|c| c.last_number()).unwrap_or_default(),
        };
        effects.push(CentralEffect::Send(host, commit));
    }
}
