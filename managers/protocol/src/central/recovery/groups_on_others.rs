//! The job loses a host, and the recovery groups with ranks on it come back on other hosts, from
//! the files of their newest checkpoint there. The others stand.
//!
//! As in a rollback without a lost host (`other_hosts`), a host that takes in ranks gets its order
//! when no lease of the lost one can last any more.

use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, RankPlacement};
use crate::central::job_state::Central;
use crate::central::recovery_groups::GroupCheckpoint;
use crate::manager_messages::Time;
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

impl Central {
    /// The groups with ranks on lost hosts go back to this checkpoint.
    pub(super) fn return_groups_on_others(
        &mut self,
        now: Time,
        epoch: Epoch,
        placement: RankPlacement,
        effects: &mut Vec<CentralEffect>,
    ) {
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
        let mut leaders: Vec<Rank> = (ranks.iter())
            .filter_map(|rank| self.groups.members(*rank).first().copied())
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        let mut returning = Vec::new();
        let last = leaders.pop();
        for leader in leaders {
            self.return_to_files(leader, epoch, effects);
            returning.extend(self.begin_group_return(now, leader, epoch, effects));
        }
        // Stored with the last group. The next central manager begins anew if it lacks any.
        self.place(placement.clone());
        if let Some(leader) = last {
            self.return_to_files(leader, epoch, effects);
            returning.extend(self.begin_group_return(now, leader, epoch, effects));
        }
        effects.push(CentralEffect::Placed(placement.clone()));
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
            match fence.filter(|_| takes_in) {
                Some(until) => self.held_groups.hold(until, &ranks, epoch),
                None => self.order_group_on(host, epoch, ranks, effects),
            }
        }
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
        for (rank, epoch) in self.held_groups.take_due(now) {
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
