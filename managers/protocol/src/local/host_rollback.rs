//! A rollback of ranks that has not been carried out yet.

use super::process_table::ProcessTable;
use rejoin_channel_table::{ImageId, Incarnation, Rank};

/// A rank that is to come back, or to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LocalRestore {
    /// The rank.
    pub rank: Rank,
    /// Next incarnation of the rank.
    pub incarnation: Incarnation,
    /// Image of the rank; `None`: it comes back to its start.
    pub from: Option<ImageId>,
}

/// The last orders to roll ranks back, and the processes that they leave behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HostRollback {
    pending: Vec<LocalRestore>,
    /// Processes that have retired and are still there.
    retired: Vec<(Rank, Incarnation)>,
}

impl HostRollback {
    /// A new order. `adds`: ranks of the orders before it still come back, each from its own image.
    pub fn order(&mut self, ranks: Vec<LocalRestore>, adds: bool) {
        let is_anew = |rank: Rank| ranks.iter().any(|one| one.rank == rank);
        self.pending.retain(|one| adds && !is_anew(one.rank));
        self.pending.splice(0..0, ranks);
    }

    /// This rank does not come back here.
    pub fn forget(&mut self, rank: Rank) {
        self.pending.retain(|one| one.rank != rank);
    }

    /// All ranks that are to come, and their incarnations.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, Incarnation)> {
        let pending = self.pending.iter();
        pending.map(|one| (one.rank, one.incarnation))
    }

    /// The incarnations of a rank that are to come.
    pub fn to_come(&self, rank: Rank) -> impl Iterator<Item = Incarnation> {
        let same = self.ranks().filter(move |(other, _)| *other == rank);
        same.map(|(_, incarnation)| incarnation)
    }

    /// The incarnation of a rank that was last ordered.
    pub fn latest(&self, rank: Rank, processes: &ProcessTable) -> Option<Incarnation> {
        let present = processes.of(rank);
        let present = present.map(|process| process.instance().incarnation);
        self.to_come(rank).chain(present).max()
    }

    /// The orders are carried out now.
    pub fn take(&mut self) -> Vec<LocalRestore> {
        std::mem::take(&mut self.pending)
    }

    /// No successor comes any more.
    pub fn cancel(&mut self) {
        self.pending.clear();
    }

    /// The successor of this process begins.
    pub fn leaves_behind(&mut self, rank: Rank, incarnation: Incarnation) {
        self.retired.push((rank, incarnation));
    }

    /// The processes whose successors have all begun.
    pub fn take_retired(&mut self) -> Vec<(Rank, Incarnation)> {
        std::mem::take(&mut self.retired)
    }
}
