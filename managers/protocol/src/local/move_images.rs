//! The images with which ranks of this host move, and ranks of other hosts that are to move here.

use rejoin_channel_table::{MoveNumber, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// An image that was ordered for a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct OrderedImage {
    /// The number of the image.
    pub number: MoveNumber,
    /// The number of the image before, to which its file refers.
    pub base: Option<MoveNumber>,
    /// The rank waits at it.
    pub stops: bool,
}

/// The images with which ranks of this host move, in the order of their numbers, and those with
/// which ranks move here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct MoveImages {
    ordered: BTreeMap<Rank, Vec<OrderedImage>>,
    /// Ranks that are to move here, whose images were to be loaded.
    loads: BTreeSet<Rank>,
    /// The last images of ranks that have moved here, or were to.
    arrivals: BTreeMap<Rank, MoveNumber>,
}

impl MoveImages {
    /// An image is ordered, unless it was before.
    pub fn order(&mut self, rank: Rank, image: OrderedImage) {
        let images = self.ordered.entry(rank).or_default();
        if images.iter().all(|before| before.number < image.number) {
            images.push(image);
        }
    }

    /// Images of a rank of another host are loaded here.
    pub fn load(&mut self, rank: Rank) {
        self.loads.insert(rank);
    }

    /// A rank whose images were loaded is here, or does not come.
    pub fn unload(&mut self, rank: Rank) {
        self.loads.remove(&rank);
    }

    /// A process is to be made of the last image of a rank that moves here.
    pub fn arrives(&mut self, rank: Rank, number: MoveNumber) {
        self.arrivals.insert(rank, number);
    }

    /// A rank comes here by a move, or has come by one.
    pub fn is_arrival(&self, rank: Rank) -> bool {
        self.arrivals.contains_key(&rank)
    }

    /// A rank is not here any more. Returns the number of the image with which it has come, or was
    /// to come.
    pub fn take_arrival(&mut self, rank: Rank) -> Option<MoveNumber> {
        self.arrivals.remove(&rank)
    }

    /// The ranks whose images are loaded here.
    pub fn loads(&self) -> Vec<Rank> {
        self.loads.iter().copied().collect()
    }

    /// The image of this number of a rank.
    pub fn find(&self, rank: Rank, number: MoveNumber) -> Option<OrderedImage> {
        let images = self.ordered.get(&rank)?;
        images.iter().find(|image| image.number == number).copied()
    }

    /// The number of the latest image of a rank.
    pub fn latest(&self, rank: Rank) -> Option<MoveNumber> {
        Some(self.ordered.get(&rank)?.last()?.number)
    }

    /// The latest image of each rank.
    pub fn all_latest(&self) -> impl Iterator<Item = (Rank, OrderedImage)> {
        let ranks = self.ordered.iter();
        ranks.filter_map(|(rank, images)| Some((*rank, *images.last()?)))
    }

    /// Forgets the images of a rank. Returns their numbers, the latest first: an image refers to
    /// those before it.
    pub fn take(&mut self, rank: Rank) -> Vec<MoveNumber> {
        let images = self.ordered.remove(&rank).unwrap_or_default();
        images.iter().rev().map(|image| image.number).collect()
    }
}
