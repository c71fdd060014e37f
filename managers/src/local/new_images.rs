//! Images of which ranks report, and their files.

use super::images::ImageReport;
use super::manager_parts::{ManagerParts, handler, keys};
use crate::fault::{self, Point};
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{Generation, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::levels::CommittedEpochs;
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_stdio::Stream;
use rejoin_wire::ToManager;

/// The probable reason why a descriptor did not arrive.
const NO_MORE_FILES: &str = "the local manager may have no more open files (ulimit -n)";

handler! {
    /// Takes over images.
    pub(super) NewImageHandler of ManagerParts {
        changes { ranks, images, input, outputs, mpirun, inputs }
        reads { starter, reactor }
    }
}

impl NewImageHandler<'_> {
    /// A rank reports a new image, and passes its descriptors.
    pub fn take_image(&mut self, slot: usize, pid: u32, message: ToManager) {
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
                let malformed = |rank, incarnation| LocalInput::Malformed(rank, incarnation, why);
                return self.ranks.report(slot, malformed, self.inputs);
            }
            partial[stream as usize] =
                self.outputs
                    .renew(slot, stream, pipe, self.mpirun, self.reactor);
        }
        let rank = self.ranks[slot].rank();
        let mark = LocalToMpirun::Mark { rank, image: id };
        let marked = self.mpirun.notify(&mark).is_ok();
        if !self.input.note_image(rank, id, holds.input) {
            let why = "its standard input was being filled at that moment".to_string();
            return self.not_imaged(slot, pid, (generation, id), why);
        }
        let Some(zygote) = zygote else {
            let why = format!("the image's socket did not arrive: {NO_MORE_FILES}");
            return self.not_imaged(slot, pid, (generation, id), why);
        };
        let read = self.input.position_of(rank, id);
        let report = ImageReport {
            incarnation: self.ranks[slot].incarnation(),
            pid,
            message,
        };
        let added = self
            .images
            .add(slot, report, zygote, (partial, read), self.reactor);
        if added.is_err() || !marked {
            self.images.drop_image(slot, id, self.reactor);
            self.inputs
                .push_back(LocalInput::ImageEnded(rank, id, None));
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
        let said = |rank, incarnation| LocalInput::FromRank(rank, incarnation, pid, message);
        self.ranks.report(slot, said, self.inputs);
    }

    /// The images of these checkpoints count from now on.
    pub fn committed(&mut self, epochs: CommittedEpochs) {
        if let Some(newest) = epochs.memory {
            self.images.commit(newest);
            if let Some(starter) = self.starter {
                starter.set_committed(newest);
            }
        }
        self.images.files_committed(epochs.file);
        if let Some(oldest) = epochs.oldest() {
            self.input.committed(oldest);
        }
    }
}

handler! {
    /// Files of images.
    pub(super) ImageFileHandler of ManagerParts {
        changes { images, inputs }
        reads { ranks, reactor }
    }
}

impl ImageFileHandler<'_> {
    /// Has an image written to a file. If the rank moves with it, the file refers to that of the
    /// image `base`.
    pub fn write_image(&mut self, rank: Rank, id: ImageId, base: Option<MoveNumber>) {
        let Some(slot) = self.ranks.slot(rank) else {
            return;
        };
        if let Err(why) = self.images.write_file(slot, id, base, self.reactor) {
            self.inputs
                .push_back(LocalInput::ImageNotStored(rank, id, Some(why)));
        }
    }

    /// Files of images have got their names, or get none.
    pub fn take_named_files(&mut self) {
        while let Some((slot, id, named)) = self.images.next_named() {
            let rank = self.ranks[slot].rank();
            self.inputs.push_back(match named {
                Ok(()) => LocalInput::ImageStored(rank, id),
                Err(why) => LocalInput::ImageNotStored(rank, id, Some(why)),
            });
        }
    }
}
