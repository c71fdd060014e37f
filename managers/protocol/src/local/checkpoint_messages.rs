//! Messages about checkpoints: central's requests and commits, and the reports and questions of
//! this host's ranks. Images that do not count are dropped.

use super::host_state::Local;
use super::image_table::{ImageFileState, Superseded};
use super::inputs::LocalEffect;
use super::rank_messages::one_line;
use crate::levels::CommittedEpochs;
use crate::manager_messages::{
    Cause, FileMessage, ImageMessage, ProcessInstance, Stage, ToCentral,
};
use rejoin_channel_table::{Epoch, Generation, ImageId, Rank};
use rejoin_wire::{FromManager, ImageCost, MOST_CAVEATS, ToManager};

impl Local {
    /// Central requests a checkpoint of these ranks.
    pub(super) fn request_images(
        &self,
        generation: Generation,
        epoch: Epoch,
        is_asked: impl Fn(Rank) -> bool,
        effects: &mut Vec<LocalEffect>,
    ) {
        let mut to = self.begun();
        to.retain(|rank| is_asked(*rank));
        let request = FromManager::Checkpoint { generation, epoch };
        effects.push(LocalEffect::Ranks(to, request));
    }

    /// The ranks that are in the job. One that has come back alone and waits for the table is not
    /// yet, and its image is committed.
    fn begun(&self) -> Vec<Rank> {
        let inside = [Stage::Registered, Stage::Finalizing];
        let mut ranks = self.processes.listening(&inside);
        ranks.retain(|rank| {
            let process = self.processes.of(*rank);
            process.is_some_and(|process| !process.waits())
        });
        ranks
    }

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
                let why = "it reported an image before it called MPI_Init".to_string();
                let cause = Cause::Misbehaved { why };
                self.fail(instance.rank, instance.incarnation, cause, effects);
            }
            ToManager::Imaged {
                image,
                cost,
                caveats,
                ..
            } => self.imaged(instance, image, cost, caveats, effects),
            ToManager::NotImaged {
                image,
                why,
                outlives,
                ..
            } => {
                let why = one_line(&why);
                self.tell(
                    ImageMessage::NotTaken {
                        instance,
                        image,
                        why,
                        outlives,
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
        image: ImageId,
        cost: ImageCost,
        caveats: Vec<String>,
        effects: &mut Vec<LocalEffect>,
    ) {
        let moves = match image {
            ImageId::Checkpoint(_) => None,
            ImageId::Move(number) => self.moves.find(instance.rank, number),
        };
        let is_late = match image {
            ImageId::Checkpoint(epoch) => self.images.is_abandoned(epoch),
            ImageId::Move(_) => moves.is_none(),
        };
        if is_late {
            effects.push(LocalEffect::DropImage(instance.rank, image));
            return;
        }
        if moves.is_some()
            && let Some(caveat) = caveats.first()
        {
            effects.push(LocalEffect::DropImage(instance.rank, image));
            let why = format!("a move would lose state of it: {}", one_line(caveat));
            return self.tell(
                ImageMessage::NotTaken {
                    instance,
                    image,
                    why,
                    outlives: false,
                },
                effects,
            );
        }
        self.images.add(instance.rank, image);
        if let Some(ordered) = moves {
            self.images.write(instance.rank, image);
            effects.push(LocalEffect::WriteImageOfMove(
                instance.rank,
                ordered.number,
                ordered.base,
            ));
        }
        if !caveats.is_empty() {
            let lines = caveats.iter().take(MOST_CAVEATS);
            let lines = lines.map(|line| one_line(line)).collect();
            effects.push(LocalEffect::Caveats(instance.rank, lines));
        }
        self.tell(
            ImageMessage::Taken {
                instance,
                image,
                cost,
            },
            effects,
        );
    }

    /// Only the images of these epochs count, and those of epochs that are not abandoned.
    pub(super) fn commit(
        &mut self,
        committed: CommittedEpochs,
        abandoned: Epoch,
        effects: &mut Vec<LocalEffect>,
    ) {
        let moves = |rank, number| self.moves.find(rank, number).is_some();
        let superseded = self.images.commit(committed, abandoned, moves);
        effects.extend(superseded.into_iter().map(drop_superseded));
        let dropped = self.copies.keep(|epoch| self.images.counts(epoch));
        effects.extend(dropped.into_iter().map(LocalEffect::DropCopy));
        if let Some(epoch) = committed.writing {
            let ranks = self.processes.iter().map(|p| p.instance().rank);
            // Groups take turns.
            let ranks = ranks.filter(|rank| !self.images.is_of_group(*rank));
            let ranks: Vec<Rank> = ranks.collect();
            self.write_images(epoch, &ranks, effects);
        }
        self.answer_askers(effects);
    }

    /// The recovery group of these ranks has committed this checkpoint. The ranks learn of the one
    /// that is `released`, because their peers need not retain any more what it holds.
    pub(super) fn commit_group(
        &mut self,
        ranks: &[Rank],
        (epoch, released): (Epoch, Option<Epoch>),
        effects: &mut Vec<LocalEffect>,
    ) {
        let moves = |rank, number| self.moves.find(rank, number).is_some();
        let superseded = self.images.commit_group(ranks, epoch, moves);
        effects.extend(superseded.into_iter().map(drop_superseded));
        let Some(epoch) = released else {
            return;
        };
        let mut to = self.begun();
        to.retain(|rank| ranks.contains(rank));
        let generation = self.processes.generation();
        let commit = FromManager::GroupCommitted { generation, epoch };
        effects.push(LocalEffect::Ranks(to, commit));
    }

    /// Has the images of these ranks written to files, and repeats what central may not know.
    pub(super) fn write_images(
        &mut self,
        epoch: Epoch,
        ranks: &[Rank],
        effects: &mut Vec<LocalEffect>,
    ) {
        let image = ImageId::Checkpoint(epoch);
        for rank in ranks.iter().copied() {
            match self.images.write(rank, image) {
                Some(ImageFileState::Absent) => {
                    effects.push(LocalEffect::WriteImage(rank, epoch));
                }
                Some(ImageFileState::Partial) => {}
                Some(ImageFileState::Whole) => {
                    self.tell(FileMessage::Stored { rank, image }, effects);
                }
                None => {
                    let why = Some("its image is gone".to_string());
                    self.tell(FileMessage::NotStored { rank, image, why }, effects);
                }
            }
        }
    }

    /// An image is in a file.
    pub(super) fn image_stored(
        &mut self,
        rank: Rank,
        image: ImageId,
        effects: &mut Vec<LocalEffect>,
    ) {
        if self.images.set_file(rank, image, ImageFileState::Whole) {
            if let ImageId::Move(number) = image
                && let Some(ordered) = self.moves.find(rank, number)
                && !ordered.stops
            {
                // The rank must not copy pages for it any longer.
                effects.push(LocalEffect::DropFromMemory(rank, image));
            }
            self.tell(FileMessage::Stored { rank, image }, effects);
        }
    }

    /// An image can't be written to a file.
    pub(super) fn image_not_stored(
        &mut self,
        rank: Rank,
        image: ImageId,
        why: Option<String>,
        effects: &mut Vec<LocalEffect>,
    ) {
        if self.images.set_file(rank, image, ImageFileState::Absent) {
            let why = why.map(|why| one_line(&why));
            self.tell(FileMessage::NotStored { rank, image, why }, effects);
        }
    }

    /// A rank's program asks for a checkpoint later than this epoch, which may be there by now.
    pub(super) fn asked_for(
        &mut self,
        instance: ProcessInstance,
        after: Epoch,
        effects: &mut Vec<LocalEffect>,
    ) {
        let after = self.images.asked_after(after);
        if let Some(process) = self.processes.find(instance.rank, instance.incarnation) {
            process.ask(after);
        }
        self.answer_askers(effects);
        let waits = self.processes.find(instance.rank, instance.incarnation);
        if waits.is_some_and(|process| process.asked().is_some()) {
            self.tell(ImageMessage::Wanted { instance, after }, effects);
        }
    }

    /// Tells the ranks that asked for a checkpoint its result.
    fn answer_askers(&mut self, effects: &mut Vec<LocalEffect>) {
        let mut to = Vec::new();
        for process in self.processes.iter_mut() {
            if process.take_answered(|after| self.images.answers(after)) {
                to.push(process.instance().rank);
            }
        }
        if !to.is_empty() {
            let answer = self.images.answer(self.processes.generation());
            effects.push(LocalEffect::Ranks(to, answer));
        }
    }

    /// The process of an image ended. `why`: this host has ended it.
    pub(super) fn image_ended(
        &mut self,
        rank: Rank,
        image: ImageId,
        why: Option<String>,
        effects: &mut Vec<LocalEffect>,
    ) {
        let Some(process) = self.processes.of(rank) else {
            return;
        };
        let incarnation = process.instance().incarnation;
        // Central may still wait for an image that no rank has reported.
        if self.images.remove(rank, image) || self.images.counts_of(rank, image) {
            let instance = self.processes.instance(rank, incarnation);
            let why = why.map(|why| one_line(&why));
            let lost = ToCentral::Image(ImageMessage::Lost {
                instance,
                image,
                why,
            });
            self.tell(lost, effects);
            effects.push(LocalEffect::DropImage(rank, image));
        }
    }
}

fn drop_superseded(image: Superseded) -> LocalEffect {
    match image {
        Superseded::Everywhere(rank, image) => LocalEffect::DropImage(rank, image),
        Superseded::InMemory(rank, image) => LocalEffect::DropFromMemory(rank, image),
    }
}
