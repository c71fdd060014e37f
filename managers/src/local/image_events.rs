//! What ranks report of their images, and what images say.

use super::LocalManager;
use super::images::{ImageEvent, ImageReport};
use crate::error::Result;
use crate::fault::{self, Point};
use crate::launch::local_messages::LocalToMpirun;
use crate::net::reactor::Token;
use crate::stdio::Stream;
use rejoin_channel_table::{Generation, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_wire::ToManager;

/// The probable reason why a descriptor did not arrive.
const NO_MORE_FILES: &str = "the local manager may have no more open files (ulimit -n)";

impl LocalManager {
    /// A rank reports a new image, and passes its descriptors.
    pub(super) fn take_image(&mut self, slot: usize, pid: u32, message: ToManager) {
        let ToManager::Imaged {
            generation,
            image: id,
            streams,
            ref holds,
            ..
        } = message
        else {
            return;
        };
        fault::at(Point::ImageAnnounced);
        let zygote = self.ranks[slot].take_handed();
        let mut partial = [Vec::new(), Vec::new()];
        for (stream, renewed) in [Stream::Out, Stream::Err].into_iter().zip(streams) {
            let pipe = match renewed {
                true => self.ranks[slot].take_handed(),
                false => None,
            };
            if renewed && pipe.is_none() {
                // The rank writes to this pipe already, and nobody can read what it writes.
                let why = format!("its output's pipe did not arrive: {NO_MORE_FILES}");
                return self.told(slot, |rank, incarnation| {
                    LocalInput::Malformed(rank, incarnation, why)
                });
            }
            partial[stream as usize] =
                self.outputs
                    .renew(slot, stream, pipe, &mut self.mpirun, &self.reactor);
        }
        let rank = self.ranks[slot].rank();
        let mark = LocalToMpirun::Mark { rank, image: id };
        let marked = self.mpirun.tell(&mark).is_ok();
        if let Some(input) = &mut self.input
            && !input.note_image(rank, id, holds.input)
        {
            let why = "its standard input was being filled at that moment".to_string();
            return self.not_imaged(slot, pid, (generation, id), why);
        }
        let Some(zygote) = zygote else {
            let why = format!("the image's socket did not arrive: {NO_MORE_FILES}");
            return self.not_imaged(slot, pid, (generation, id), why);
        };
        let input = self.input.as_ref();
        let read = input.and_then(|input| input.position_of(rank, id));
        let report = ImageReport {
            incarnation: self.ranks[slot].incarnation(),
            pid,
            message,
        };
        let added = self
            .images
            .add(slot, report, zygote, (partial, read), &self.reactor);
        if added.is_err() || !marked {
            self.images.drop_image(slot, id, &self.reactor);
            self.told(slot, |rank, _| LocalInput::ImageEnded(rank, id));
        }
    }

    /// An image can't be used: the last checkpoint stands.
    fn not_imaged(
        &mut self,
        slot: usize,
        pid: u32,
        (generation, image): (Generation, ImageId),
        why: String,
    ) {
        let message = ToManager::NotImaged {
            generation,
            image,
            why,
            outlives: false,
        };
        self.told(slot, |rank, incarnation| {
            LocalInput::Said(rank, incarnation, pid, message)
        });
    }

    /// The images of these checkpoints count from now on.
    pub(super) fn committed(&mut self, epochs: CommittedEpochs) {
        if let Some(newest) = epochs.memory {
            self.images.commit(newest);
            if let Some(starter) = &self.starter {
                starter.set_committed(newest);
            }
        }
        self.images.files_committed(epochs.file);
        if let (Some(oldest), Some(input)) = (epochs.oldest(), &mut self.input) {
            input.committed(oldest);
        }
    }

    /// Has an image written to a file. If the rank moves with it, the file refers to that of the
    /// image `base`.
    pub(super) fn write_image(&mut self, rank: Rank, id: ImageId, base: Option<MoveNumber>) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        if let Err(why) = self.images.write_file(slot, id, base, &self.reactor) {
            self.queue
                .push_back(LocalInput::ImageNotStored(rank, id, Some(why)));
        }
    }

    /// Files of images have got their names.
    pub(super) fn take_named_files(&mut self) {
        while let Some((slot, id, event)) = self.images.next_named() {
            self.file_event(slot, id, event);
        }
    }

    /// The file of an image is whole, or there is none.
    fn file_event(&mut self, slot: usize, id: ImageId, event: ImageEvent) {
        let rank = self.ranks[slot].rank();
        match event {
            ImageEvent::Stored => self.queue.push_back(LocalInput::ImageStored(rank, id)),
            ImageEvent::NotStored { why } => {
                self.queue
                    .push_back(LocalInput::ImageNotStored(rank, id, why));
            }
            _ => {}
        }
    }

    /// Ends the process of an image, which is in a file, unless it is just making a rank's process.
    pub(super) fn drop_from_memory(&mut self, rank: Rank, id: ImageId) {
        if let Some(slot) = self.slot(rank)
            && !self.restores.is_from(slot, id)
        {
            self.images.drop_process(slot, id, &self.reactor);
        }
    }

    /// Reads the messages of an image.
    pub(super) fn image_event(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        loop {
            let Some((id, event)) = self.images.event(token, &self.reactor) else {
                return Ok(());
            };
            let rank = self.ranks[slot].rank();
            match event {
                ImageEvent::Whole {
                    report,
                    shares_files,
                } => {
                    if let Some(report) = report {
                        self.image_said(slot, report);
                    }
                    if shares_files {
                        let line = "its images share open files with it that they can't open anew: \
                                    a lock of one stays when the rank closes it";
                        let lines = vec![line.to_string()];
                        self.mpirun.tell(&LocalToMpirun::Caveats { rank, lines })?;
                    }
                }
                ImageEvent::Written => {}
                event @ (ImageEvent::Stored | ImageEvent::NotStored { .. }) => {
                    self.file_event(slot, id, event);
                }
                ImageEvent::Incomplete { report, missing } => {
                    if let Some(report) = report {
                        let why = format!(
                            "{missing} bytes of its memory are marked to stay out of clones"
                        );
                        self.image_said(slot, refused(report, why));
                    }
                }
                ImageEvent::Running { pid } => self.arrived(slot, id, pid)?,
                // A later order for the rank is not concerned.
                ImageEvent::Failed { why } if self.restores.is_from(slot, id) => {
                    self.not_arrived(slot, why);
                }
                ImageEvent::Failed { .. } => {}
                ImageEvent::Lost { why } => self.image_lost(slot, id, &why),
            }
        }
    }

    fn image_said(&mut self, slot: usize, report: ImageReport) {
        let ImageReport {
            incarnation,
            pid,
            message,
        } = report;
        let rank = self.ranks[slot].rank();
        self.queue
            .push_back(LocalInput::Said(rank, incarnation, pid, message));
    }

    /// Drops an image. The job may have rolled back to an earlier one while this one was making a
    /// process, whose answer can't come any more.
    pub(super) fn drop_image(&mut self, rank: Rank, id: ImageId) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let restoring = self.restores.is_from(slot, id);
        if self.images.drop_image(slot, id, &self.reactor) && restoring {
            self.not_arrived(slot, "its image does not count any more".into());
        }
    }

    /// Drops everything that a recovery would need.
    pub(super) fn drop_all_images(&mut self) {
        self.images.drop_all(&self.reactor);
        self.ranks.iter().for_each(|rank| rank.discard(None));
    }

    /// An image is gone without our doing.
    pub(super) fn image_lost(&mut self, slot: usize, id: ImageId, why: &str) {
        let rank = self.ranks[slot].rank();
        tracing::warn!(rank = rank.0, %id, why, "an image is lost");
        let restoring = self.restores.is_from(slot, id);
        if self.images.outlives_process(slot, id, &self.reactor) {
            if restoring && let Err(error) = self.restore_from_file(slot) {
                self.not_arrived(slot, format!("its image: {error}"));
            }
            return;
        }
        if restoring {
            self.not_arrived(slot, format!("its image: {why}"));
        }
        // That of a move is of no use to another launch.
        let known = match id {
            ImageId::Move(_) => self.images.drop_image(slot, id, &self.reactor),
            ImageId::Checkpoint(_) => self.images.lose_image(slot, id, &self.reactor),
        };
        if known {
            self.queue.push_back(LocalInput::ImageEnded(rank, id));
        }
    }
}

/// The report of an image that can't be used, as one of an image that was not taken.
fn refused(report: ImageReport, why: String) -> ImageReport {
    let message = match report.message {
        ToManager::Imaged {
            generation, image, ..
        } => ToManager::NotImaged {
            generation,
            image,
            why,
            outlives: false,
        },
        other => other,
    };
    ImageReport { message, ..report }
}
