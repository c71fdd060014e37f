//! Recovery groups take turns: with their images, and with writing these to files. So neither the
//! processors nor the storage have the work of all groups at once.

use rejoin_channel_table::{Epoch, Rank};
use std::collections::{BTreeSet, VecDeque};

/// An eighth of the groups have their turn at a time, one at least.
const PARTS: usize = 8;

/// The turns of the groups with one checkpoint. A group is named by its first rank.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct GroupTurns {
    epoch: Option<Epoch>,
    waiting: VecDeque<Rank>,
    under_way: BTreeSet<Rank>,
    most: usize,
}

impl GroupTurns {
    /// All these groups take turns with this checkpoint, unless they do so already.
    pub fn begin(&mut self, epoch: Epoch, groups: Vec<Rank>) {
        if self.epoch != Some(epoch) {
            *self = GroupTurns {
                epoch: Some(epoch),
                most: groups.len().div_ceil(PARTS),
                waiting: groups.into(),
                under_way: BTreeSet::new(),
            };
        }
    }

    /// The checkpoint.
    pub fn epoch(&self) -> Option<Epoch> {
        self.epoch
    }

    /// Nothing is to be done any more.
    pub fn end(&mut self) {
        *self = GroupTurns::default();
    }

    /// This group has had its turn with this checkpoint. Returns whether it was its turn.
    pub fn ends(&mut self, epoch: Epoch, group: Rank) -> bool {
        self.epoch == Some(epoch) && self.under_way.remove(&group)
    }

    /// All groups that have had no turn yet: they have it now.
    pub fn take_rest(&mut self) -> Vec<Rank> {
        self.most = usize::MAX;
        self.take_next()
    }

    /// The groups whose turn it is from now on.
    pub fn take_next(&mut self) -> Vec<Rank> {
        let free = self.most.saturating_sub(self.under_way.len());
        let next: Vec<Rank> = self.waiting.drain(..free.min(self.waiting.len())).collect();
        self.under_way.extend(&next);
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eighth_of_the_groups_have_their_turn_and_each_has_one() {
        for (count, most) in [(1, 1), (8, 1), (9, 2), (100, 13)] {
            let mut turns = GroupTurns::default();
            turns.begin(Epoch(3), (0..count).map(Rank).collect());
            let mut seen = BTreeSet::new();
            let mut now = VecDeque::from(turns.take_next());
            while let Some(group) = now.pop_front() {
                assert!(now.len() < most && seen.insert(group), "{count}: {group:?}");
                // What came twice, and what it was not asked for.
                turns.begin(Epoch(3), vec![Rank(7)]);
                assert!(!turns.ends(Epoch(2), group) && turns.ends(Epoch(3), group));
                assert!(!turns.ends(Epoch(3), group));
                now.extend(turns.take_next());
            }
            assert_eq!(seen.len(), count as usize);
        }
    }

    #[test]
    fn another_checkpoint_begins_anew() {
        let mut turns = GroupTurns::default();
        turns.begin(Epoch(3), vec![Rank(0), Rank(1)]);
        assert_eq!(turns.take_next(), [Rank(0)]);
        turns.begin(Epoch(4), vec![Rank(0), Rank(1)]);
        assert_eq!(
            (turns.epoch(), turns.take_next()),
            (Some(Epoch(4)), vec![Rank(0)])
        );
        assert_eq!(turns.take_rest(), [Rank(1)]);
        turns.end();
        assert_eq!((turns.epoch(), turns.take_next()), (None, vec![]));
    }
}
