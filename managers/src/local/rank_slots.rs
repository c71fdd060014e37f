//! The ranks of this host by slot: a rank's position among them, and its local rank, which never
//! changes.

use super::local_rank::LocalRank;
use rejoin_channel_table::{Incarnation, Rank};
use rejoin_managers_protocol::local::LocalInput;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// In rank order those with which the manager was launched, then those that have come from other
/// hosts. Those that have left keep their slots.
#[derive(Default)]
pub struct RankSlots {
    ranks: Vec<LocalRank>,
    /// How many ranks it was launched with.
    launched: usize,
}

impl Deref for RankSlots {
    type Target = [LocalRank];

    fn deref(&self) -> &[LocalRank] {
        &self.ranks
    }
}

impl DerefMut for RankSlots {
    fn deref_mut(&mut self) -> &mut [LocalRank] {
        &mut self.ranks
    }
}

impl RankSlots {
    /// The manager is launched with these ranks, in their order.
    pub fn launch(&mut self, ranks: impl Iterator<Item = Rank>) {
        self.ranks = ranks.map(LocalRank::new).collect();
        self.launched = self.ranks.len();
    }

    /// A rank has come from another host. Returns its slot.
    pub fn take_in(&mut self, rank: Rank) -> usize {
        self.ranks.push(LocalRank::new(rank));
        self.ranks.len() - 1
    }

    /// The slot of a rank.
    pub fn slot(&self, rank: Rank) -> Option<usize> {
        let (launched, moved) = self.ranks.split_at(self.launched);
        let found = launched.binary_search_by_key(&rank, LocalRank::rank).ok();
        let is_same = |other: &LocalRank| other.rank() == rank;
        found.or_else(|| Some(self.launched + moved.iter().position(is_same)?))
    }

    /// Queues an input about the present process of a slot.
    pub fn report(
        &self,
        slot: usize,
        input: impl FnOnce(Rank, Incarnation) -> LocalInput,
        inputs: &mut VecDeque<LocalInput>,
    ) {
        let rank = &self.ranks[slot];
        inputs.push_back(input(rank.rank(), rank.incarnation()));
    }

    /// Pids of ranks' processes that are not reaped yet.
    pub fn tracked(&self) -> Vec<u32> {
        self.ranks.iter().filter_map(LocalRank::child_pid).collect()
    }

    /// Whether some process is on its way out.
    pub fn any_retiring(&self) -> bool {
        self.ranks.iter().any(LocalRank::is_retiring)
    }
}
