//! Says how far the files of ranks are that move from here or to here.

use super::manager_parts::{ManagerParts, handler, keys};
use rejoin_channel_table::{ImageId, MoveNumber, Rank};
use rejoin_managers_protocol::local::{Local, LocalInput};
use rejoin_managers_protocol::manager_messages::MoveBytes;
use std::time::Instant;

handler! {
    /// Reports how far moves are.
    pub(super) MoveReporter of ManagerParts {
        changes { report_pace, inputs }
        reads { ranks, images, copies, incoming }
    }
}

impl MoveReporter<'_> {
    /// Reports how far files of moves are, if that is due.
    pub fn report(&mut self, core: &Local, now: Instant) {
        let written: Vec<(Rank, MoveNumber, bool)> = core.files_of_moves().collect();
        let copied = self.copied_for_moves();
        let any = !(written.is_empty() && copied.is_empty());
        if !self.report_pace.are_due(any, now) {
            return;
        }
        let mut all = Vec::new();
        for (rank, number, with_all) in written {
            let slot = self.ranks.slot(rank);
            let bytes = slot.and_then(|slot| {
                let image = ImageId::Move(number);
                self.images.written(slot, image, with_all)
            });
            all.extend(bytes.map(|(done, of)| MoveBytes {
                rank,
                number,
                done,
                of,
            }));
        }
        for (rank, number) in copied {
            let copies = self.copies.as_ref();
            let bytes = copies.and_then(|copies| copies.progress(rank, ImageId::Move(number)));
            all.extend(bytes.map(|(done, of)| MoveBytes {
                rank,
                number,
                done,
                of: Some(of),
            }));
        }
        let news = self.report_pace.news(all).into_iter();
        self.inputs.extend(news.map(LocalInput::MoveBytes));
    }

    /// The images of ranks that move here which are copied or loaded.
    fn copied_for_moves(&self) -> Vec<(Rank, MoveNumber)> {
        let awaited = self.copies.iter().flat_map(|copies| copies.awaited());
        let awaited = awaited.filter_map(|(rank, image)| match image {
            ImageId::Move(number) => Some((rank, number)),
            ImageId::Checkpoint(_) => None,
        });
        self.incoming.all_pending().chain(awaited).collect()
    }
}
