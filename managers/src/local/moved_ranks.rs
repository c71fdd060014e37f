//! Ranks of a lost host that are on this host from now on.

use super::LocalManager;
use super::local_rank::LocalRank;
use super::streams::RankInput;
use crate::error::Result;
use rejoin_channel_table::Epoch;
use rejoin_managers_protocol::manager_messages::{MovedRank, ProcessInstance};

impl LocalManager {
    /// A rank of a lost host is on this one from now on. It gets the next slot. It comes back from
    /// the file of its image of this epoch.
    pub(super) fn take_in(&mut self, moved: MovedRank, epoch: Option<Epoch>) -> Result<()> {
        let rank = moved.rank;
        if self.slot(rank).is_some() {
            return Ok(());
        }
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        if !starter.take_in(rank) {
            return Ok(());
        }
        if let Some(copies) = &mut self.copies {
            copies.take_in(&moved, &self.reactor)?;
        }
        let slot = self.ranks.len();
        let count = slot + 1;
        self.ranks.push(LocalRank::new(rank));
        self.outputs.take_in(rank);
        self.images.take_in(rank);
        self.restores.serve(count);
        self.requests.serve(count);
        if let Some(epoch) = epoch {
            // Ranks that come back before it spare the files that it writes, too. What can't be
            // read is said when it is needed.
            let _ = self.images.load_one(slot, epoch);
        }
        if starter.reads_input(rank) {
            let (mut input, end) = RankInput::open(rank, true, &self.reactor)?;
            // What the rank had read is in the file of its image.
            input.hold();
            starter.set_input(end);
            self.input = Some(input);
            self.input_from = Some((None, true));
        }
        Ok(())
    }

    /// A rank of a lost host is to come back: takes its image from its file. Returns whether the
    /// process waits for a copy of the file, or does not come.
    pub(super) fn lacks_moved_image(
        &mut self,
        slot: usize,
        instance: ProcessInstance,
        epoch: Epoch,
    ) -> Result<bool> {
        if slot < self.launched || self.images.has(slot, epoch) {
            return Ok(false);
        }
        let Err(why) = self.images.load_one(slot, epoch) else {
            return Ok(false);
        };
        if !self.awaits_copy(instance, epoch)? {
            self.not_restored(slot, instance, why);
        }
        Ok(true)
    }
}
