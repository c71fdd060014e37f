//! Ranks roll back: the present processes retire, and when all of them have, images take over.
//!
//! No new process sends before all old ones are stopped. A process that was stopped in the middle
//! of a write must not end that write beside its successor.

use super::host_rollback::LocalRestore;
use super::host_state::Local;
use super::inputs::LocalEffect;
use super::process::Retire;
use crate::control::{Cause, End, ProcessInstance};
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
        let renewed = |instance: ProcessInstance| {
            let same = |(rank, incarnation): &(Rank, Incarnation)| {
                *rank == instance.rank && *incarnation > instance.incarnation
            };
            ranks.iter().any(same)
        };
        self.exits
            .retain(|exit| exit.was_detected() || !renewed(exit.instance()));
        // Others that come back alone, too, do so still.
        let adds = generation == self.processes.generation();
        self.processes.enter(generation);
        for (rank, _) in &ranks {
            let Some(process) = self.processes.of_mut(*rank) else {
                continue;
            };
            process.suspect = None;
            if process.retire == Retire::No {
                process.retire = Retire::Asked;
                let ProcessInstance {
                    rank, incarnation, ..
                } = process.instance;
                effects.push(LocalEffect::Retire(rank, incarnation));
            }
        }
        self.restore.order(LocalRestore { epoch, ranks }, adds);
        self.take_over(effects);
    }

    /// The incarnation of a rank that was last ordered.
    pub(super) fn ordered(&self, rank: Rank) -> Option<Incarnation> {
        let present = self.processes.of(rank)?.instance.incarnation;
        self.restore.to_come(rank).chain([present]).max()
    }

    /// A process is out of the way.
    pub(super) fn has_retired(
        &mut self,
        rank: Rank,
        incarnation: Incarnation,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self
            .processes
            .find(rank, incarnation)
            .filter(|process| process.retire == Retire::Asked)
        else {
            return;
        };
        process.retire = Retire::Done;
        self.take_over(effects);
    }

    /// Once all are out of the way, their successors begin.
    fn take_over(&mut self, effects: &mut Vec<LocalEffect>) {
        if self.processes.iter().any(|p| p.retire == Retire::Asked) {
            return;
        }
        let Some(restoring) = self.restore.take() else {
            return;
        };
        for (rank, incarnation) in restoring.ranks {
            let instance = self.processes.instance(rank, incarnation);
            let Some(process) = self.processes.of_mut(rank) else {
                continue;
            };
            self.restore
                .leaves_behind(rank, process.instance.incarnation);
            process.renew(instance, restoring.epoch.is_some());
            let there = |epoch: &Epoch| process.images.contains_key(epoch);
            let (image, lost) = (restoring.epoch.filter(there), restoring.epoch);
            match (image, lost) {
                (Some(epoch), _) => effects.push(LocalEffect::Wake(instance, epoch)),
                (None, None) => effects.push(LocalEffect::Spawn(instance)),
                (None, Some(epoch)) => {
                    if let Some(process) = self.processes.find(rank, incarnation) {
                        process.child_end = Some(End::Unknown);
                    }
                    let why = format!("its image of checkpoint {epoch} is gone");
                    self.fail(rank, incarnation, Cause::NotStarted { why }, effects);
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
