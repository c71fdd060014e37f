//! A rollback of ranks that has not been carried out yet.

use rejoin_channel_table::{Epoch, Incarnation, Rank};

/// Ranks that are to come back.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LocalRestore {
    /// To which checkpoint; `None`: to the start.
    pub epoch: Option<Epoch>,
    /// Their next incarnations.
    pub ranks: Vec<(Rank, Incarnation)>,
}

/// The last order to roll ranks back, and the processes that it leaves behind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct HostRollback {
    order: Option<LocalRestore>,
    /// Processes that have retired and are still there.
    retired: Vec<(Rank, Incarnation)>,
}

impl HostRollback {
    /// A new order. `adds`: ranks of the order before it still come back.
    pub fn order(&mut self, mut restore: LocalRestore, adds: bool) {
        if let Some(before) = self.order.take_if(|_| adds) {
            let anew: Vec<Rank> = restore.ranks.iter().map(|(rank, _)| *rank).collect();
            let rest = before.ranks.into_iter();
            restore
                .ranks
                .extend(rest.filter(|(rank, _)| !anew.contains(rank)));
        }
        self.order = Some(restore);
    }

    /// This rank does not come back here.
    pub fn forget(&mut self, rank: Rank) {
        if let Some(order) = &mut self.order {
            order.ranks.retain(|(other, _)| *other != rank);
        }
    }

    /// All ranks that are to come, and their incarnations.
    pub fn ranks(&self) -> impl Iterator<Item = (Rank, Incarnation)> {
        let pending = self.order.iter().flat_map(|order| &order.ranks);
        pending.copied()
    }

    /// The incarnations of a rank that are to come.
    pub fn to_come(&self, rank: Rank) -> impl Iterator<Item = Incarnation> {
        let pending = self.order.iter().flat_map(|order| &order.ranks);
        let same = pending.filter(move |(other, _)| *other == rank);
        same.map(|(_, incarnation)| *incarnation)
    }

    /// The order is carried out now.
    pub fn take(&mut self) -> Option<LocalRestore> {
        self.order.take()
    }

    /// No successor comes any more.
    pub fn cancel(&mut self) {
        self.order = None;
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
