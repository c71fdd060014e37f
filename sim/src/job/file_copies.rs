//! Files of images are copied to second hosts: after a while, or not at all.

use super::process_model::SimFile;
use super::work::Work;
use super::{Event, JobWorld, MILLI};
use rejoin_channel_table::{Epoch, ImageId, Rank};
use rejoin_managers_protocol::central::{CopyGroups, HostIndex};
use rejoin_managers_protocol::local::LocalInput;
use rejoin_managers_protocol::manager_messages::KeptFile;

impl<W: Work> JobWorld<W> {
    /// A host is to copy the file of an image, or to store the parity of several.
    pub(super) fn copy_image(
        &mut self,
        host: HostIndex,
        members: Vec<(Rank, HostIndex)>,
        epoch: Epoch,
    ) -> Result<(), String> {
        // A late order may name the hosts of an earlier placement. What it makes does not count.
        if members.iter().any(|(_, from)| *from == host) {
            return Err(format!("host {host} copies its own files: {members:?}"));
        }
        let members = members.into_iter().map(|(rank, _)| rank).collect();
        let file = self.copies.begin(host, members, epoch);
        let most = if self.rng.chance(20) { 100 } else { 10 };
        let delay = self.rng.between(100_000, most * MILLI);
        self.after(delay, Event::Copied(file));
        Ok(())
    }

    /// A copy is whole, or there is no room for it, or a host of a file does not answer.
    pub(super) fn copied(&mut self, file: KeptFile) -> Result<(), String> {
        let Some((host, ranks)) = self.copies.maker(file) else {
            return Ok(());
        };
        let answers = ranks.iter().all(|rank| {
            let image = self.images.get(&(*rank, file.image));
            let has_file = image.is_some_and(|image| image.file == SimFile::Whole);
            has_file
                && self.hosts[self.image_home(*rank, file.image)]
                    .local
                    .is_some()
        });
        let why = match (answers, self.tally.fail_file()) {
            (true, false) => None,
            (false, _) => Some("its host does not answer"),
            (true, true) => Some("no space"),
        };
        let input = match why {
            None => {
                self.copies.complete(file);
                self.tally.copies += 1;
                self.tally.parities += u64::from(file.is_parity);
                LocalInput::ImageCopied(file)
            }
            Some(why) => {
                self.copies.drop(file);
                LocalInput::ImageNotCopied(file, why.into())
            }
        };
        self.local(host, input)
    }

    /// Whether the file of this rank can be made again without its host, from files of hosts that
    /// are there.
    pub(super) fn is_replaceable(
        &self,
        rank: Rank,
        id: ImageId,
        is_there: impl Fn(HostIndex) -> bool,
    ) -> bool {
        let Some((holder, others)) = self.copies.of(rank, id) else {
            return false;
        };
        let has_file = |rank: &Rank| {
            let image = self.images.get(&(*rank, id));
            image.is_some_and(|image| image.file == SimFile::Whole)
        };
        let mut others = others.iter();
        let are_there =
            others.all(|other| has_file(other) && is_there(self.image_home(*other, id)));
        is_there(holder) && are_there
    }

    /// Every rank's file of this checkpoint is on another host, or the parity of several is. The
    /// commit is about to be stored.
    pub(super) fn are_copied(&self, epoch: Epoch) -> Result<(), String> {
        // Copies that were lost with a host, or that an earlier launch has made, are not known.
        let lost = self.tally.locals + self.tally.dropped > 0;
        if self.copy_groups().stripes().is_empty() || lost {
            return Ok(());
        }
        let mut ranks = (0..self.shape.ranks()).map(Rank);
        let image = ImageId::Checkpoint(epoch);
        match ranks.find(|rank| self.copies.of(*rank, image).is_none()) {
            None => Ok(()),
            Some(rank) => Err(format!("rank {} has no copy of {epoch}", rank.0)),
        }
    }

    /// Which hosts keep what of which files.
    pub(super) fn copy_groups(&self) -> CopyGroups {
        match self.shape.copies {
            Some((size, _)) => CopyGroups::new(&self.placement, size),
            None => CopyGroups::default(),
        }
    }
}
