//! Files of images: they are written after a while, or can't be written.

use super::process_model::SimFile;
use super::work::Work;
use super::{Event, JobWorld, MILLI};
use rejoin_channel_table::{Epoch, ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::central::HostIndex;
use rejoin_managers_protocol::local::LocalInput;

impl<W: Work> JobWorld<W> {
    /// An image is to write its file. Some files take longer than several checkpoints.
    pub(super) fn write_image(&mut self, rank: Rank, id: ImageId) -> Result<(), String> {
        let image = self.images.get_mut(&(rank, id));
        match image.filter(|image| image.in_memory) {
            None => {
                let why = Some("its image is gone".to_string());
                self.say_of_file(LocalInput::ImageNotStored(rank, id, why), (rank, id))
            }
            Some(image) if image.file == SimFile::Absent => {
                image.file = SimFile::Partial;
                let most = if self.rng.chance(20) { 200 } else { 10 };
                let delay = self.rng.between(100_000, most * MILLI);
                self.after(delay, Event::Written(rank, id));
                Ok(())
            }
            Some(image) => Err(format!("{image:?} is written again")),
        }
    }

    /// The file of an image is whole, or there is no room for it.
    pub(super) fn written(&mut self, rank: Rank, id: ImageId) -> Result<(), String> {
        let image = self.images.get_mut(&(rank, id));
        let Some(image) = image.filter(|image| image.file == SimFile::Partial) else {
            return Ok(());
        };
        let input = match self.tally.fail_file() {
            true => {
                image.file = SimFile::Absent;
                LocalInput::ImageNotStored(rank, id, Some("no space".into()))
            }
            false => {
                image.file = SimFile::Whole;
                self.tally.files += 1;
                LocalInput::ImageStored(rank, id)
            }
        };
        self.say_of_file(input, (rank, id))
    }

    /// A restore ends the writing.
    pub(super) fn interrupt_writing(&mut self, rank: Rank, id: ImageId) -> Result<(), String> {
        let image = self.images.get_mut(&(rank, id));
        let Some(image) = image.filter(|image| image.file == SimFile::Partial) else {
            return Ok(());
        };
        image.file = SimFile::Absent;
        self.say_of_file(LocalInput::ImageNotStored(rank, id, None), (rank, id))
    }

    fn say_of_file(
        &mut self,
        input: LocalInput,
        (rank, id): (Rank, ImageId),
    ) -> Result<(), String> {
        self.local(self.image_home(rank, id), input)
    }

    /// The file of an image with which a rank moves refers to that of this one.
    pub(super) fn refers_to(&self, rank: Rank, base: Option<MoveNumber>) -> Result<(), String> {
        let file = |base| {
            self.images
                .get(&(rank, ImageId::Move(base)))
                .map(|image| image.file)
        };
        match base {
            Some(base) if file(base) != Some(SimFile::Whole) => {
                Err(format!("rank {} has no file of image {base}", rank.0))
            }
            _ => Ok(()),
        }
    }

    /// A host has copied and loaded the image of a rank that is to move there, or can't.
    pub(super) fn loads(
        &mut self,
        host: HostIndex,
        rank: Rank,
        number: MoveNumber,
    ) -> Result<(), String> {
        let is_meant = self.loading.get(&(host, rank)) == Some(&number);
        if self.hosts[host].local.is_none() || !is_meant {
            return Ok(());
        }
        let image = self.images.get(&(rank, ImageId::Move(number)));
        let has_file = image.is_some_and(|image| {
            image.file == SimFile::Whole && self.hosts[image.home].local.is_some()
        });
        let input = match (has_file, self.tally.fail_file()) {
            (true, false) => {
                // Some of them are worth another copy.
                LocalInput::Loaded(rank, number, self.rng.below(12 << 20))
            }
            (true, true) => LocalInput::NotLoaded(rank, number, "no space".into()),
            (false, _) => LocalInput::NotLoaded(rank, number, "no such file".into()),
        };
        self.local(host, input)
    }

    /// The process of an image ends, because later images in memory count.
    pub(super) fn drop_from_memory(&mut self, rank: Rank, id: ImageId) -> Result<(), String> {
        let Some(image) = self.images.get_mut(&(rank, id)) else {
            return Ok(());
        };
        if image.file != SimFile::Whole {
            return Err(format!("{image:?} of rank {} is dropped", rank.0));
        }
        image.in_memory = false;
        Ok(())
    }

    /// A rank's process and the processes of its images are killed at once.
    pub(super) fn kill_with_images(&mut self, rank: Rank) -> Result<(), String> {
        for id in self.images_of(rank) {
            self.lose_image(rank, id)?;
        }
        self.kill(rank)
    }

    /// The images of a rank.
    pub(super) fn images_of(&self, rank: Rank) -> Vec<ImageId> {
        let first = ImageId::Checkpoint(Epoch(0));
        let from_rank = self.images.range((rank, first)..).map(|(key, _)| *key);
        let of_rank = from_rank.take_while(|(r, _)| *r == rank);
        of_rank.map(|(_, id)| id).collect()
    }
}
