//! Copies of image files that this host keeps for ranks of another host.

use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeMap;

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CopyState {
    /// It is being made.
    Partial,
    /// It is whole.
    Whole,
}

/// The copies, of images that count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct CopyTable {
    copies: BTreeMap<(Rank, Epoch), CopyState>,
}

impl CopyTable {
    /// There are copies of these images from an earlier launch.
    pub fn adopt(&mut self, found: Vec<(Rank, Epoch)>) {
        let found = found.into_iter().map(|image| (image, CopyState::Whole));
        self.copies.extend(found);
    }

    /// Forgets copies of images that do not count, and returns which they are.
    pub fn keep(&mut self, counts: impl Fn(Epoch) -> bool) -> Vec<(Rank, Epoch)> {
        let void = self.copies.keys().filter(|(_, epoch)| !counts(*epoch));
        let void: Vec<_> = void.copied().collect();
        for image in &void {
            self.copies.remove(image);
        }
        void
    }

    /// The files of this rank are no copies any more: the rank is on this host.
    pub fn forget_rank(&mut self, rank: Rank) {
        self.copies.retain(|(other, _), _| *other != rank);
    }

    /// A copy is to be made, unless there is one. Returns its state before.
    pub fn begin(&mut self, rank: Rank, epoch: Epoch) -> Option<CopyState> {
        let before = self.copies.get(&(rank, epoch)).copied();
        self.copies
            .entry((rank, epoch))
            .or_insert(CopyState::Partial);
        before
    }

    /// A copy is whole. Returns whether it counts.
    pub fn complete(&mut self, rank: Rank, epoch: Epoch) -> bool {
        let copy = self.copies.get_mut(&(rank, epoch));
        copy.map(|copy| *copy = CopyState::Whole).is_some()
    }

    /// A copy can't be made. Returns whether it counted.
    pub fn give_up(&mut self, rank: Rank, epoch: Epoch) -> bool {
        self.copies.remove(&(rank, epoch)).is_some()
    }
}
