//! Ranks that are not on this host any more: what is left of them here is dropped.

use super::host_parts::keys;
use super::inputs::LocalEffect;
use super::rank_process::RankProcess;
use crate::handler_keys::handler;
use crate::manager_messages::{ProcessInstance, ProcessMessage};
use rejoin_channel_table::{ImageId, MoveNumber, Rank};

handler! {
    /// What ranks leave behind that move, or do not.
    pub(super) VacateHandler {
        changes { processes, moves, images, out }
    }
}

impl VacateHandler<'_> {
    /// A rank does not move here: drops what is loaded of it.
    pub fn unload(&mut self, rank: Rank) {
        self.moves.unload(rank);
        self.out.push(LocalEffect::Unload(rank));
    }

    /// Drops the images with which a rank has moved, or does not move. Returns the number of the
    /// latest.
    pub fn drop_images_of_move(&mut self, rank: Rank) -> Option<MoveNumber> {
        let numbers = self.moves.take(rank);
        for number in &numbers {
            let image = ImageId::Move(*number);
            self.images.remove(rank, image);
            self.out.push(LocalEffect::DropImage(rank, image));
        }
        numbers.first().copied()
    }

    /// Forgets processes that have made room for a successor on another host, and ends them.
    pub fn leave_vacated(&mut self) {
        let has_left = |p: &&RankProcess| p.leaves_host() && p.state().has_made_room();
        let left = self.processes.iter().filter(has_left);
        let left: Vec<ProcessInstance> = left.map(RankProcess::instance).collect();
        for instance in left {
            self.processes.remove(instance.rank);
            self.out
                .push(LocalEffect::Discard(instance.rank, instance.incarnation));
            self.drop_arrival(instance.rank);
            self.out.push(LocalEffect::HasLeft(instance.rank));
            self.out.report(ProcessMessage::Vacated { instance });
        }
    }

    /// Drops the image with which a rank has come, or was to come, if it is still there: no
    /// checkpoint has it.
    pub fn drop_arrival(&mut self, rank: Rank) {
        let arrival = self.moves.take_arrival(rank).map(ImageId::Move);
        if let Some(image) = arrival.filter(|image| self.images.remove(rank, *image)) {
            self.out.push(LocalEffect::DropImage(rank, image));
        }
    }
}
