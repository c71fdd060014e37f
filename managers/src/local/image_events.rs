//! What ranks report of their images, and what images say.

use super::LocalManager;
use super::images::{ImageEvent, ImageReport};
use crate::error::Result;
use crate::fault::{self, Point};
use crate::launch::local_messages::LocalToMpirun;
use crate::net::reactor::Token;
use crate::stdio::Stream;
use rejoin_channel_table::{Epoch, Generation, Rank};
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
            epoch,
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
        let mark = LocalToMpirun::Mark { rank, epoch };
        let marked = self.mpirun.tell(&mark).is_ok();
        if let Some(input) = &mut self.input
            && !input.note_image(rank, epoch, holds.input)
        {
            let why = "its standard input was being filled at that moment".to_string();
            return self.not_imaged(slot, pid, (generation, epoch), why);
        }
        let Some(zygote) = zygote else {
            let why = format!("the image's socket did not arrive: {NO_MORE_FILES}");
            return self.not_imaged(slot, pid, (generation, epoch), why);
        };
        let input = self.input.as_ref();
        let read = input.and_then(|input| input.position_of(rank, epoch));
        let report = ImageReport {
            incarnation: self.ranks[slot].incarnation(),
            pid,
            message,
        };
        let added = self
            .images
            .add(slot, report, zygote, (partial, read), &self.reactor);
        if added.is_err() || !marked {
            self.images.drop_image(slot, epoch, &self.reactor);
            self.told(slot, |rank, _| LocalInput::ImageEnded(rank, epoch));
        }
    }

    /// An image can't be used: the last checkpoint stands.
    fn not_imaged(
        &mut self,
        slot: usize,
        pid: u32,
        (generation, epoch): (Generation, Epoch),
        why: String,
    ) {
        let message = ToManager::NotImaged {
            generation,
            epoch,
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
        if let (Some(oldest), Some(input)) = (epochs.oldest(), &mut self.input) {
            input.committed(oldest);
        }
    }

    /// Has an image written to a file. `of_move`: it is one with which the rank moves; the file
    /// refers to that of the image with the inner number.
    pub(super) fn write_image(&mut self, rank: Rank, epoch: Epoch, of_move: Option<Option<Epoch>>) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        if let Err(why) = self.images.write_file(slot, epoch, of_move, &self.reactor) {
            self.queue
                .push_back(LocalInput::ImageNotStored(rank, epoch, Some(why)));
        }
    }

    /// Files of images have got their names.
    pub(super) fn take_named_files(&mut self) {
        while let Some((slot, epoch, event)) = self.images.next_named() {
            self.file_event(slot, epoch, event);
        }
    }

    /// The file of an image is whole, or there is none.
    fn file_event(&mut self, slot: usize, epoch: Epoch, event: ImageEvent) {
        let rank = self.ranks[slot].rank();
        match event {
            ImageEvent::Stored => self.queue.push_back(LocalInput::ImageStored(rank, epoch)),
            ImageEvent::NotStored { why } => {
                self.queue
                    .push_back(LocalInput::ImageNotStored(rank, epoch, why));
            }
            _ => {}
        }
    }

    /// Ends the process of an image, which is in a file, unless it is just making a rank's process.
    pub(super) fn drop_from_memory(&mut self, rank: Rank, epoch: Epoch) {
        if let Some(slot) = self.slot(rank)
            && !self.restores.is_from(slot, epoch)
        {
            self.images.drop_process(slot, epoch, &self.reactor);
        }
    }

    /// Reads the messages of an image.
    pub(super) fn image_event(&mut self, token: Token) -> Result<()> {
        let slot = token.index as usize;
        loop {
            let Some((epoch, event)) = self.images.event(token, &self.reactor) else {
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
                    self.file_event(slot, epoch, event);
                }
                ImageEvent::Incomplete { report, missing } => {
                    if let Some(report) = report {
                        let why = format!(
                            "{missing} bytes of its memory are marked to stay out of clones"
                        );
                        self.image_said(slot, refused(report, why));
                    }
                }
                ImageEvent::Running { pid } => self.arrived(slot, epoch, pid)?,
                // A later order for the rank is not concerned.
                ImageEvent::Failed { why } if self.restores.is_from(slot, epoch) => {
                    self.not_arrived(slot, why);
                }
                ImageEvent::Failed { .. } => {}
                ImageEvent::Lost { why } => self.image_lost(slot, epoch, &why),
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
    pub(super) fn drop_image(&mut self, rank: Rank, epoch: Epoch) {
        let Some(slot) = self.slot(rank) else {
            return;
        };
        let restoring = self.restores.is_from(slot, epoch);
        if self.images.drop_image(slot, epoch, &self.reactor) && restoring {
            self.not_arrived(slot, "its image does not count any more".into());
        }
    }

    /// Drops everything that a recovery would need.
    pub(super) fn drop_all_images(&mut self) {
        self.images.drop_all(&self.reactor);
        self.ranks.iter().for_each(|rank| rank.discard(None));
    }

    /// An image is gone without our doing.
    pub(super) fn image_lost(&mut self, slot: usize, epoch: Epoch, why: &str) {
        let rank = self.ranks[slot].rank();
        tracing::warn!(rank = rank.0, epoch = epoch.0, why, "an image is lost");
        let restoring = self.restores.is_from(slot, epoch);
        if self.images.outlives_process(slot, epoch, &self.reactor) {
            if restoring && let Err(error) = self.restore_from_file(slot) {
                self.not_arrived(slot, format!("its image: {error}"));
            }
            return;
        }
        if restoring {
            self.not_arrived(slot, format!("its image: {why}"));
        }
        // That of a move is of no use to another launch.
        let known = match self.arrivals.came_with(rank, epoch) {
            true => self.images.drop_image(slot, epoch, &self.reactor),
            false => self.images.lose_image(slot, epoch, &self.reactor),
        };
        if known {
            self.queue.push_back(LocalInput::ImageEnded(rank, epoch));
        }
    }
}

/// The report of an image that can't be used, as one of an image that was not taken.
fn refused(report: ImageReport, why: String) -> ImageReport {
    let message = match report.message {
        ToManager::Imaged {
            generation, epoch, ..
        } => ToManager::NotImaged {
            generation,
            epoch,
            why,
            outlives: false,
        },
        other => other,
    };
    ImageReport { message, ..report }
}
