//! The job loses a host, and the recovery groups with ranks on it come back on other hosts, from
//! the files of their newest checkpoint there. The others stand.
//!
//! As in a rollback without a lost host (`other_hosts`), a host that takes in ranks gets its order
//! when no lease of the lost one can last any more.

use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, RankPlacement};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::manager_messages::{MovedRank, Time};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::{BTreeMap, BTreeSet};

impl Central {
    /// The ranks that go back to this checkpoint: of the groups that have ranks on lost hosts, and
    /// of those that may lack messages for these.
    fn members_of_lost(&self, epoch: Epoch) -> BTreeSet<Rank> {
        let lost = self.lost_hosts.hosts();
        let is_lost = |rank: &Rank| {
            let host = self.ranks.host_of(*rank);
            lost.iter().any(|(lost, _)| *lost == host)
        };
        let ranks = (0..self.ranks.count()).map(Rank).filter(is_lost);
        let members = ranks.flat_map(|rank| self.groups.members(rank));
        members
            .copied()
            .chain(self.returning_beside(epoch))
            .collect()
    }

    /// Where ranks are if only the groups with ranks on lost hosts go back to this checkpoint.
    /// `all`: where they were if all did so.
    pub(super) fn placement_of_groups(&self, from: Epoch, all: RankPlacement) -> RankPlacement {
        let returning = self.members_of_lost(from);
        let present = self.ranks.placement();
        let mut placement = all;
        for (rank, host) in (0u32..).map(Rank).zip(&present) {
            if !returning.contains(&rank) {
                placement.hosts[rank.index()] = *host;
            }
        }
        placement.moved.retain(|one| returning.contains(&one.rank));
        let earlier = self
            .placement()
            .map_or(&[][..], |placement| &placement.moved[..]);
        let stands = |one: &&MovedRank| !returning.contains(&one.rank);
        placement
            .moved
            .extend(earlier.iter().filter(stands).cloned());
        for rank in returning {
            let home = self.former_hosts.at(rank, from);
            let is_back = home == Some(placement.hosts[rank.index()]);
            let is_known = placement.moved.iter().any(|one| one.rank == rank);
            if is_back && !is_known && self.hosts.is_lost(present[rank.index()]) {
                // Its file is at home. It waits for the end of the lost host's lease as others do.
                placement.moved.push(MovedRank {
                    rank,
                    moves: false,
                    holder: None,
                    others: Vec::new(),
                });
            }
        }
        placement.moved.sort();
        placement
    }

    /// The groups with ranks on lost hosts go back to this checkpoint.
    pub(super) fn return_groups_on_others(
        &mut self,
        now: Time,
        epoch: Epoch,
        placement: RankPlacement,
        effects: &mut Vec<CentralEffect>,
    ) {
        let members: Vec<Rank> = self.members_of_lost(epoch).into_iter().collect();
        let lost = self.lost_hosts.take_hosts();
        let is_lost = |host: HostIndex| lost.iter().any(|(lost, _)| *lost == host);
        let present = self.ranks.placement();
        let ranks = (0u32..).map(Rank).zip(&present);
        let ranks = ranks.filter(|(_, host)| is_lost(**host));
        let ranks: Vec<Rank> = ranks.map(|(rank, _)| rank).collect();
        self.losses.forget_exits(&ranks);
        for rank in &ranks {
            self.hosts.join(placement.hosts[rank.index()]);
        }
        self.begin_rollback(now, effects);
        self.lose_images_on_hosts(&ranks, epoch);
        let leads = |rank: &&Rank| self.groups.members(**rank).first() == Some(*rank);
        let leaders: Vec<Rank> = members.iter().filter(leads).copied().collect();
        for leader in leaders {
            self.return_to_files(leader, epoch, effects);
        }
        // Ranks that have moved since may be back where the files are.
        let vacated = self.leave_hosts(&present, &placement.hosts);
        self.former_hosts.roll_back_of(&members, epoch);
        self.place(placement.clone());
        let returning = self.begin_group_return(now, members, epoch, effects);
        effects.push(CentralEffect::Placed(placement.clone()));
        effects.extend(vacated);
        self.order_group(now, epoch, &returning, effects);
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            // Of the present files there may be one each. Newer ones get copies.
            checkpoints.want_files();
            checkpoints.request_later();
        }
        for (host, why) in lost {
            let rank = present.iter().position(|former| *former == host);
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

    /// Of these ranks, only the images of this checkpoint are left, and there may be one each.
    fn lose_images_on_hosts(&mut self, ranks: &[Rank], left: Epoch) {
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.lose_on_hosts(ranks, left);
        }
    }

