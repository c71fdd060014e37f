//! Rollback of ranks: the orders, and the events when they are restored.

use super::phases::GlobalRestore;
use crate::central::event::Event;
use crate::central::failure::Failure;
use crate::central::interface::{CentralEffect, HostIndex, Record};
use crate::central::job_state::Central;
use crate::central::phase::CentralPhase;
use crate::committed_levels::{CommittedCheckpoint, LastCommits};
use crate::levels::Level;
use crate::manager_messages::{Cause, ProcessInstance, Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};
use rejoin_wire::ImageCost;
use std::collections::BTreeSet;

impl Central {
    /// A new generation: every rank rolls back to the last checkpoint.
    pub(super) fn restore_all(
        &mut self,
        now: Time,
        epoch: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let all: Vec<Rank> = (0..self.ranks.count()).map(Rank).collect();
        if let Some(verdict) = epoch.and_then(|epoch| self.lost_former_host(&all, epoch)) {
            return self.decide(now, verdict, effects);
        }
        let since = match &self.phase {
            CentralPhase::Restoring(restoring) => restoring.since,
            _ => now,
        };
        let checkpoints = self.mode.checkpoints_mut();
        let abandoned = checkpoints.and_then(|c| c.rolled_back(epoch));
        let voids_regions = self.regions.roll_back(epoch);
        let vacated = self.return_movers(&all, epoch.unwrap_or_default());
        self.former_hosts.roll_back(epoch.unwrap_or_default());
        self.ranks.roll_back();
        let abandoned = abandoned.max(self.groups.forget_commits());
        self.held_groups.clear();
        self.losses.rolls_back(since);
        self.losses.try_again();
        let held = self.held_orders(now);
        let awaiting = self.awaiting_hosts();
        let is_held = |host| {
            let is_held = held.as_ref().is_some_and(|held| held.hosts.contains(&host));
            is_held || awaiting.contains(&host)
        };
        let by_host = self.ranks.by_host(self.hosts.len()).into_iter();
        let by_host: Vec<_> = by_host
            .enumerate()
            .filter(|(host, _)| !is_held(*host))
            .collect();
        self.phase = CentralPhase::Restoring(GlobalRestore {
            epoch,
            since,
            held,
            awaiting,
        });
        self.mode.set_last_checkpoint(None);
        self.store_restoring(epoch, effects);
        if let Some(epoch) = epoch {
            let at = self.mode.checkpoints().and_then(|c| c.committed_at(epoch));
            self.commit_all_groups(epoch, at.unwrap_or(now), effects);
        }
        if voids_regions {
            let epochs = self.regions.epochs();
            effects.push(CentralEffect::Persist(Record::RegionsCommitted { epochs }));
        }
        effects.extend(vacated);
        for (host, ranks) in by_host {
            if !self.hosts.is_done(host) {
                self.order_restore(host, epoch, ranks, effects);
            }
        }
        if let Some(abandoned) = abandoned {
            self.tell_committed(abandoned, effects);
        }
    }

    /// Those of these ranks that have moved since this checkpoint are back on the hosts that have
    /// their images of it. Returns what is to be told, before the others get their orders.
    pub(super) fn return_movers(&mut self, ranks: &[Rank], epoch: Epoch) -> Vec<CentralEffect> {
        let home = |rank: &Rank| {
            let then = self.former_hosts.at(*rank, epoch);
            let then = then.filter(|then| *then != self.ranks.host_of(*rank));
            Some((*rank, then?))
        };
        let moved: Vec<(Rank, HostIndex)> = ranks.iter().filter_map(home).collect();
        if moved.is_empty() {
            return Vec::new();
        }
        let mut effects = vec![CentralEffect::MovedBack(epoch, moved.clone())];
        for (rank, home) in &moved {
            let instance = self.ranks.instance(*rank);
            let host = self.ranks.host_of(*rank);
            effects.push(CentralEffect::Send(host, ToLocal::Vacate { instance }));
            self.departures.begin(*rank, host);
            self.hosts.join(*home);
        }
        self.move_back(&moved);
        effects
    }

