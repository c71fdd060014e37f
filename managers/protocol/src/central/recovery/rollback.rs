//! Rollback of ranks: the orders, and the events when they are restored.

use super::restoring::GlobalRestore;
use crate::central::{Central, CentralEffect, Event, Phase, RankState, Record};
use crate::control::{Stage, Time, ToLocal};
use rejoin_channel_table::{Epoch, Incarnation, Rank};

impl Central {
    /// A new generation: every rank rolls back to the last checkpoint.
    pub(super) fn restore_all(
        &mut self,
        now: Time,
        epoch: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let since = match &self.phase {
            Phase::Restoring(restoring) => restoring.since,
            _ => now,
        };
        self.generation = self.generation.next();
        let abandoned = self.mode.checkpoints_mut().and_then(|c| c.rolled_back());
        for rank in &mut self.ranks {
            rank.back();
        }
        self.losses.goes_back(since);
        self.losses.try_again();
        self.phase = Phase::Restoring(GlobalRestore { epoch, since });
        self.mode.set_last_checkpoint(None);
        self.store_restoring(epoch, effects);
        let generation = self.generation;
        (self.absent, self.complete) = (None, 0);
        for (host, ranks) in self.ranks_by_host().into_iter().enumerate() {
            if !ranks.is_empty() && !self.hosts[host].done {
                let order = ToLocal::Restore {
                    generation,
                    epoch,
                    ranks,
                };
                effects.push(CentralEffect::Send(host, order));
            }
        }
        if let Some(abandoned) = abandoned {
            self.keep(abandoned, effects);
        }
    }

    /// After the last checkpoint no rank needs another: only this one comes back.
    pub(super) fn restore_one(
        &mut self,
        now: Time,
        rank: Rank,
        epoch: Option<Epoch>,
        effects: &mut Vec<CentralEffect>,
    ) {
        // It may fail again on its way.
        self.alone.entry(rank).or_insert(now);
        self.losses.goes_back(now);
        let state = &mut self.ranks[rank.index()];
        // Nothing is sent any more; others that come back alone must not wait for this one.
        let card = state.card.take();
        state.back();
        state.card = card;
        let (host, incarnation) = (state.host, state.incarnation);
        self.store_restoring(epoch, effects);
        let order = ToLocal::Restore {
            generation: self.generation,
            epoch,
            ranks: vec![(rank, incarnation)],
        };
        effects.push(CentralEffect::Send(host, order));
    }

    fn store_restoring(&self, epoch: Option<Epoch>, effects: &mut Vec<CentralEffect>) {
        effects.push(CentralEffect::Persist(Record::Restoring {
            generation: self.generation,
            epoch,
            incarnations: self.ranks.iter().map(|r| r.incarnation).collect(),
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
        if self.phase != Phase::Finalized {
            return;
        }
        let cards = self
            .ranks
            .iter()
            .map(|r| Some((r.incarnation, r.card.clone()?)));
        let Some(table) = cards.collect::<Option<Vec<_>>>() else {
            return;
        };
        let state = &self.ranks[rank.index()];
        let (host, incarnation) = (state.host, state.incarnation);
        let start = ToLocal::Start {
            generation: self.generation,
            table,
            image: None,
        };
        effects.push(CentralEffect::Send(host, start));
        if let Some(since) = self.alone.remove(&rank) {
            let epoch = self.mode.last_checkpoint();
            self.tell_back(now, epoch, since, Some((rank, incarnation)), effects);
        }
    }

    /// Central was started again: these are coming back alone.
    pub(in crate::central) fn alone_again(&mut self, waiting: &[Rank]) {
        for (rank, state) in (0u32..).map(Rank).zip(&self.ranks) {
            let begins = state.stage == Stage::Spawned && !state.ended;
            if begins || waiting.contains(&rank) {
                self.alone.insert(rank, self.losses.since());
            }
        }
    }

    /// A rank that was restored alone is released, like all ranks before.
    pub(in crate::central) fn let_go_alone(
        &mut self,
        rank: Rank,
        effects: &mut Vec<CentralEffect>,
    ) {
        let generation = self.generation;
        let host = self.ranks[rank.index()].host;
        effects.push(CentralEffect::Send(
            host,
            ToLocal::AllFinalized { generation },
        ));
    }

    /// Every rank is back.
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
        self.tell_recovered(now, restoring, effects);
    }

    /// Says so, once it is known how everyone ended.
    pub(in crate::central) fn tell_recovered(
        &mut self,
        now: Time,
        restoring: &GlobalRestore,
        effects: &mut Vec<CentralEffect>,
    ) {
        self.tell_back(now, restoring.epoch, restoring.since, None, effects);
    }

    fn tell_back(
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
        let from = epoch.map_or(self.began, |_| checkpoints.committed_at()).0;
        let recovered = Event::Recovered {
            generation: self.generation,
            alone,
            epoch,
            took: now.0.saturating_sub(since.0),
            repeated: since.0.saturating_sub(from),
        };
        self.losses.tell(recovered);
        self.tell_of_recovery(effects);
    }
}

impl RankState {
    /// The next incarnation, of which nothing is known yet.
    fn back(&mut self) {
        self.incarnation = self.incarnation.next();
        self.stage = Stage::Spawned;
        self.pid = 0;
        self.card = None;
        self.ended = false;
    }
}
