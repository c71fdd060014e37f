//! Copies and parities of image files that this host keeps for ranks of other hosts.

use crate::manager_messages::KeptFile;
use rejoin_channel_table::{Epoch, ImageId, Rank};
use std::collections::BTreeMap;

/// How far a copy or a parity has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum CopyState {
    /// The copy or parity is being made.
    Partial,
    /// The copy or parity is whole.
    Whole,
}

/// Copies and parities of images that count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct CopyTable {
    copies: BTreeMap<KeptFile, CopyState>,
}

impl CopyTable {
    /// Forgets the files of images that do not count, and returns which they are.
    pub fn keep(&mut self, counts: impl Fn(Epoch) -> bool) -> Vec<KeptFile> {
        let void = self.copies.keys().filter(|file| {
            let epoch = file.image.checkpoint();
            !epoch.is_some_and(&counts)
        });
        let void: Vec<_> = void.copied().collect();
        for file in &void {
            self.copies.remove(file);
        }
        void
    }

    /// This rank is on this host, and comes back from the file of this image, which is no copy any
    /// more. Whole ones of other images stay as long as these count.
    pub fn take_in(&mut self, rank: Rank, from: Option<ImageId>) {
        self.copies.retain(|file, state| {
            let stays = *state == CopyState::Whole && Some(file.image) != from;
            file.rank != rank || file.is_parity || stays
        });
    }

    /// This file is to be made, unless it is there. Returns its state before.
    pub fn begin(&mut self, file: KeptFile) -> Option<CopyState> {
        let before = self.copies.get(&file).copied();
        self.copies.entry(file).or_insert(CopyState::Partial);
        before
    }

    /// The file is whole. Returns whether it counts.
    pub fn complete(&mut self, file: KeptFile) -> bool {
        let copy = self.copies.get_mut(&file);
        copy.map(|copy| *copy = CopyState::Whole).is_some()
    }

    /// The file can't be made. Returns whether it counted.
    pub fn give_up(&mut self, file: KeptFile) -> bool {
        self.copies.remove(&file).is_some()
    }
}
