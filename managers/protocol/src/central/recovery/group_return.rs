//! The ranks of a recovery group come back from the group's last checkpoint, and the others stand.
//!
//! No generation begins: the others keep their links among themselves. When all ranks of the group
//! have registered, they get the table, and all others learn where they are, as after a move.

use crate::central::central_omission::CentralOmission;
use crate::central::event::Event;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::manager_messages::{ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use std::collections::BTreeMap;

impl Central {
    /// The group of this rank goes back to its last checkpoint.
    pub(super) fn restore_group(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let mut members = self.groups.members(rank).to_vec();
        members.extend(self.returning_beside(epoch));
        members.sort_unstable();
        members.dedup();
        if let Some(verdict) = self.lost_former_host(&members, epoch) {
            return self.decide(now, verdict, effects);
        }
        self.fall_back_to(&members, epoch, effects);
        let ranks = self.begin_group_return(now, members, epoch, effects);
        self.order_group(now, epoch, &ranks, effects);
    }

    /// Stores that these ranks, all of one group or several, go back to this checkpoint. Returns
    /// them with their incarnations from now on, to be ordered.
    pub(super) fn begin_group_return(
        &mut self,
        now: Time,
        members: Vec<Rank>,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) -> Vec<(Rank, Incarnation)> {
        let moved_back = self.return_movers(&members, epoch);
        self.former_hosts.roll_back_of(&members, epoch);
        for member in &members {
            self.ranks.restore_alone(now, *member);
        }
        let oldest = self.mode.checkpoints().and_then(|c| c.outlives_hosts());
        self.groups.return_of(&members, epoch, oldest);
        self.losses.rolls_back(now);
        if self.phase == CentralPhase::Finalizing {
            self.phase = CentralPhase::Running;
        }
        self.mode.set_last_checkpoint(None);
        // Images of a void request are dropped at the next commit. Those who have asked for it wait
        // for that one, which follows soon.
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.group_returns(&members);
        }
        let instances = members.iter().map(|rank| self.ranks.instance(*rank));
        let ranks: Vec<_> = instances.map(|one| (one.rank, one.incarnation)).collect();
        effects.push(CentralEffect::Persist(Record::GroupRestoring {
            ranks: ranks.clone(),
            epoch,
            placement: self.placement().cloned().map(Box::new),
            memory: Box::new(self.memory()),
        }));
        effects.extend(moved_back);
        ranks
    }

    /// These ranks by host.
    pub(in crate::central) fn on_hosts(
        &self,
        ranks: &[(Rank, Incarnation)],
    ) -> BTreeMap<HostIndex, Vec<(Rank, Incarnation)>> {
        let mut by_host: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for one in ranks {
            let host = self.ranks.host_of(one.0);
            by_host.entry(host).or_default().push(*one);
        }
        by_host
    }

    /// A rank has registered. If all of its group are back now, they start, and the others learn
    /// where they are.
    pub(in crate::central) fn start_group(
        &mut self,
        now: Time,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        let runs = matches!(self.phase, CentralPhase::Running | CentralPhase::Finalizing);
        if !runs || !self.groups.are_several() || !self.ranks.is_away(rank) {
            return;
        }
        let members = self.groups.members(rank).to_vec();
        if !members
            .iter()
            .all(|member| self.ranks.has_returned(*member))
        {
            return;
        }
        let since: Vec<Option<Time>> = (members.iter())
            .map(|member| self.ranks.restored(*member))
            .collect();
        self.tell_returned(&members, effects);
        for (member, since) in members.iter().zip(since) {
            self.report_returned(now, *member, since.unwrap_or(now), effects);
        }
        let is_any_away = self.ranks.is_any_away();
        if let Some(checkpoints) = self.mode.checkpoints_mut().filter(|_| !is_any_away) {
            checkpoints.run_again(now);
        }
        self.finalize_when_complete(now, effects);
    }

    /// Ranks that are back get the table, and all others learn where they are.
    pub(in crate::central) fn tell_returned(
        &self,
        members: &[Rank],
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(table) = self.ranks.table() else {
            return;
        };
        let instances: Vec<ProcessInstance> = (members.iter())
            .map(|member| self.ranks.instance(*member))
            .collect();
        let ranks: Vec<_> = (instances.iter())
            .map(|one| (one.rank, one.incarnation))
            .collect();
        for host in self.on_hosts(&ranks).into_keys() {
            let start = ToLocal::Start {
                generation: self.ranks.generation(),
                table: table.clone(),
                image: None,
            };
            effects.push(CentralEffect::Send(host, start));
        }
        // Those that are back do not know which images of theirs count by now.
        self.tell_group_commit(members, effects);
        for instance in instances {
            if self.omits(CentralOmission::Updates) {
                continue;
            }
            let Some((_, card)) = table.get(instance.rank.index()) else {
                continue;
            };
            let card = card.as_ref().clone();
            self.hosts
                .spread(ToLocal::Update { instance, card }, effects);
        }
    }

    fn report_returned(
        &mut self,
        now: Time,
        rank: Rank,
        since: Time,
        effects: &mut Vec<CentralEffect>,
    ) {
        let ProcessInstance {
            generation,
            incarnation,
            ..
        } = self.ranks.instance(rank);
        let from = self.groups.committed(rank);
        let at = from.map_or(since, |checkpoint| checkpoint.at);
        self.losses.report(Event::Recovered {
            generation,
            alone: Some((rank, incarnation)),
            epoch: from.map(|checkpoint| checkpoint.epoch),
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(at.0),
        });
        self.report_losses(effects);
    }
}
