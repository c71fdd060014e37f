//! Ranks of other hosts that are on this host from now on, and ranks that have left it.

use super::LocalManager;
use super::local_rank::LocalRank;
use super::start::ProcessStarter;
use super::streams::RankInput;
use crate::error::Result;
use crate::launch::local_messages::LocalToMpirun;
use rejoin_channel_table::{ImageId, Rank};
use rejoin_managers_protocol::manager_messages::{MovedRank, ProcessInstance};

impl LocalManager {
    /// A rank of another host is on this one from now on. It gets the next slot, unless it was here
    /// before. It comes from the file of this image.
    pub(super) fn take_in(&mut self, moved: MovedRank, from: Option<ImageId>) -> Result<()> {
        let rank = moved.rank;
        let slot = self.slot(rank);
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        if slot.is_none() && !starter.take_in(rank) {
            return Ok(());
        }
        if let Some(copies) = &mut self.copies
            && !copies.is_awaited(rank)
        {
            copies.take_in(&moved, from, &self.reactor)?;
        }
        let slot = match slot {
            Some(slot) => slot,
            None => self.add_slot(rank),
        };
        if let Some(image) = from.filter(|image| !self.images.has(slot, *image)) {
            // Ranks that come back before it spare the files that it writes, too. What can't be
            // read is said when it is needed.
            let _ = self.images.load_one(slot, image);
        }
        self.expect_input(rank, from)
    }

    fn add_slot(&mut self, rank: Rank) -> usize {
        let slot = self.ranks.len();
        let count = slot + 1;
        self.ranks.push(LocalRank::new(rank));
        self.outputs.take_in(rank);
        self.images.take_in(rank);
        self.restores.serve(count);
        self.requests.serve(count);
        slot
    }

    /// If the rank reads standard input, that comes to this host from its beginning. What the rank
    /// has read before its image is skipped.
    pub(super) fn expect_input(&mut self, rank: Rank, from: Option<ImageId>) -> Result<()> {
        let reads = |starter: &ProcessStarter| starter.reads_input(rank);
        let Some(starter) = self.starter.as_mut().filter(|starter| reads(starter)) else {
            return Ok(());
        };
        if self.input.is_some() {
            return Ok(());
        }
        let (mut input, end) = RankInput::open(rank, true, &self.reactor)?;
        if from.is_some() {
            // What the rank had read is in the file of its image.
            input.hold();
            self.input_from = Some((None, true));
        }
        starter.set_input(end);
        self.input = Some(input);
        self.input_left = false;
        Ok(())
    }

    /// A rank is on another host from now on: its standard input goes there.
    pub(super) fn has_left(&mut self, rank: Rank) {
        self.drop_log(rank);
        if self
            .input
            .as_ref()
            .is_some_and(|input| input.rank() == rank)
        {
            self.input = None;
            self.input_left = true;
        }
    }

    /// Says where the output of a process belongs that is made of an image. Output of a rank that
    /// moves continues; that of one that rolls back may come a second time.
    pub(super) fn tell_position(&mut self, rank: Rank, image: ImageId) -> Result<()> {
        self.mpirun.tell(&match image {
            ImageId::Move(number) if self.arrivals.arrives(rank, number) => {
                LocalToMpirun::Arrives { rank, number }
            }
            // An earlier process of it has written nothing.
            ImageId::Move(_) => return Ok(()),
            ImageId::Checkpoint(epoch) => LocalToMpirun::Rewound {
                rank,
                epoch: Some(epoch),
            },
        })
    }

    /// A process is to be made of an image: takes it from its file, if it is not here. Returns
    /// whether the process waits for a copy of the file, or does not come.
    pub(super) fn lacks_moved_image(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        image: ImageId,
    ) -> Result<bool> {
        if self.images.has(slot, image) {
            return Ok(false);
        }
        let Err(why) = self.images.load_one(slot, image) else {
            return Ok(false);
        };
        if !self.awaits_copy(instance, image)? {
            self.not_restored(slot, instance, why);
        }
        Ok(true)
    }
}
