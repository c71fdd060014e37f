//! Orders to keep copies and parities of other hosts' files of images, and how they end.

use super::copy_table::CopyState;
use super::host_parts::{HostParts, keys};
use super::inputs::LocalEffect;
use super::local_out::one_line;
use crate::handler_keys::handler;
use crate::manager_messages::{FileMessage, KeptFile};
use rejoin_channel_table::{Epoch, ImageId, Rank};

handler! {
    /// Copies of other hosts' files.
    pub(super) CopyHandler of HostParts {
        changes { copies, out }
        reads { images }
    }
}

impl CopyHandler<'_> {
    /// Central orders a copy of the file of one rank, or the parity of several. The order may come
    /// twice.
    pub fn copy_image(&mut self, members: Vec<(Rank, usize)>, epoch: Epoch) {
        let Some((rank, _)) = members.first().copied() else {
            return;
        };
        if !self.images.counts(epoch) {
            return;
        }
        let is_parity = members.len() > 1;
        let file = KeptFile {
            rank,
            image: ImageId::Checkpoint(epoch),
            is_parity,
        };
        match self.copies.begin(file) {
            Some(CopyState::Partial) => {}
            Some(CopyState::Whole) => self.out.report(FileMessage::Copied { rank, epoch }),
            None => self.out.push(LocalEffect::CopyImage(members, epoch)),
        }
    }

    /// A copy is whole. One that does not count any more was dropped while it was made.
    pub fn image_copied(&mut self, file: KeptFile) {
        let rank = file.rank;
        match file.image {
            ImageId::Checkpoint(epoch) if self.copies.complete(file) => {
                self.out.report(FileMessage::Copied { rank, epoch });
            }
            ImageId::Checkpoint(_) | ImageId::Move(_) => {
                self.out.push(LocalEffect::DropCopy(file));
            }
        }
    }

    /// A copy can't be made.
    pub fn image_not_copied(&mut self, file: KeptFile, why: String) {
        let rank = file.rank;
        if let ImageId::Checkpoint(epoch) = file.image
            && self.copies.give_up(file)
        {
            let why = one_line(&why);
            self.out.report(FileMessage::NotCopied { rank, epoch, why });
        }
    }
}
