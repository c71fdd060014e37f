//! Messages about checkpoints: central's requests and commits, and the reports and questions of
//! this host's ranks. Images that do not count are dropped.

use super::host_parts::{HostParts, keys};
use super::image_table::{ImageFileState, Superseded};
use super::inputs::LocalEffect;
use super::local_out::one_line;
use crate::handler_keys::handler;
use crate::levels::CommittedEpochs;
use crate::manager_messages::{
    FileMessage, ImageMessage, ImageOrder, ProcessInstance, Stage, ToCentral,
};
use rejoin_channel_table::{Epoch, Generation, ImageId, Rank};
use rejoin_wire::{FromManager, ImageCost, MOST_CAVEATS};

handler! {
    /// Images of the ranks of this host.
    pub(super) ImageHandler of HostParts {
        changes { processes, images, copies, out }
        reads { course, moves }
    }
}

impl ImageHandler<'_> {
    /// All ranks of this host have left it: rollbacks do not concern it, but it may have images. It
    /// enters this generation then, unless it is older.
    fn has_only_images(&mut self, generation: Generation) -> bool {
        let runs = self.course.runs();
        let enters = runs && self.processes.is_empty() && generation > self.processes.generation();
        if enters {
            self.processes.enter(generation);
        }
        enters
    }

    /// An order about images.
    pub fn order(&mut self, order: ImageOrder) {
        let present = self.processes.generation();
        match order {
            ImageOrder::Checkpoint { generation, epoch } if generation == present => {
                self.request_images(generation, epoch, None);
            }
            ImageOrder::CheckpointRanks {
                generation,
                epoch,
                ranks,
            } if generation == present => {
                self.request_images(generation, epoch, Some(ranks));
            }
            ImageOrder::Commit {
                generation,
                epochs,
                abandoned,
            } if generation == present || self.has_only_images(generation) => {
                self.commit(epochs, abandoned);
            }
            ImageOrder::CommitGroup {
                generation,
                ranks,
                epoch,
                released,
            } if generation == present => self.commit_group(&ranks, (epoch, released)),
            ImageOrder::WriteImages { ranks, epoch } => self.write_images(epoch, &ranks),
            // Stale news of an older generation.
            ImageOrder::Checkpoint { .. }
            | ImageOrder::CheckpointRanks { .. }
            | ImageOrder::Commit { .. }
            | ImageOrder::CommitGroup { .. } => {}
        }
    }

    /// Central requests a checkpoint of these ranks; `None`: of all.
    fn request_images(&mut self, generation: Generation, epoch: Epoch, ranks: Option<Vec<Rank>>) {
        let all = || self.processes.iter().map(|p| p.instance().rank).collect();
        let to = self.begun(&ranks.unwrap_or_else(all));
        let request = FromManager::Checkpoint {
            generation,
            epoch,
            oldest: self.images.oldest_committed(),
        };
        self.out.push(LocalEffect::Ranks(to, request));
    }

    /// Those of these ranks that are in the job. One that has come back alone and waits for the
    /// table is not yet, and its image is committed.
    fn begun(&self, ranks: &[Rank]) -> Vec<Rank> {
        let inside = [Stage::Registered, Stage::Finalizing];
        let has_begun = |rank: &Rank| {
            let process = self.processes.of(*rank);
            process.is_some_and(|process| process.listens(&inside) && !process.waits())
        };
        ranks.iter().copied().filter(has_begun).collect()
    }

    /// A rank can't make an image.
    pub fn not_imaged(
        &mut self,
        instance: ProcessInstance,
        image: ImageId,
        why: String,
        outlives: bool,
    ) {
        self.out.report(ImageMessage::NotTaken {
            instance,
            image,
            why: one_line(&why),
            outlives,
        });
    }

    /// A rank has made an image.
    pub fn imaged(
        &mut self,
        instance: ProcessInstance,
        image: ImageId,
        cost: ImageCost,
        caveats: Vec<String>,
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
            self.out.push(LocalEffect::DropImage(instance.rank, image));
            return;
        }
        if moves.is_some()
            && let Some(caveat) = caveats.first()
        {
            self.out.push(LocalEffect::DropImage(instance.rank, image));
            let why = format!("a move would lose state of it: {}", one_line(caveat));
            return self.out.report(ImageMessage::NotTaken {
                instance,
                image,
                why,
                outlives: false,
            });
        }
        self.images.add(instance.rank, image);
        if let Some(ordered) = moves {
            self.images.write(instance.rank, image);
            self.out.push(LocalEffect::WriteImageOfMove(
                instance.rank,
                ordered.number,
                ordered.base,
            ));
        }
        if !caveats.is_empty() {
            let lines = caveats.iter().take(MOST_CAVEATS);
            let lines = lines.map(|line| one_line(line)).collect();
            self.out.push(LocalEffect::Caveats(instance.rank, lines));
        }
        self.out.report(ImageMessage::Taken {
            instance,
            image,
            cost,
        });
    }

    /// Only the images of these epochs count, and those of epochs that are not abandoned.
    fn commit(&mut self, committed: CommittedEpochs, abandoned: Epoch) {
        let moves = |rank, number| self.moves.find(rank, number).is_some();
        let superseded = self.images.commit(committed, abandoned, moves);
        self.out
            .effects
            .extend(superseded.into_iter().map(drop_superseded));
        let dropped = self.copies.keep(|epoch| self.images.counts(epoch));
        self.out
            .effects
            .extend(dropped.into_iter().map(LocalEffect::DropCopy));
        if let Some(epoch) = committed.writing {
            let ranks = self.processes.iter().map(|p| p.instance().rank);
            // Groups take turns.
            let ranks = ranks.filter(|rank| !self.images.is_of_group(*rank));
            let ranks: Vec<Rank> = ranks.collect();
            self.write_images(epoch, &ranks);
        }
        self.answer_askers();
    }

    /// The recovery group of these ranks has committed this checkpoint. The ranks learn of the one
    /// that is `released`, because their peers need not retain any more what it holds.
    fn commit_group(&mut self, ranks: &[Rank], (epoch, released): (Epoch, Option<Epoch>)) {
        let moves = |rank, number| self.moves.find(rank, number).is_some();
        let superseded = self.images.commit_group(ranks, epoch, moves);
        self.out
            .effects
            .extend(superseded.into_iter().map(drop_superseded));
        let Some(epoch) = released else {
            return;
        };
        let to = self.begun(ranks);
        let generation = self.processes.generation();
        let commit = FromManager::GroupCommitted { generation, epoch };
        self.out.push(LocalEffect::Ranks(to, commit));
    }

    /// Has the images of these ranks written to files, and repeats what central may not know.
    fn write_images(&mut self, epoch: Epoch, ranks: &[Rank]) {
        let image = ImageId::Checkpoint(epoch);
        for rank in ranks.iter().copied() {
            match self.images.write(rank, image) {
                Some(ImageFileState::Absent) => {
                    self.out.push(LocalEffect::WriteImage(rank, epoch));
                }
                Some(ImageFileState::Partial) => {}
                Some(ImageFileState::Whole) => {
                    self.out.report(FileMessage::Stored { rank, image });
                }
                None => {
                    let why = Some("its image is gone".to_string());
                    self.out.report(FileMessage::NotStored { rank, image, why });
                }
            }
        }
    }

    /// An image is in a file.
    pub fn image_stored(&mut self, rank: Rank, image: ImageId) {
        if self.images.set_file(rank, image, ImageFileState::Whole) {
            if let ImageId::Move(number) = image
                && let Some(ordered) = self.moves.find(rank, number)
                && !ordered.stops
            {
                // The rank must not copy pages for it any longer.
                self.out.push(LocalEffect::DropFromMemory(rank, image));
            }
            self.out.report(FileMessage::Stored { rank, image });
        }
    }

    /// An image can't be written to a file.
    pub fn image_not_stored(&mut self, rank: Rank, image: ImageId, why: Option<String>) {
        if self.images.set_file(rank, image, ImageFileState::Absent) {
            let why = why.map(|why| one_line(&why));
            self.out.report(FileMessage::NotStored { rank, image, why });
        }
    }

    /// A rank's program asks for a checkpoint later than this epoch, which may be there by now.
    pub fn on_request(&mut self, instance: ProcessInstance, after: Epoch) {
        let after = self.images.on_request_after(after);
        if let Some(process) = self.processes.find(instance.rank, instance.incarnation) {
            process.request(after);
        }
        self.answer_askers();
        let waits = self.processes.find(instance.rank, instance.incarnation);
        if waits.is_some_and(|process| process.requested().is_some()) {
            self.out.report(ImageMessage::Wanted { instance, after });
        }
    }

    /// Tells the ranks that asked for a checkpoint its result.
    fn answer_askers(&mut self) {
        let mut to = Vec::new();
        for process in self.processes.iter_mut() {
            if process.take_answered(|after| self.images.answers(after)) {
                to.push(process.instance().rank);
            }
        }
        if !to.is_empty() {
            let answer = self.images.answer(self.processes.generation());
            self.out.push(LocalEffect::Ranks(to, answer));
        }
    }

    /// The process of an image ended. `why`: this host has ended it.
    pub fn image_ended(&mut self, rank: Rank, image: ImageId, why: Option<String>) {
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
            self.out.report(lost);
            self.out.push(LocalEffect::DropImage(rank, image));
        }
    }
}

fn drop_superseded(image: Superseded) -> LocalEffect {
    match image {
        Superseded::Everywhere(rank, image) => LocalEffect::DropImage(rank, image),
        Superseded::InMemory(rank, image) => LocalEffect::DropFromMemory(rank, image),
    }
}
