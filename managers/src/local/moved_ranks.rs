//! Ranks of other hosts that are on this host from now on, and ranks that have left it.

use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_channel_table::{ImageId, Rank};
use rejoin_managers_host::error::Result;
use rejoin_managers_protocol::manager_messages::MovedRank;

handler! {
    /// Ranks that come and go.
    pub(super) TakeInHandler of ManagerParts {
        changes { ranks, images, restores, requests, copies, starter, input, outputs }
        reads { reactor }
    }
}

impl TakeInHandler<'_> {
    /// A rank of another host is on this one from now on. It gets the next slot, unless it was here
    /// before. It comes from the file of this image.
    pub fn take_in(&mut self, moved: MovedRank, from: Option<ImageId>) -> Result<()> {
        let rank = moved.rank;
        let slot = self.ranks.slot(rank);
        let Some(starter) = &mut self.starter else {
            return Ok(());
        };
        if slot.is_none() && !starter.take_in(rank) {
            return Ok(());
        }
        if let Some(copies) = &mut self.copies
            && !copies.is_awaited(rank)
        {
            copies.take_in(&moved, from, self.reactor)?;
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
        self.input.expect(rank, from, self.starter, self.reactor)
    }

    fn add_slot(&mut self, rank: Rank) -> usize {
        let slot = self.ranks.take_in(rank);
        let count = slot + 1;
        self.outputs.take_in(rank);
        self.images.take_in(rank);
        self.restores.serve(count);
        self.requests.serve(count);
        slot
    }

    /// A rank is on another host from now on: its standard input goes there.
    pub fn has_left(&mut self, rank: Rank) {
        if let Some(starter) = &mut self.starter {
            starter.logs().remove(rank);
        }
        self.input.leaves(rank);
    }
}
