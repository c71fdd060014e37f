//! Ranks roll back: the present processes retire, and when all of them have, images take over.
//!
//! No new process sends before all old ones are stopped. A process that was stopped in the middle
//! of a write must not end that write beside its successor.

use super::host_rollback::LocalRestore;
use super::host_state::Local;
use super::inputs::LocalEffect;
use crate::control::ProcessInstance;
use rejoin_channel_table::{Epoch, Generation, Incarnation, Rank};

impl Local {
    /// Central's order. One that comes before the last was carried out replaces it.
    pub(super) fn restore(
        &mut self,
        generation: Generation,
        epoch: Option<Epoch>,
        mut ranks: Vec<(Rank, Incarnation)>,
        effects: &mut Vec<LocalEffect>,
    ) {
        // One that came before, from a central manager that has died since.
        ranks.retain(|(rank, incarnation)| self.ordered(*rank) < Some(*incarnation));
        if ranks.is_empty() {
            return;
        }
        // Others that come back alone, too, do so still.
        let adds = generation == self.processes.generation();
        self.processes.enter(generation);
        for (rank, _) in &ranks {
            if let Some(process) = self.processes.of_mut(*rank)
                && process.retire()
            {
                let ProcessInstance {
                    rank, incarnation, ..
                } = process.instance();
                effects.push(LocalEffect::Retire(rank, incarnation));
            }
        }
        self.restore.order(LocalRestore { epoch, ranks }, adds);
        self.take_over(effects);
    }

    /// The incarnation of a rank that was last ordered.
    pub(super) fn ordered(&self, rank: Rank) -> Option<Incarnation> {
        let present = self.processes.of(rank)?.instance().incarnation;
        self.restore.to_come(rank).chain([present]).max()
    }

    /// A process is out of the way.
    pub(super) fn has_retired(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let process = self.processes.find(rank, incarnation);
        if process.is_some_and(|process| process.has_retired()) {
            self.take_over(effects);
        }
    }

    /// Once all are out of the way, their successors begin.
    fn take_over(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.processes.iter().any(|p| p.delays_successor()) {
            return;
        }
        let Some(restoring) = self.restore.take() else {
            return;
        };
        for (rank, incarnation) in restoring.ranks {
            let instance = self.processes.instance(rank, incarnation);
            let Some(process) = self.processes.of(rank) else {
                continue;
            };
            self.restore
                .leaves_behind(rank, process.instance().incarnation);
            self.processes.renew(instance, restoring.epoch.is_some());
            match restoring.epoch {
                None => effects.push(LocalEffect::Spawn(instance)),
                Some(epoch) if self.images.contains(rank, epoch) => {
                    effects.push(LocalEffect::Restore(instance, epoch));
                }
                Some(epoch) => {
                    let why = format!("its image of checkpoint {epoch} is gone");
                    self.not_started(rank, incarnation, why, effects);
                }
            }
        }
    }

    /// Ends the processes whose successors have all begun; until then that would only keep the
    /// cores busy with taking down memory.
    pub(super) fn discard_retired(&mut self, effects: &mut Vec<LocalEffect>) {
        for (rank, incarnation) in self.restore.take_retired() {
            effects.push(LocalEffect::Discard(rank, incarnation));
        }
    }
}
