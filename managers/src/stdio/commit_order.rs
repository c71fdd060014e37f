//! Decides when central's reports about checkpoints count for the ranks' output.
//!
//! A rank's mark in its output arrives over the link of its local manager. The report of the commit
//! arrives from central. Either may arrive first. A commit counts when every rank's mark has
//! arrived, and later reports of central count after it.

use rejoin_channel_table::{Epoch, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// No rank rolls back behind it any more.
    Committed(Epoch),
    /// It was aborted, or abandoned with its central manager.
    Aborted(Epoch),
}

/// Marks of ranks and reports of central, brought into one order.
#[derive(Debug)]
pub struct CommitOrder {
    /// Number of ranks.
    ranks: usize,
    /// Ranks whose mark has come, of checkpoints that do not count as committed.
    marked: BTreeMap<Epoch, BTreeSet<Rank>>,
    /// Reports of central that do not count yet.
    waiting: VecDeque<Settled>,
    /// The last commit that central has reported.
    told: Option<Epoch>,
}

impl CommitOrder {
    /// For a job of so many ranks.
    #[must_use]
    pub fn new(ranks: u32) -> CommitOrder {
        CommitOrder {
            ranks: ranks as usize,
            marked: BTreeMap::new(),
            waiting: VecDeque::new(),
            told: None,
        }
    }

    /// A rank took its image.
    pub fn mark(&mut self, rank: Rank, epoch: Epoch) {
        self.marked.entry(epoch).or_default().insert(rank);
    }

    /// Central reports this; a commit that it reports again counts once.
    pub fn settled(&mut self, result: Settled) {
        match result {
            Settled::Committed(epoch) if self.told >= Some(epoch) => return,
            Settled::Committed(epoch) => self.told = Some(epoch),
            Settled::Aborted(_) => {}
        }
        self.waiting.push_back(result);
    }

    /// The next report that counts.
    #[expect(clippy::should_implement_trait, reason = "more may come later")]
    pub fn next(&mut self) -> Option<Settled> {
        if let Settled::Committed(epoch) = self.waiting.front()? {
            let marked = self.marked.get(epoch).map_or(0, BTreeSet::len);
            if marked < self.ranks {
                return None;
            }
            self.marked = self.marked.split_off(&Epoch(epoch.0 + 1));
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_when_all_marks_have_come_and_what_follows_after_it() {
        let mut order = CommitOrder::new(2);
        let (first, second) = (Settled::Committed(Epoch(1)), Settled::Aborted(Epoch(2)));
        order.mark(Rank(0), Epoch(1));
        order.settled(first);
        order.settled(second);
        assert_eq!(order.next(), None);
        // A mark of another checkpoint, and the same one again.
        order.mark(Rank(1), Epoch(2));
        order.mark(Rank(0), Epoch(1));
        assert_eq!(order.next(), None);
        order.mark(Rank(1), Epoch(1));
        assert_eq!((order.next(), order.next()), (Some(first), Some(second)));
        order.settled(first);
        assert_eq!(order.next(), None);
        // Marks may come first.
        order.mark(Rank(0), Epoch(3));
        order.mark(Rank(1), Epoch(3));
        order.settled(Settled::Committed(Epoch(3)));
        assert_eq!(order.next(), Some(Settled::Committed(Epoch(3))));
    }
}
