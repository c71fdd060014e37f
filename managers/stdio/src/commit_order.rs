//! Decides when central's reports about checkpoints count for the ranks' output.
//!
//! A rank's mark in its output arrives over the link of its local manager. The report of the commit
//! arrives from central. Either may arrive first. A commit counts when every rank's mark has
//! arrived, and later reports of central count after it.

use rejoin_channel_table::{Epoch, Rank};
use rejoin_managers_protocol::levels::CommittedEpochs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The result of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// No rank rolls back behind it any more.
    Committed(Epoch),
    /// The checkpoint was committed in memory, and no rank rolls back to it any more.
    Superseded(Epoch),
    /// The checkpoint was aborted, or abandoned with its central manager.
    Aborted(Epoch),
}

/// Marks of ranks and reports of central, brought into one order.
#[derive(Debug)]
pub struct CommitOrder {
    /// Number of ranks.
    ranks: usize,
    /// Ranks whose mark has come, of checkpoints that do not count as committed.
    marked: BTreeMap<Epoch, BTreeSet<Rank>>,
    /// Reports of central that do not count yet, and the checkpoint whose marks must come before.
    waiting: VecDeque<(Settled, Option<Epoch>)>,
    /// The last checkpoint behind which no rank rolls back, as central has reported.
    told: Option<Epoch>,
    /// The checkpoints that count, as central has reported.
    counted: CommittedEpochs,
    /// The last commit that counts with all marks.
    passed: Option<Epoch>,
}

impl CommitOrder {
    /// For a job of so many ranks. `from`: the checkpoint from whose files they begin.
    #[must_use]
    pub fn new(ranks: u32, from: Option<Epoch>) -> CommitOrder {
        CommitOrder {
            ranks: ranks as usize,
            marked: BTreeMap::new(),
            waiting: VecDeque::new(),
            told: from,
            counted: CommittedEpochs::only(from),
            passed: from,
        }
    }

    /// All ranks continue from the files of this checkpoint, or start anew. Marks of it and of
    /// earlier ones may never come; of later ones they may be here already.
    pub fn continue_from(&mut self, from: Option<Epoch>) {
        let ranks = u32::try_from(self.ranks).unwrap_or(u32::MAX);
        let next = from.map_or(0, |from| from.0.saturating_add(1));
        let marked = self.marked.split_off(&Epoch(next));
        *self = CommitOrder::new(ranks, from);
        self.marked = marked;
    }

    /// The newest checkpoint that outlives the loss of a host, if every rank's mark has come, and
    /// so all that it wrote before.
    #[must_use]
    pub fn outlives_hosts(&self) -> Option<Epoch> {
        let outlives = self.counted.partner;
        outlives.filter(|epoch| Some(*epoch) <= self.passed)
    }

    /// A rank took its image.
    pub fn mark(&mut self, rank: Rank, epoch: Epoch) {
        self.marked.entry(epoch).or_default().insert(rank);
    }

    /// Central reports that these checkpoints count from now on.
    pub fn counted(&mut self, counted: CommittedEpochs) {
        let before = std::mem::replace(&mut self.counted, counted);
        if let Some(oldest) = counted.oldest() {
            self.settled(Settled::Committed(oldest));
        }
        let superseded = before.newest_first().filter(|e| !counted.contains(*e));
        for epoch in superseded.filter(|epoch| Some(*epoch) > self.told) {
            // A rank that rolled back to it reports that before it marks a later one.
            let later = counted.memory.max(Some(epoch));
            self.waiting.push_back((Settled::Superseded(epoch), later));
        }
    }

    /// Central reports this; a commit that it reports again counts once.
    pub fn settled(&mut self, result: Settled) {
        match result {
            Settled::Committed(epoch) if self.told >= Some(epoch) => {}
            Settled::Committed(epoch) => {
                self.told = Some(epoch);
                self.waiting.push_back((result, Some(epoch)));
            }
            Settled::Superseded(epoch) => self.waiting.push_back((result, Some(epoch))),
            Settled::Aborted(_) => self.waiting.push_back((result, None)),
        }
    }

