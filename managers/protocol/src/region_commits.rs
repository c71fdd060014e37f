//! Checkpoints of registered memory.
//!
//! They share the numbers of all checkpoints: central gives a number to each, and journals the
//! commit once every rank has stored its memory under it. So central compares them with process
//! images. A rollback never uses registered memory. A job that has lost a host, and has no images
//! that outlive it, starts anew with registered memory, which is its start from then on. The
//! program stores its memory in one call of all ranks, so a rank that is rolled back into the call
//! reports again.

use rejoin_channel_table::{Epoch, Rank};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The committed checkpoints of registered memory whose files are kept.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegionEpochs {
    /// The newest.
    pub newest: Option<Epoch>,
    /// The one before it.
    pub before: Option<Epoch>,
}

impl RegionEpochs {
    /// The checkpoints, the newest first.
    pub fn newest_first(self) -> impl Iterator<Item = Epoch> {
        [self.newest, self.before].into_iter().flatten()
    }

    /// A rank that has stored its memory under this number, and waits for the commit, has waited
    /// long enough.
    #[must_use]
    pub fn answers(self, stored: Epoch) -> bool {
        self.newest >= Some(stored)
    }
}

/// What a rank's program waits for while it stores its registered memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegionWait {
    /// For a number above this one.
    pub number: Option<Epoch>,
    /// For the commit of this number, under which the rank has stored its memory.
    pub commit: Option<Epoch>,
}

/// The result of a rank's report that it has stored its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RegionProgress {
    /// Other ranks are missing, or the report is void.
    Waiting,
    /// Every rank has reported: the caller stores the commit, then says [`RegionCommits::commit`].
    Complete,
    /// The reported number is committed already.
    Known,
}

/// Counts the reports of the ranks, and knows the commits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct RegionCommits {
    committed: RegionEpochs,
    /// With which a rank starts, if central knows that.
    start: Option<Epoch>,
    /// The highest number of a checkpoint before ranks first started so.
    since: Epoch,
    /// The highest number that was reported, and the ranks that have reported it.
    pending: Option<(Epoch, BTreeSet<Rank>)>,
}

impl RegionCommits {
    /// The commits that count.
    pub fn epochs(&self) -> RegionEpochs {
        self.committed
    }

    /// The checkpoint with which a rank starts. `None`: as the launch began.
    pub fn start(&self) -> Option<Epoch> {
        self.start
    }

    /// Images of checkpoints up to this number are of before that, and void.
    pub fn since(&self) -> Epoch {
        self.since
    }

    /// Ranks that start from now on do so with this checkpoint. Images up to `since` are void.
    pub fn start_from(&mut self, start: Option<Epoch>, since: Epoch) {
        (self.start, self.since) = (start, since);
    }

    /// Takes over the commits of an earlier central manager.
    pub fn resume(&mut self, committed: RegionEpochs) {
        self.committed = committed;
    }

    /// A rank, of so many, has stored its memory under this number.
    pub fn stored(&mut self, rank: Rank, epoch: Epoch, ranks: u32) -> RegionProgress {
        if self.committed.answers(epoch) {
            return RegionProgress::Known;
        }
        let newer = self.pending.as_ref().is_none_or(|(at, _)| *at < epoch);
        if newer {
            self.pending = Some((epoch, BTreeSet::new()));
        }
        match &mut self.pending {
            Some((at, reported)) if *at == epoch => {
                reported.insert(rank);
                match reported.len() == ranks as usize {
                    true => RegionProgress::Complete,
                    false => RegionProgress::Waiting,
                }
            }
            _ => RegionProgress::Waiting,
        }
    }

    /// The commit is stored.
    pub fn commit(&mut self, epoch: Epoch) {
        self.pending = None;
        self.committed = RegionEpochs {
            newest: Some(epoch),
            before: self.committed.newest,
        };
    }

    /// The job rolls back to this checkpoint; `None`: to its start. What was stored later is void:
    /// the job may do something else there. Returns whether that was any commit.
    pub fn roll_back(&mut self, to: Option<Epoch>) -> bool {
        let before = self.committed;
        let to = to.or(self.start);
        self.pending = None;
        let counts = |epoch: &Epoch| to.is_some_and(|to| *epoch <= to);
        let mut left = self.committed.newest_first().filter(counts);
        self.committed = RegionEpochs {
            newest: left.next(),
            before: left.next(),
        };
        self.committed != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(newest: Option<u32>, before: Option<u32>) -> RegionEpochs {
        RegionEpochs {
            newest: newest.map(Epoch),
            before: before.map(Epoch),
        }
    }

    #[test]
    fn a_number_is_committed_once_every_rank_has_reported_it() {
        let mut commits = RegionCommits::default();
        let report = |commits: &mut RegionCommits, rank, epoch| {
            let progress = commits.stored(Rank(rank), Epoch(epoch), 2);
            if progress == RegionProgress::Complete {
                commits.commit(Epoch(epoch));
            }
            progress
        };
        assert_eq!(report(&mut commits, 0, 3), RegionProgress::Waiting);
        assert_eq!(report(&mut commits, 0, 3), RegionProgress::Waiting);
        assert_eq!(report(&mut commits, 1, 3), RegionProgress::Complete);
        // A rank that has lost the answer.
        assert_eq!(report(&mut commits, 0, 3), RegionProgress::Known);
        assert_eq!(report(&mut commits, 0, 5), RegionProgress::Waiting);
        // A late report of a call that was begun again.
        assert_eq!(report(&mut commits, 1, 4), RegionProgress::Waiting);
        assert_eq!(report(&mut commits, 1, 5), RegionProgress::Complete);
        assert_eq!(commits.epochs(), both(Some(5), Some(3)));
    }

    #[test]
    fn a_rollback_voids_later_commits_and_reports() {
        let mut commits = RegionCommits::default();
        for epoch in [2, 4] {
            commits.commit(Epoch(epoch));
        }
        assert_eq!(
            commits.stored(Rank(0), Epoch(6), 2),
            RegionProgress::Waiting
        );
        commits.roll_back(Some(Epoch(5)));
        assert_eq!(commits.epochs(), both(Some(4), Some(2)));
        // The report of before does not count.
        assert_eq!(
            commits.stored(Rank(1), Epoch(6), 2),
            RegionProgress::Waiting
        );
        assert!(!commits.roll_back(Some(Epoch(4))), "that one is not later");
        assert_eq!(commits.epochs(), both(Some(4), Some(2)));
        commits.roll_back(Some(Epoch(3)));
        assert_eq!(commits.epochs(), both(Some(2), None));
        commits.start_from(Some(Epoch(2)), Epoch(6));
        assert!(!commits.roll_back(None), "the job starts with that one");
        commits.start_from(None, Epoch(0));
        commits.roll_back(None);
        assert_eq!(commits.epochs(), RegionEpochs::default());
    }
}
