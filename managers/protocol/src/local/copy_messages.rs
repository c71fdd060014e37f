//! Orders to copy files of images of another host, and how they end.

use super::copy_table::CopyState;
use super::host_state::Local;
use super::inputs::LocalEffect;
use super::rank_messages::one_line;
use crate::manager_messages::ToCentral;
use rejoin_channel_table::{Epoch, Rank};

impl Local {
    /// Central orders a copy. The order may come twice.
    pub(super) fn copy_image(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        from: usize,
        effects: &mut Vec<LocalEffect>,
    ) {
        if !self.images.counts(epoch) {
            return;
        }
        match self.copies.begin(rank, epoch) {
            Some(CopyState::Partial) => {}
            Some(CopyState::Whole) => self.tell(ToCentral::ImageCopied { rank, epoch }, effects),
            None => effects.push(LocalEffect::CopyImage(rank, epoch, from)),
        }
    }

    /// A copy is whole. One that does not count any more was dropped while it was made.
    pub(super) fn image_copied(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        effects: &mut Vec<LocalEffect>,
    ) {
        match self.copies.complete(rank, epoch) {
            true => self.tell(ToCentral::ImageCopied { rank, epoch }, effects),
            false => effects.push(LocalEffect::DropCopy(rank, epoch)),
        }
    }

    /// A copy can't be made.
    pub(super) fn image_not_copied(
        &mut self,
        rank: Rank,
        epoch: Epoch,
        why: String,
        effects: &mut Vec<LocalEffect>,
    ) {
        if self.copies.give_up(rank, epoch) {
            let why = one_line(&why);
            self.tell(ToCentral::ImageNotCopied { rank, epoch, why }, effects);
        }
    }
}