    /// The group of this rank comes back from the files of this checkpoint.
    fn return_to_files(&mut self, rank: Rank, epoch: Epoch, effects: &mut Vec<CentralEffect>) {
        let at = self.mode.checkpoints().and_then(|c| c.committed_at(epoch));
        let at = at.unwrap_or_default();
        self.set_group_commit(rank, GroupCheckpoint { epoch, at }, effects);
    }

    /// Orders hosts to restore these ranks from this checkpoint: those on hosts that take in ranks
    /// of lost ones when nothing acts there any more.
    pub(in crate::central) fn order_group(
        &mut self,
        now: Time,
        epoch: Epoch,
        ranks: &[(Rank, Incarnation)],
        effects: &mut Vec<CentralEffect>,
    ) {
        let fence = self.hosts.fence_of_lost(now);
        for (host, ranks) in self.on_hosts(ranks) {
            let takes_in = !self.moved_among(&ranks).is_empty();
            if let Some(until) = fence.filter(|_| takes_in) {
                self.held_groups.hold(until, &ranks, epoch);
                continue;
            }
            let waits = |one: &(Rank, Incarnation)| self.departures.acts_elsewhere(one.0, host);
            let (waiting, ready): (Vec<_>, Vec<_>) = ranks.into_iter().partition(waits);
            self.held_groups.hold(now, &waiting, epoch);
            self.held_groups.forget(&ready);
            self.order_group_on(host, epoch, ready, effects);
        }
    }

    /// A central manager that was started again orders hosts to restore these ranks. It does not
    /// know which of them act on a lost host, so all wait for the end of its lease.
    pub(in crate::central) fn order_group_again(
        &mut self,
        now: Time,
        epoch: Epoch,
        ranks: &[(Rank, Incarnation)],
        effects: &mut Vec<CentralEffect>,
    ) {
        match self.hosts.fence_of_lost(now) {
            Some(until) => self.held_groups.hold(until, ranks, epoch),
            None => self.order_group(now, epoch, ranks, effects),
        }
    }

    /// A host is lost: ranks that return from it to others wait until nothing acts there.
    pub(super) fn hold_departed(&mut self, now: Time, host: HostIndex) {
        let Some(until) = self.hosts.fence_of_lost(now) else {
            return;
        };
        for rank in self.departures.acting_on(host) {
            self.held_groups.delay(rank, until);
            let home = self.ranks.host_of(rank);
            if let CentralPhase::Restoring(restoring) = &mut self.phase {
                restoring.hold(home, until);
            }
        }
    }

    /// When an order is due that waits for a time only.
    pub(in crate::central) fn held_groups_due(&self) -> Option<Time> {
        self.held_groups.due(|rank| self.acts_elsewhere(rank))
    }

    fn acts_elsewhere(&self, rank: Rank) -> bool {
        let home = self.ranks.host_of(rank);
        self.departures.acts_elsewhere(rank, home)
    }

    /// Orders a host to restore these ranks. It learns that their images of this checkpoint are
    /// those that count, also in memory.
    fn order_group_on(
        &mut self,
        host: HostIndex,
        epoch: Epoch,
        ranks: Vec<(Rank, Incarnation)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        if ranks.is_empty() {
            return;
        }
        let members: Vec<Rank> = ranks.iter().map(|(rank, _)| *rank).collect();
        self.order_restore(host, Some(epoch), ranks, effects);
        self.repeat_group_commits(host, members.into_iter(), effects);
    }

    /// Gives the orders that waited, if no process of a lost host can act any more.
    pub(in crate::central) fn held_groups_tick(
        &mut self,
        now: Time,
        effects: &mut Vec<CentralEffect>,
    ) {
        let mut by_epoch: BTreeMap<Epoch, Vec<(Rank, Incarnation)>> = BTreeMap::new();
        let (departures, ranks) = (&self.departures, &self.ranks);
        let acts_elsewhere = |rank| departures.acts_elsewhere(rank, ranks.host_of(rank));
        for (rank, epoch) in self.held_groups.take_due(now, acts_elsewhere) {
            let instance = self.ranks.instance(rank);
            let ranks = by_epoch.entry(epoch).or_default();
            ranks.push((rank, instance.incarnation));
        }
        for (epoch, ranks) in by_epoch {
            for (host, ranks) in self.on_hosts(&ranks) {
                if self.hosts.is_done(host) {
                    continue;
                }
                self.order_group_on(host, epoch, ranks, effects);
                self.tell_commits(host, effects);
            }
        }
    }
}
