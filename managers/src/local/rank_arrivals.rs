//! The images with which ranks have moved to this host.

use rejoin_channel_table::{ImageId, MoveNumber, Rank};
use std::collections::BTreeMap;

/// For each rank the last image of which mpirun knows that the rank's output continues here.
#[derive(Default)]
pub(super) struct RankArrivals(BTreeMap<Rank, MoveNumber>);

impl RankArrivals {
    /// A process is to be made of an image of this rank. Whether the rank arrives with it, and
    /// mpirun is not told yet.
    pub(super) fn is_arriving(&self, rank: Rank, image: ImageId) -> bool {
        match image {
            ImageId::Checkpoint(_) => false,
            ImageId::Move(number) => self.0.get(&rank) != Some(&number),
        }
    }

    /// The rank arrives with the image of this number. Whether that is for the first time.
    pub(super) fn arrives(&mut self, rank: Rank, number: MoveNumber) -> bool {
        self.0.insert(rank, number) != Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rejoin_channel_table::Epoch;

    #[test]
    fn a_rank_arrives_once_with_the_image_of_its_move() {
        let (rank, mut arrivals) = (Rank(3), RankArrivals::default());
        let number = MoveNumber::next(None, Epoch(7));
        let image = ImageId::Move(number);
        assert!(!arrivals.is_arriving(rank, ImageId::Checkpoint(Epoch(7))));
        assert!(arrivals.is_arriving(rank, image));
        assert!(arrivals.arrives(rank, number) && !arrivals.is_arriving(rank, image));
        assert!(arrivals.is_arriving(Rank(2), image) && !arrivals.arrives(rank, number));
    }
}