    /// The hosts to which ranks return that may still act on others.
    pub(in crate::central) fn awaiting_hosts(&self) -> BTreeSet<HostIndex> {
        self.departures.awaiting(|rank| self.ranks.host_of(rank))
    }

    /// A rollback waits for a process that does not stop on a host which its rank has left.
    pub(super) fn is_return_hindered(&self, failure: &Failure) -> bool {
        let rank = failure.instance.rank;
        let waits = match &self.phase {
            CentralPhase::Restoring(restoring) => {
                restoring.awaiting.contains(&self.ranks.host_of(rank))
            }
            _ => self.held_groups.has(rank),
        };
        matches!(failure.cause, Cause::NotStopped { .. })
            && self.departures.is_under_way(rank, failure.host)
            && waits
    }

    /// Nothing of a rank acts any more on this host, which it has left.
    pub(in crate::central) fn vacated(
        &mut self,
        now: Time,
        host: HostIndex,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.departures.end(rank, host);
        self.order_awaiting(effects);
        self.held_groups_tick(now, effects);
    }

    /// Orders hosts to restore their ranks whose ranks act nowhere else any more.
    pub(in crate::central) fn order_awaiting(&mut self, effects: &mut Vec<CentralEffect>) {
        let still = self.awaiting_hosts();
        let CentralPhase::Restoring(restoring) = &mut self.phase else {
            return;
        };
        let ready = restoring.awaiting.difference(&still);
        let mut ready: Vec<HostIndex> = ready.copied().collect();
        restoring.awaiting = still;
        let epoch = restoring.epoch;
        if let Some(held) = &restoring.held {
            ready.retain(|host| !held.hosts.contains(host));
        }
        self.order_late(epoch, ready, effects);
    }

    /// Orders a host to restore these of its ranks, which may be its first ones.
    pub(in crate::central) fn order_restore(
        &mut self,
        host: HostIndex,
        epoch: Option<Epoch>,
        ranks: Vec<(Rank, Incarnation)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        if ranks.is_empty() {
            return;
        }
        let generation = self.ranks.generation();
        let moved = self.moved_among(&ranks);
        let order = match self.hosts.begins(host) {
            true => ToLocal::Restore {
                generation,
                epoch,
                ranks,
                moved,
            },
            false => ToLocal::Spawn {
                generation,
                ranks,
                hold: self.mode.recovers(),
                from: epoch,
                moved,
            },
        };
        effects.push(CentralEffect::Send(host, order));
    }

    /// The job begins anew. Its checkpoints get other numbers than those of earlier launches.
    pub(in crate::central) fn begin_above_requested(&mut self, effects: &mut Vec<CentralEffect>) {
        let epoch = self.requested;
        let checkpoints = self.mode.checkpoints_mut();
        if let Some(checkpoints) = checkpoints.filter(|_| epoch > Epoch(0)) {
            checkpoints.resume(LastCommits::default(), epoch);
            effects.push(CentralEffect::Persist(Record::Requested { epoch }));
        }
    }

    /// The job ended before, and continues from the files of this checkpoint, as after a rollback.
    pub(in crate::central) fn begin_from(
        &mut self,
        now: Time,
        epoch: Epoch,
        effects: &mut Vec<CentralEffect>,
    ) {
        let has_partners = self.has_partners();
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        let (at, cost) = (now, ImageCost::default());
        let checkpoint = CommittedCheckpoint { epoch, at, cost };
        let requested = self.requested.max(epoch);
        let last = Some(checkpoint);
        let last = LastCommits {
            memory: last,
            file: last,
            partner: last,
        };
        checkpoints.resume(last, requested);
        if has_partners {
            // Of these files there may be one each. Newer ones get copies.
            checkpoints.want_files();
            checkpoints.request_later();
        }
        self.phase = CentralPhase::Restoring(GlobalRestore {
            epoch: Some(epoch),
            since: now,
            held: None,
            awaiting: BTreeSet::new(),
        });
        effects.push(CentralEffect::Persist(Record::Requested {
            epoch: requested,
        }));
        for level in [Level::Memory, Level::File, Level::Partner] {
            effects.push(CentralEffect::Persist(Record::Committed {
                epoch,
                level,
                at,
                cost,
            }));
        }
        self.store_restoring(Some(epoch), effects);
        self.commit_all_groups(epoch, at, effects);
    }

