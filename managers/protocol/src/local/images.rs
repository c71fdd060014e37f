//! Images of this host's ranks: counted, kept, dropped.

use super::{Local, LocalEffect, one_line};
use crate::control::{Cause, ProcessInstance, Stage, ToCentral};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_wire::ImageCost;
use rejoin_wire::{FromManager, MOST_CAVEATS, ToManager};

impl Local {
    /// A rank's report about an image.
    pub(super) fn said_of_image(
        &mut self,
        instance: ProcessInstance,
        stage: Stage,
        message: ToManager,
        effects: &mut Vec<LocalEffect>,
    ) {
        match message {
            _ if stage == Stage::Spawned => {
                let why = "it spoke of an image before it called MPI_Init".to_string();
                let cause = Cause::Misbehaved { why };
                self.fail(instance.rank, instance.incarnation, cause, effects);
            }
            ToManager::Imaged {
                epoch,
                pid,
                cost,
                caveats,
                ..
            } => self.imaged(instance, epoch, pid, cost, caveats, effects),
            ToManager::NotImaged { epoch, why, .. } => {
                let why = one_line(&why);
                self.tell(
                    ToCentral::NotImaged {
                        instance,
                        epoch,
                        why,
                    },
                    effects,
                );
            }
            _ => {}
        }
    }

    /// A rank has made an image.
    fn imaged(
        &mut self,
        instance: ProcessInstance,
        epoch: Epoch,
        pid: u32,
        cost: ImageCost,
        caveats: Vec<String>,
        effects: &mut Vec<LocalEffect>,
    ) {
        if epoch <= self.abandoned {
            effects.push(LocalEffect::DropImage(instance.rank, epoch));
            return;
        }
        let Some(process) = self.find(instance.rank, instance.incarnation) else {
            return;
        };
        process.images.insert(epoch, pid);
        if !caveats.is_empty() {
            let lines = caveats.iter().take(MOST_CAVEATS);
            let lines = lines.map(|line| one_line(line)).collect();
            effects.push(LocalEffect::Caveats(instance.rank, lines));
        }
        self.tell(
            ToCentral::Imaged {
                instance,
                epoch,
                cost,
            },
            effects,
        );
    }

    /// Only the images of this epoch count, and those of epochs that are not abandoned.
    pub(super) fn keep(
        &mut self,
        kept: Option<Epoch>,
        abandoned: Epoch,
        effects: &mut Vec<LocalEffect>,
    ) {
        self.kept = kept;
        self.abandoned = self.abandoned.max(abandoned);
        if !std::mem::take(&mut self.resumed) {
            self.refused = self.refused.max(abandoned);
        }
        let abandoned = self.abandoned;
        for process in &mut self.ranks {
            process.images.retain(|epoch, _| {
                let counts = Some(*epoch) == kept || *epoch > abandoned;
                if !counts {
                    effects.push(LocalEffect::DropImage(process.instance.rank, *epoch));
                }
                counts
            });
        }
        self.answer_askers(effects);
    }

    /// A rank's program asks for a checkpoint later than this epoch, which may be there by now.
    pub(super) fn asked_for(
        &mut self,
        instance: ProcessInstance,
        after: Epoch,
        effects: &mut Vec<LocalEffect>,
    ) {
        // A rank that rolled back does not know which numbers were given up by that; it asks for
        // none of them.
        let after = match self.kept {
            Some(kept) if kept > after => after,
            _ => after.max(self.abandoned),
        };
        if let Some(process) = self.find(instance.rank, instance.incarnation) {
            process.asked = Some(after);
        }
        self.answer_askers(effects);
        let waits = self.find(instance.rank, instance.incarnation);
        if waits.is_some_and(|process| process.asked.is_some()) {
            self.tell(ToCentral::Checkpoint { instance, after }, effects);
        }
    }

    /// Tells the ranks that asked for a checkpoint what became of it.
    fn answer_askers(&mut self, effects: &mut Vec<LocalEffect>) {
        let latest = self.refused.max(self.kept.unwrap_or_default());
        let mut to = Vec::new();
        for process in &mut self.ranks {
            if process.asked.take_if(|after| *after < latest).is_some() {
                to.push(process.instance.rank);
            }
        }
        if !to.is_empty() {
            let kept = FromManager::Kept {
                generation: self.generation,
                epoch: self.kept,
                abandoned: self.refused,
            };
            effects.push(LocalEffect::Ranks(to, kept));
        }
    }

    /// The process of an image ended.
    pub(super) fn image_ended(&mut self, rank: Rank, epoch: Epoch, effects: &mut Vec<LocalEffect>) {
        let Some(process) = self.ranks.iter_mut().find(|r| r.instance.rank == rank) else {
            return;
        };
        // One of which nothing was said yet would be waited for.
        let counts = epoch > self.abandoned || Some(epoch) == self.kept;
        if process.images.remove(&epoch).is_some() || counts {
            let incarnation = process.instance.incarnation;
            let instance = self.instance(rank, incarnation);
            self.tell(ToCentral::ImageLost { instance, epoch }, effects);
            effects.push(LocalEffect::DropImage(rank, epoch));
        }
    }
}
