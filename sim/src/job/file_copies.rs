//! Files of images are copied to second hosts: after a while, or not at all.

use super::process_model::SimFile;
use super::work::Work;
use super::{Event, JobWorld, MILLI};
use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::central::{HostIndex, placement};
use rejoin_managers_protocol::local::LocalInput;

impl<W: Work> JobWorld<W> {
    /// A host is to copy the file of an image.
    pub(super) fn copy_image(&mut self, host: HostIndex, rank: Rank, epoch: Epoch) {
        self.copies.begin(host, rank, epoch);
        let most = if self.rng.chance(20) { 100 } else { 10 };
        let delay = self.rng.between(100_000, most * MILLI);
        self.after(delay, Event::Copied(rank, epoch));
    }

    /// A copy is whole, or there is no room for it, or the host of the file does not answer.
    pub(super) fn copied(&mut self, rank: Rank, epoch: Epoch) -> Result<(), String> {
        let Some(host) = self.copies.maker(rank, epoch) else {
            return Ok(());
        };
        let image = self.images.get(&(rank, epoch));
        let has_file = image.is_some_and(|image| image.file == SimFile::Whole);
        let source = self.host_of(rank);
        let answers = has_file && self.hosts[source].local.is_some();
        let why = match (answers, self.tally.fail_file()) {
            (true, false) => None,
            (false, _) => Some("its host does not answer"),
            (true, true) => Some("no space"),
        };
        let input = match why {
            None => {
                self.copies.complete(rank, epoch);
                self.tally.copies += 1;
                LocalInput::ImageCopied(rank, epoch)
            }
            Some(why) => {
                self.copies.drop(rank, epoch);
                LocalInput::ImageNotCopied(rank, epoch, why.into())
            }
        };
        self.local(host, input)
    }

    /// Every rank's file of this checkpoint has a copy, which is about to be stored as a commit.
    pub(super) fn are_copied(&self, epoch: Epoch) -> Result<(), String> {
        // Copies that were lost with a host, or that an earlier launch has made, are not known.
        let has_partner = placement::partner(self.placement[0], &self.placement);
        let lost = self.tally.locals + self.tally.dropped > 0;
        if self.shape.copies.is_none() || has_partner.is_none() || lost {
            return Ok(());
        }
        let mut ranks = (0..self.shape.ranks()).map(Rank);
        match ranks.find(|rank| !self.copies.has(*rank, epoch)) {
            None => Ok(()),
            Some(rank) => Err(format!("rank {} has no copy of {epoch}", rank.0)),
        }
    }
}
