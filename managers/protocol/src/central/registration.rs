//! From the start of the processes to the release of all ranks from `MPI_Init`.

use super::interface::{CentralEffect, Record};
use super::job_state::Central;
use super::phase::CentralPhase;
use super::recovery::GlobalRestore;
use crate::manager_messages::{Time, ToLocal};
use crate::verdict::Verdict;
use rejoin_channel_table::{BusinessCard, Incarnation, Rank};
use std::sync::Arc;

impl Central {
    /// The job's processes were first started at this time.
    pub(super) fn begins(&mut self, at: Time) {
        self.clock.begin(at);
        if let Some(checkpoints) = self.mode.checkpoints_mut() {
            checkpoints.begin(at);
        }
    }

    /// Starts the job's processes.
    pub(super) fn begin(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        self.begins(now);
        let generation = self.ranks.generation();
        effects.push(CentralEffect::Persist(Record::Began {
            generation,
            incarnations: self.ranks.incarnations(),
            at: now,
        }));
        match self.from {
            Some(epoch) => self.begin_from(now, epoch, effects),
            None => self.begin_above_requested(effects),
        }
        let by_host = self.ranks.by_host(self.hosts.len());
        self.hosts.with_ranks_take_part(&by_host);
        let hold = self.mode.recovers();
        for (host, ranks) in by_host.into_iter().enumerate() {
            if !ranks.is_empty() {
                let order = ToLocal::Spawn {
                    generation,
                    ranks,
                    hold,
                    from: self.from,
                    moved: Vec::new(),
                };
                self.hosts.begins(host);
                effects.push(CentralEffect::Send(host, order));
            }
        }
    }

    /// A rank called `MPI_Init`.
    pub(super) fn registered(&mut self, now: Time, rank: Rank, effects: &mut Vec<CentralEffect>) {
        self.compare(now, rank, effects);
        self.start_when_complete(now, effects);
        self.start_alone(now, rank, effects);
        self.start_group(now, rank, effects);
    }

    /// Ends the job if a rank goes by other settings than one that registered before it.
    pub(super) fn compare(&mut self, now: Time, rank: Rank, effects: &mut Vec<CentralEffect>) {
        if let Some(verdict) = self.ranks.differing(rank) {
            self.decide(now, verdict, effects);
        }
    }

    /// Lets the ranks start once all have registered. A rank that ended without registering can't
    /// come any more, so a wait for it would never end.
    pub(super) fn start_when_complete(&mut self, now: Time, effects: &mut Vec<CentralEffect>) {
        if !matches!(
            self.phase,
            CentralPhase::Starting | CentralPhase::Restoring(_)
        ) {
            return;
        }
        if let Some((rank, waiting)) = self.ranks.waits_for_absent() {
            return self.decide(now, Verdict::NeverRegistered { rank, waiting }, effects);
        }
        if let Some(table) = self.ranks.complete_table() {
            self.start(now, table, effects);
        }
    }

    fn start(
        &mut self,
        now: Time,
        table: Vec<(Incarnation, Arc<BusinessCard>)>,
        effects: &mut Vec<CentralEffect>,
    ) {
        let before = std::mem::replace(&mut self.phase, CentralPhase::Running);
        // The first image is taken without being asked, at the end of MPI_Init.
        let image = match &before {
            CentralPhase::Restoring(GlobalRestore { epoch: Some(_), .. }) => None,
            _ => self.request(now, effects),
        };
        let generation = self.ranks.generation();
        effects.push(CentralEffect::Persist(Record::Started {
            generation,
            table: table.clone(),
        }));
        let start = ToLocal::Start {
            generation,
            table,
            image,
        };
        self.hosts.spread(start, effects);
        if let CentralPhase::Restoring(restoring) = before {
            self.recovered(now, &restoring, effects);
        }
    }
}