    /// After the last checkpoint no rank needs another: only this one comes back.
    pub(super) fn restore_one(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.ranks.restore_alone(now, rank);
        self.losses.rolls_back(now);
        self.store_restoring(epoch, effects);
        let ProcessInstance {
            generation,
            incarnation,
            ..
        } = self.ranks.instance(rank);
        let order = ToLocal::Restore {
            generation,
            epoch,
            ranks: vec![(rank, incarnation)],
            moved: Vec::new(),
        };
        let host = self.ranks.host_of(rank);
        effects.push(CentralEffect::Send(host, order));
    }

    fn store_restoring(&self, epoch: Option<Epoch>, effects: &mut Vec<CentralEffect>) {
        effects.push(CentralEffect::Persist(Record::Restoring {
            generation: self.ranks.generation(),
            epoch,
            incarnations: self.ranks.incarnations(),
            placement: self.placement().cloned().map(Box::new),
            memory: Box::new(self.memory()),
        }));
    }

    /// A rank that comes back alone gets the table at once.
    pub(in crate::central) fn start_alone(
        &mut self,
        now: Time,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        if self.phase != CentralPhase::Finalized {
            return;
        }
        let Some(table) = self.ranks.table() else {
            return;
        };
        let start = ToLocal::Start {
            generation: self.ranks.generation(),
            table,
            image: None,
        };
        let host = self.ranks.host_of(rank);
        effects.push(CentralEffect::Send(host, start));
        if let Some(since) = self.ranks.restored(rank) {
            let epoch = self.mode.last_checkpoint();
            let incarnation = self.ranks.instance(rank).incarnation;
            self.report_restored(now, epoch, since, Some((rank, incarnation)), effects);
        }
    }

    /// A rank that was restored alone is released, like all ranks before.
    pub(in crate::central) fn release_alone(
        &mut self,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        let generation = self.ranks.generation();
        let host = self.ranks.host_of(rank);
        effects.push(CentralEffect::Send(
            host,
            ToLocal::AllFinalized { generation },
        ));
    }

    /// Every rank is restored.
    pub(in crate::central) fn recovered(
        &mut self,
        now: Time,
        restoring: &GlobalRestore,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(checkpoints) = self.mode.checkpoints_mut() else {
            return;
        };
        checkpoints.run_again(now);
        self.write_files_again(now, effects);
        self.drain_again();
        self.report_recovered(now, restoring, effects);
    }

    /// Says so, once it is known how everyone ended.
    pub(in crate::central) fn report_recovered(
        &mut self,
        now: Time,
        restoring: &GlobalRestore,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.report_restored(now, restoring.epoch, restoring.since, None, effects);
    }

    fn report_restored(
        &mut self,
        now: Time,
        epoch: Option<Epoch>,
        since: Time,
        alone: Option<(Rank, Incarnation)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let Some(checkpoints) = self.mode.checkpoints() else {
            return;
        };
        let from = match epoch {
            Some(epoch) => checkpoints.committed_at(epoch).unwrap_or(since),
            None => self.clock.began(),
        };
        let recovered = Event::Recovered {
            generation: self.ranks.generation(),
            alone,
            epoch,
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(from.0),
        };
        self.losses.report(recovered);
        self.report_losses(effects);
    }
}
