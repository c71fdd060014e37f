//! The images with which ranks have moved to this host, or were to move.

use rejoin_channel_table::{Epoch, Rank};
use std::collections::BTreeMap;

/// An image of a move.
struct RankArrival {
    number: Epoch,
    /// mpirun knows that the rank's output continues here.
    is_told: bool,
}

/// The latest of each rank.
#[derive(Default)]
pub(super) struct RankArrivals(BTreeMap<Rank, RankArrival>);

impl RankArrivals {
    /// A rank comes with the image of this number, or does not move.
    pub(super) fn expect(&mut self, rank: Rank, number: Option<Epoch>) {
        self.0.remove(&rank);
        if let Some(number) = number {
            let is_told = false;
            self.0.insert(rank, RankArrival { number, is_told });
        }
    }

    /// A process is to be made of an image of this rank. Whether the rank arrives with it, and
    /// mpirun is not told yet.
    pub(super) fn is_arriving(&self, rank: Rank, epoch: Epoch) -> bool {
        let arrival = self.0.get(&rank);
        arrival.is_some_and(|arrival| arrival.number == epoch && !arrival.is_told)
    }

    /// A process is made of an image of this rank. Whether the rank arrives with it, for the first
    /// time.
    pub(super) fn arrives(&mut self, rank: Rank, epoch: Epoch) -> bool {
        let arrival = self.0.get_mut(&rank).filter(|a| a.number == epoch);
        arrival.is_some_and(|arrival| !std::mem::replace(&mut arrival.is_told, true))
    }

    /// Whether the rank has come with this image, or was to.
    pub(super) fn came_with(&self, rank: Rank, epoch: Epoch) -> bool {
        let arrival = self.0.get(&rank);
        arrival.is_some_and(|arrival| arrival.number == epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_arrives_once_with_the_image_of_its_move() {
        let (rank, mut arrivals) = (Rank(3), RankArrivals::default());
        arrivals.expect(rank, Some(Epoch(7)));
        assert!(!arrivals.arrives(rank, Epoch(6)) && !arrivals.arrives(Rank(2), Epoch(7)));
        assert!(!arrivals.is_arriving(rank, Epoch(6)));
        for _ in 0..2 {
            assert!(arrivals.is_arriving(rank, Epoch(7)));
        }
        assert!(arrivals.arrives(rank, Epoch(7)) && !arrivals.is_arriving(rank, Epoch(7)));
        assert!(!arrivals.arrives(rank, Epoch(7)));
        assert!(arrivals.came_with(rank, Epoch(7)) && !arrivals.came_with(rank, Epoch(6)));
        arrivals.expect(rank, None);
        assert!(!arrivals.came_with(rank, Epoch(7)));
    }
}