    /// The next report that counts.
    #[expect(clippy::should_implement_trait, reason = "more may come later")]
    pub fn next(&mut self) -> Option<Settled> {
        let (result, marks) = *self.waiting.front()?;
        if let Some(epoch) = marks {
            let marked = self.marked.get(&epoch).map_or(0, BTreeSet::len);
            if marked < self.ranks {
                return None;
            }
        }
        match result {
            Settled::Committed(epoch) => {
                self.passed = Some(epoch);
                self.marked = self.marked.split_off(&Epoch(epoch.0 + 1));
            }
            Settled::Superseded(epoch) => self.marked.retain(|other, _| *other != epoch),
            Settled::Aborted(_) => {}
        }
        self.waiting.pop_front();
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_counts_when_all_marks_have_come_and_what_follows_after_it() {
        let mut order = CommitOrder::new(2, None);
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

    #[test]
    fn checkpoints_of_an_earlier_launch_have_no_marks_in_this_one() {
        let mut order = CommitOrder::new(1, Some(Epoch(4)));
        assert_eq!(order.outlives_hosts(), Some(Epoch(4)));
        let counted = |memory, file| CommittedEpochs {
            memory: Some(Epoch(memory)),
            writing: None,
            file: Some(Epoch(file)),
            copying: None,
            partner: Some(Epoch(file)),
        };
        order.mark(Rank(0), Epoch(6));
        order.counted(counted(6, 4));
        assert_eq!(order.next(), None, "4 counts already");
        order.mark(Rank(0), Epoch(7));
        order.counted(counted(8, 7));
        assert_eq!(order.outlives_hosts(), None, "7 does not count yet");
        assert_eq!(order.next(), Some(Settled::Committed(Epoch(7))));
        assert_eq!(order.outlives_hosts(), Some(Epoch(7)));
    }

    #[test]
    fn marks_that_come_before_the_report_of_a_lost_host_count() {
        let mut order = CommitOrder::new(2, None);
        order.mark(Rank(0), Epoch(5));
        order.mark(Rank(0), Epoch(7));
        order.continue_from(Some(Epoch(5)));
        assert_eq!(order.outlives_hosts(), Some(Epoch(5)));
        order.mark(Rank(1), Epoch(7));
        order.settled(Settled::Committed(Epoch(7)));
        assert_eq!(order.next(), Some(Settled::Committed(Epoch(7))));
    }

    #[test]
    fn a_checkpoint_in_memory_that_another_supersedes_is_settled_after_its_marks() {
        let mut order = CommitOrder::new(1, None);
        let counted = |memory, writing: Option<u32>, file: Option<u32>| CommittedEpochs {
            memory: Some(Epoch(memory)),
            writing: writing.map(Epoch),
            file: file.map(Epoch),
            copying: None,
            partner: file.map(Epoch),
        };
        for epoch in [1, 2, 3] {
            order.mark(Rank(0), Epoch(epoch));
        }
        order.counted(counted(1, Some(1), None));
        assert_eq!(order.next(), Some(Settled::Committed(Epoch(1))));
        order.counted(counted(2, Some(1), None));
        order.counted(counted(3, Some(1), None));
        assert_eq!(order.next(), Some(Settled::Superseded(Epoch(2))));
        order.counted(counted(4, Some(4), Some(1)));
        // It was the newest, and is not needed for files. A rank may have rolled back to it.
        assert_eq!(order.next(), None, "the mark of 4 has not come");
        order.mark(Rank(0), Epoch(4));
        assert_eq!(order.next(), Some(Settled::Superseded(Epoch(3))));
        order.counted(counted(5, Some(4), Some(1)));
        order.counted(counted(6, Some(4), Some(1)));
        order.mark(Rank(0), Epoch(5));
        assert_eq!(order.next(), None, "the mark of 6 has not come");
        order.mark(Rank(0), Epoch(6));
        assert_eq!(order.next(), Some(Settled::Superseded(Epoch(5))));
        order.counted(counted(6, None, Some(4)));
        assert_eq!(order.next(), Some(Settled::Committed(Epoch(4))));
        // A rollback to the checkpoint in files makes the one in memory void.
        order.counted(counted(4, None, Some(4)));
        assert_eq!(order.next(), Some(Settled::Superseded(Epoch(6))));
        assert_eq!(order.next(), None);
    }
}
